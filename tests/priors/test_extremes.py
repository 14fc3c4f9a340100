"""Rings and Student t far out and at their centers: digits are kept."""

import math

import numpy as np
import pytest
import torch

from discoformer.priors import (
    Affine,
    Ring,
    StudentT,
    Warped,
)

F64 = torch.float64


def test_ring_is_finite_at_its_center() -> None:
    for dtype in (torch.float32, F64):
        ring = Ring(torch.tensor(2.0, dtype=dtype), torch.tensor(0.2, dtype=dtype))
        log_density, score = ring.estimate(torch.zeros(1, 2, dtype=dtype))
        assert log_density is not None and bool(torch.isfinite(log_density).all())
        assert float(score.abs().max()) == 0


@pytest.mark.parametrize("nu", [0.5, 3.0, 1e10])
def test_student_t_keeps_its_digits_far_out_and_near_the_center(nu: float) -> None:
    points = torch.tensor([[3e200, 4e200], [3e8, 4e8], [0.3, 0.4], [3e-9, 4e-9], [0.0, 0.0]], dtype=F64)
    log_density, score = StudentT(nu).estimate(points)
    radius = np.array([5e200, 5e8, 0.5, 5e-9, 0.0]) / math.sqrt(nu)
    with np.errstate(over="ignore"):
        log = np.where(radius > 1e100, 2 * np.log(np.maximum(radius, 1)), np.log1p(radius**2))
    constant = math.lgamma(nu / 2 + 1) - math.lgamma(nu / 2) - math.log(nu * math.pi)
    np.testing.assert_allclose(log_density.numpy(), constant - (nu + 2) / 2 * log, rtol=1e-13, atol=1e-13)
    # In the plane the score is -(nu + 2) x / (nu + |x|^2), and far out -(nu + 2) x / |x|^2.
    expected = -(nu + 2) * points[1:] / (nu + points[1:].square().sum(-1, keepdim=True))
    torch.testing.assert_close(score[1:], expected, rtol=1e-13, atol=0)
    torch.testing.assert_close(score[0], -(nu + 2) * points[0] / 5e200 / 5e200, rtol=1e-13, atol=0)


def test_ring_keeps_its_digits_far_out_and_near_the_center() -> None:
    ring = Ring(torch.tensor(2.0, dtype=F64), torch.tensor(0.5, dtype=F64))
    directions = torch.tensor([[0.6, 0.8], [0.6, 0.8], [-0.6, 0.8]], dtype=F64)
    for exponent in (-200, 0, 200):  # through a warp: queries this far themselves are refused
        unit = torch.full((2,), 10.0 ** (exponent / 2), dtype=F64)
        moved = Warped(ring, Affine(1 / unit, torch.zeros(2, dtype=F64)))
        log_density, score = moved.estimate(directions * unit)
        u = (exponent * math.log(10) - math.log(2)) / 0.5
        log = -u * u / 2 - 1.5 * math.log(2 * math.pi) - math.log(0.5) - exponent * math.log(10)
        assert log_density is not None
        torch.testing.assert_close(log_density, torch.full((3,), log, dtype=F64), rtol=1e-13, atol=0)
        torch.testing.assert_close(score, -(u / 0.5 + 2) * directions / unit, rtol=1e-13, atol=0)

"""The ring is finite at its center and keeps its digits far out."""

import math

import torch
from helpers import F64

from discoformer.priors import (
    Affine,
    Ring,
    Warped,
)


def test_ring_is_finite_at_its_center() -> None:
    for dtype in (torch.float32, F64):
        ring = Ring(torch.tensor(2.0, dtype=dtype), torch.tensor(0.2, dtype=dtype))
        log_density, score = ring.estimate(torch.zeros(1, 2, dtype=dtype))
        assert bool(torch.isfinite(log_density).all())
        assert float(score.abs().max()) == 0


def test_ring_keeps_its_digits_far_out_and_near_the_center() -> None:
    ring = Ring(torch.tensor(2.0, dtype=F64), torch.tensor(0.5, dtype=F64))
    directions = torch.tensor([[0.6, 0.8], [0.6, 0.8], [-0.6, 0.8]], dtype=F64)
    for exponent in (-200, 0, 200):  # through a warp: queries this far themselves are refused
        unit = torch.full((2,), 10.0 ** (exponent / 2), dtype=F64)
        moved = Warped(ring, Affine(1 / unit, torch.zeros(2, dtype=F64)))
        log_density, score = moved.estimate(directions * unit)
        u = (exponent * math.log(10) - math.log(2)) / 0.5
        log = -u * u / 2 - 1.5 * math.log(2 * math.pi) - math.log(0.5) - exponent * math.log(10)
        torch.testing.assert_close(log_density, torch.full((3,), log, dtype=F64), rtol=1e-13, atol=0)
        torch.testing.assert_close(score, -(u / 0.5 + 2) * directions / unit, rtol=1e-13, atol=0)

"""The discrepancy equals its definition; Stein's particles settle closer to the law than draws of it."""

import pytest
import torch
from helpers import F64, normal
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.priors import gaussian
from discoformer.samplers import kernel_stein_discrepancy, svgd

LAW = gaussian(torch.tensor([1.0, -2.0], dtype=F64), torch.tensor([[1.0, 0.5], [0.5, 2.0]], dtype=F64))


def test_the_discrepancy_is_its_definition() -> None:
    points, width = normal(5, 2), 1.7
    weights = torch.tensor([0.1, 0.3, 0.2, 0.2, 0.2], dtype=F64)

    def kernel(x: Tensor, y: Tensor) -> Tensor:
        return (1 + (x - y).square().sum() / width**2) ** -0.5

    by_first, by_second = torch.func.grad(kernel, 0), torch.func.grad(kernel, 1)
    total = 0.0
    for x, a in zip(points, weights, strict=True):
        for y, b in zip(points, weights, strict=True):
            s, t = LAW.score(torch.stack([x, y]))
            trace = torch.func.jacrev(by_first, 1)(x, y).trace()
            terms = s @ t * kernel(x, y) + s @ by_second(x, y) + t @ by_first(x, y) + trace
            total += float(a * b * terms)
    found = kernel_stein_discrepancy(points, LAW, weights=weights, bandwidth=width)
    assert found == pytest.approx(total**0.5, rel=1e-12)


def test_units_and_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    points = LAW.sample(60, torch.Generator().manual_seed(0))
    whole = kernel_stein_discrepancy(points, LAW)
    monkeypatch.setattr("discoformer.samplers.stein_variational._PAIRS", 100)
    assert kernel_stein_discrepancy(points, LAW) == pytest.approx(whole, rel=1e-12)
    scaled = kernel_stein_discrepancy(1000 * points, lambda x: LAW.score(x / 1000) / 1000)
    assert 1000 * scaled == pytest.approx(whole, rel=1e-9)


def test_particles_settle_closer_than_draws() -> None:
    points = svgd(LAW, 3 * normal(150, 2) + 5, steps=600)
    drawn = kernel_stein_discrepancy(LAW.sample(150, torch.Generator().manual_seed(0)), LAW, bandwidth=1.0)
    assert kernel_stein_discrepancy(points, LAW, bandwidth=1.0) < 0.5 * drawn


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(DataError, match="bandwidth"):
        kernel_stein_discrepancy(normal(5, 2), LAW, bandwidth=0.0)
    with pytest.raises(DataError, match="give positive numbers"):
        svgd(LAW, normal(5, 2), step_size=0.0)


def test_the_bandwidth_is_that_of_all_rows_also_of_sorted_ones() -> None:
    points = normal(5000, 1)
    mixed, in_order = (kernel_stein_discrepancy(x, lambda x: -x) for x in (points, points.sort(0).values))
    assert in_order == pytest.approx(mixed, rel=0.1)

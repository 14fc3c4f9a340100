"""Priors over distributions: what is drawn stays in its ranges."""

import math
from typing import Any

import pytest
import torch
from helpers import F64, seeded
from scipy import stats

from discoformer.priors import (
    Affine,
    AffinePrior,
    GaussianPrior,
    GMMPrior,
    LocationScaleMixture,
    Normal,
    Warped,
)


@pytest.mark.parametrize(("reading", "power"), [("std", 1), ("variance", 2)])
def test_gmm_prior_keeps_its_ranges_in_both_readings(reading: Any, power: int) -> None:
    prior = GMMPrior(reading=reading, covariance="either", weights="either")
    seen: dict[str, set[Any]] = {"k": set(), "rotated": set(), "equal": set()}
    scales = []
    for seed in range(120):
        x, y = prior.pair(8, 2, seeded(seed), F64)
        assert isinstance(x, LocationScaleMixture) and isinstance(y, LocationScaleMixture)
        assert x.means.shape == y.means.shape and not torch.equal(x.means, y.means)
        assert (x.rotation is None) == (y.rotation is None)
        assert float(x.means.abs().max()) <= 3
        torch.testing.assert_close(x.weights.sum(-1), torch.ones(8, dtype=F64))
        scales.append(x.std.flatten() ** power)
        k = x.weights.shape[-1]
        seen["k"].add(k)
        seen["rotated"].add(x.rotation is not None)
        if k > 1:
            seen["equal"] |= set((x.weights.std(-1) < 1e-12).tolist())
    values = torch.cat(scales)
    assert 0.2 <= float(values.min()) < 0.21 and 0.99 < float(values.max()) <= 1
    assert abs(float(values.mean()) - 0.6) < 0.02  # uniform in the quantity that was named
    assert seen == {"k": set(range(1, 11)), "rotated": {True, False}, "equal": {True, False}}


def test_paper_default_is_diagonal_with_equal_weights() -> None:
    for seed in range(10):
        target = GMMPrior().draw(3, 2, seeded(seed), F64)
        assert isinstance(target, LocationScaleMixture) and target.rotation is None
        assert bool((target.weights == 1 / target.weights.shape[-1]).all())


def test_gaussian_prior_is_gaussian_with_log_normal_spectrum() -> None:
    target = GaussianPrior(spread=2.0, scale=3.0, anisotropy=0.4).draw(2_000, 2, seeded(), F64)
    assert isinstance(target, LocationScaleMixture) and target.family == Normal()
    assert target.weights.shape == (2_000, 1) and float(target.means.abs().max()) <= 2
    logs = target.std.log().flatten()
    assert abs(float(logs.mean()) - math.log(3.0)) < 0.05 and abs(float(logs.std()) - 0.4) < 0.03


def test_affine_prior_scales_over_orders_of_magnitude_and_pairs_share_the_map() -> None:
    prior = AffinePrior(base=GMMPrior(modes=(2, 2)), location=(0.01, 100.0), scale=(1e-3, 1e3))
    x, y = prior.pair(2_000, 1, seeded(), F64)
    assert isinstance(x, Warped) and isinstance(y, Warped) and x.warp is y.warp
    assert isinstance(x.warp, Affine)
    magnitude = x.warp.shift.abs().log10()
    assert abs(float((x.warp.shift > 0).double().mean()) - 0.5) < 0.05
    assert stats.kstest(magnitude.flatten().numpy(), stats.uniform(-2, 4).cdf).pvalue > 1e-3
    assert stats.kstest(x.warp.scale.log10().flatten().numpy(), stats.uniform(-3, 6).cdf).pvalue > 1e-3
    assert not torch.equal(x.base.sample(1, seeded()), y.base.sample(1, seeded()))

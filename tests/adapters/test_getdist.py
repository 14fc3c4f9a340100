"""Densities in GetDist: the same moments, names and log densities."""

import numpy as np
import pytest
from helpers import gmm_sample

from discoformer import DiScoFormer
from discoformer.adapters import to_getdist
from discoformer.core.checks import DataError
from discoformer.models.registry import load_model

pytest.importorskip("getdist")
FIELD = load_model("default").fit(gmm_sample(150, 2))


def test_samples_have_the_moments_and_the_log_density() -> None:
    samples = to_getdist(FIELD, ["a", "b"], draws=5000)
    assert [name.name for name in samples.paramNames.names] == ["a", "b"]
    draws = FIELD.sample(5000).numpy()
    np.testing.assert_allclose(
        samples.mean(["a", "b"]), draws.mean(0), atol=5 * draws.std(0).max() / 5000**0.5
    )
    np.testing.assert_allclose(samples.loglikes[:20], -FIELD.log_density(samples.samples[:20]))
    assert samples.get2DDensity("a", "b") is not None


def test_names_have_to_fit() -> None:
    with pytest.raises(DataError, match=r"1 name\(s\) for 2"):
        to_getdist(FIELD, ["a"])


def test_bounds_are_ranges() -> None:
    waiting = np.random.default_rng(0).exponential(size=(500, 2))
    samples = to_getdist(DiScoFormer(bounds=[(0, None), None]).fit(waiting), ["a", "b"], draws=5000)
    lows = [samples.ranges.getLower(name) for name in "ab"]
    assert lows == [0, None]
    assert samples.get1DDensity("a").Prob(0.01) > 0.9  # not smoothed over the bound

"""Levels and p-values: what they promise, on laws that are known."""

import numpy as np
import pytest
from scipy import stats

from discoformer import DataError
from discoformer.baselines.kde import KDE
from discoformer.detection.levels import conformal_p_values, discoveries, drawn_log_densities, levels


def test_the_level_of_a_normal_law_is_a_chi_square_tail() -> None:
    field = KDE(1.0).fit(np.zeros((2, 2)) + 1e-9 * np.arange(2)[:, None])
    rows = np.array([[0.0, 1.0], [2.0, 0.0], [1.0, -2.5]])
    found = levels(field.log_density(rows), drawn_log_densities(field))
    np.testing.assert_allclose(found, stats.chi2.sf((rows**2).sum(1), 2), atol=0.015)


def test_p_values_are_uniform_for_exchangeable_rows() -> None:
    rng = np.random.default_rng(0)
    found = [conformal_p_values(rng.normal(size=1), rng.normal(size=19))[0] for _ in range(4000)]
    for share in (0.05, 0.1, 0.5):
        assert np.mean(np.array(found) <= share + 1e-12) == pytest.approx(share, abs=0.025)


def test_false_discoveries_are_as_rare_as_asked() -> None:
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(300):
        scores = np.r_[rng.normal(size=180), rng.normal(-6, 1, size=20)]
        found = discoveries(conformal_p_values(scores, rng.normal(size=2000)), 0.1)
        shares.append(found[:180].sum() / max(1, found.sum()))
    assert np.mean(shares) == pytest.approx(0.09, abs=0.015)
    assert not discoveries(np.array([0.5, 0.9])).any()
    with pytest.raises(DataError, match="between 0 and 1"):
        discoveries(np.array([0.5]), 2.0)

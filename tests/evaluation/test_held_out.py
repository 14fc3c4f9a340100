"""Held-out likelihood: every row once, as the estimator would fit the others."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.model_selection import KFold

from discoformer import DiScoFormer
from discoformer.baselines import KDE, GaussianMixtureBIC
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.core.checks import DataError
from discoformer.evaluation.held_out import held_out_log_likelihood
from discoformer.methods import resolve


@pytest.fixture
def sample() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(60, 2)) * [1.0, 100.0]


def test_every_row_is_held_out_once(sample: np.ndarray) -> None:
    result = held_out_log_likelihood(KDE(), sample, folds=4, seed=3)
    expected = np.full(60, np.nan)
    for inside, outside in KFold(4, shuffle=True, random_state=3).split(sample):
        expected[outside] = KDE().fit(sample[inside]).log_density(sample[outside])
    np.testing.assert_array_equal(result.log_density, expected)
    assert result.mean == pytest.approx(expected.mean())
    assert result.standard_error == pytest.approx(expected.std(ddof=1) / np.sqrt(60))


def test_one_component_is_the_gaussian_of_the_other_folds() -> None:
    x = np.random.default_rng(1).normal(size=(50, 1))
    one = GaussianMixtureBIC(components=[1])
    result = held_out_log_likelihood(one, x, folds=50)
    rest = [np.delete(x[:, 0], i) for i in range(50)]
    expected = [norm.logpdf(x[i, 0], r.mean(), r.std()) for i, r in enumerate(rest)]
    np.testing.assert_allclose(result.log_density, expected, rtol=1e-5)  # up to the 1e-6 in the variance


def test_differences_do_not_depend_on_the_units(sample: np.ndarray) -> None:
    methods = [KDE("loo"), GaussianMixtureBIC(components=[1, 2])]
    before = [held_out_log_likelihood(method, sample) for method in methods]
    after = [held_out_log_likelihood(method, 1e-3 * sample - 5.0) for method in methods]
    assert after[0].minus(after[1]) == pytest.approx(before[0].minus(before[1]), rel=1e-6)


@pytest.mark.parametrize("folds", [1, 61])
def test_impossible_folds_are_refused(sample: np.ndarray, folds: int) -> None:
    with pytest.raises(DataError, match="choose a number from 2 to 60"):
        held_out_log_likelihood(KDE(), sample, folds=folds)


def test_few_rows_are_compared_as_the_estimator_fits_them(model_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(9, 8))
    result = held_out_log_likelihood(FitRecipe(resolve(model_path).method, drop=False), x, folds=9)
    expected = [
        float(DiScoFormer(model=model_path).fit(np.delete(x, i, 0)).score_samples(x[[i]])[0])
        for i in range(9)
    ]
    np.testing.assert_allclose(result.log_density, expected, rtol=1e-9)

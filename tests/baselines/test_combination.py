"""A Gaussian mixture per combination of labels: shares times densities, sums over gaps."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from sklearn.mixture import GaussianMixture

from discoformer.baselines.combination import MixturePerCombination
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.columns.kinds import ColumnKind
from discoformer.core.checks import DataError
from discoformer.core.fields import PointDensity, as_point_density

KINDS = [ColumnKind(), ColumnKind("category", levels=3), ColumnKind()]


def table(rows: int = 240) -> np.ndarray:
    rng = np.random.default_rng(0)
    label = rng.choice(3, rows, p=[0.6, 0.38, 0.02])
    x = rng.normal(label, 1.0)
    return np.column_stack([x, label, x + rng.normal(size=rows)])


def fitted(values: np.ndarray, kinds: list[ColumnKind] = KINDS) -> PointDensity:
    return as_point_density(FitRecipe(MixturePerCombination(), kinds=kinds, drop=False).fit(values))


def test_complete_rows_have_the_share_of_their_labels_times_a_mixture_of_scikit_learn() -> None:
    values = table()
    numbers = values[:, [0, 2]]
    center, scale = numbers.mean(0), numbers.std(0)
    inside = (numbers - center) / scale
    groups = {label: inside[values[:, 1] == label] for label in (0.0, 1.0)}
    expected = np.empty(len(values))
    for row, (label, point) in enumerate(zip(values[:, 1], inside, strict=True)):
        own = groups.get(label, inside)  # few rows have the last label
        mixtures = [
            GaussianMixture(k, n_init=3, reg_covar=1e-4, random_state=0).fit(own) for k in range(1, 6)
        ]
        best = min(mixtures, key=lambda fit: fit.bic(own))
        share = ((values[:, 1] == label).sum() + 1 / 3) / (len(values) + 1)
        expected[row] = np.log(share) + best.score(point[None]) - np.log(scale).sum()
        if row == 20:
            break
    found = fitted(values).log_density(values)
    np.testing.assert_allclose(found[:21], expected[:21], rtol=1e-8)


def test_what_is_there_counts_in_a_row_with_gaps() -> None:
    field = fitted(table())
    nan = np.nan
    of_label = field.log_density(np.array([[nan, 1.0, nan]]))
    np.testing.assert_allclose(of_label, np.log((np.sum(table()[:, 1] == 1) + 1 / 3) / 241))
    whole = sum(np.exp(field.log_density(np.array([[0.3, float(k), 0.1]]))) for k in range(3))
    np.testing.assert_allclose(np.exp(field.log_density(np.array([[0.3, nan, 0.1]]))), whole)
    mass, _ = quad(lambda y: np.exp(field.log_density(np.array([[0.3, 1.0, y]])))[0], -12, 12)
    np.testing.assert_allclose(np.exp(field.log_density(np.array([[0.3, 1.0, nan]]))), mass, rtol=1e-6)


def test_the_score_is_the_gradient() -> None:
    field = fitted(table())
    rows = torch.tensor([[0.3, 1.0, 0.1], [0.2, torch.nan, 0.5], [0.2, 0.0, torch.nan]], dtype=torch.float64)
    for column in (0, 2):
        step = torch.zeros_like(rows)
        step[:, column] = 1e-5
        slope = (field.log_density(rows + step) - field.log_density(rows - step)) / 2e-5
        there = ~rows[:, column].isnan()
        np.testing.assert_allclose(field.score(rows)[there, column], slope[there], atol=1e-6)


def test_zeros_with_a_probability_are_labels_too() -> None:
    values = table()[:, [0, 2]]
    values[::3, 1] = 0.0
    field = fitted(values, [ColumnKind(), ColumnKind(atoms=(0.0,))])
    mass, _ = quad(lambda x: np.exp(field.log_density(np.array([[x, 0.0]])))[0], -15, 15)
    np.testing.assert_allclose(mass, (80 + 1 / 2) / 241, rtol=1e-6)


def test_weights_and_nothing_but_gaps_are_refused() -> None:
    recipe = FitRecipe(MixturePerCombination(), kinds=KINDS, drop=False)
    with pytest.raises(DataError, match="take no sample weights"):
        recipe.fit(table(), np.arange(1, 241))
    values = table()
    values[::2, 0] = values[1::2, 2] = np.nan
    with pytest.raises(DataError, match="fewer than 4 rows have all numbers"):
        recipe.fit(values)

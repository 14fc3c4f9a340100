"""Moments in closed form are those of draws, and a margin has those of the whole."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from discoformer import DiScoFormer
from discoformer.baselines.kde import KDE
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.columns.kinds import ColumnKind
from discoformer.core.fields import Density, as_density
from discoformer.functionals.draws import draw
from discoformer.functionals.moments import column_moments, covariance
from discoformer.methods import resolve

RNG = np.random.default_rng(0)
ROWS = torch.from_numpy(RNG.normal(size=(150, 2)) @ np.array([[2.0, 1.0], [0.0, 1.0]]) + [5.0, -3.0])


def kernel() -> Density:
    return as_density(KDE("scott").fit(ROWS))


def mixture() -> Density:
    return as_density(DiScoFormer(axes=False).fit(ROWS).field_)


def with_dependent() -> Density:
    rows = torch.cat([ROWS, ROWS.sum(-1, keepdim=True) + 7], -1)
    with pytest.warns(UserWarning):
        return as_density(FitRecipe(KDE("scott")).fit(rows))


@pytest.mark.parametrize("make", [kernel, mixture, with_dependent])
def test_closed_form_agrees_with_draws(make: Callable[[], Density]) -> None:
    field = make()
    known = field.moments()
    assert known is not None
    points = draw(field, 40_000, seed=3)
    spread = points.std(0)
    torch.testing.assert_close(known[0] / spread, points.mean(0) / spread, rtol=0, atol=0.03)
    scale = spread[:, None] * spread
    torch.testing.assert_close(known[1] / scale, points.T.cov() / scale, rtol=0, atol=0.08)


@pytest.mark.parametrize("bounds", [None, [(-20.0, np.inf), (-np.inf, np.inf)]])
def test_a_margin_has_the_moments_of_the_whole(bounds: list[object] | None) -> None:
    field = as_density(FitRecipe(resolve("default").method, bounds=bounds).fit(ROWS))
    mean, std = column_moments(field)
    for j in range(2):
        own = column_moments(field.marginal([j]))
        np.testing.assert_allclose([own[0][0], own[1][0]], [mean[j], std[j]], rtol=1e-9)
        np.testing.assert_allclose(covariance(field)[j, j], std[j] ** 2, rtol=1e-6)


def test_labels_have_no_moments() -> None:
    rows = torch.stack([torch.arange(60.0) % 3, torch.arange(60.0) ** 0.5], -1).double()
    kinds = [ColumnKind("category", levels=3), ColumnKind()]
    field = as_density(FitRecipe(resolve("default").method, kinds=kinds).fit(rows))
    assert np.isnan(column_moments(field)[0]).tolist() == [True, False]
    assert np.isnan(covariance(field)).tolist() == [[True, True], [True, False]]

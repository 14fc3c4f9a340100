"""The mode is the densest value that a table can have."""

import itertools

import numpy as np
import pytest
import torch

from discoformer.baselines.kde import KDE
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.columns.kinds import ColumnKind
from discoformer.core.fields import as_density
from discoformer.functionals.modes import mode
from discoformer.methods import resolve


def test_the_mode_is_where_the_score_vanishes() -> None:
    x = torch.randn(80, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    field = KDE().fit(x)
    top = torch.from_numpy(mode(field)).unsqueeze(0)
    assert float(field.score(top).abs().max()) < 1e-3
    assert float(field.log_density(top)) >= float(field.log_density(x).max())


def test_of_labels_and_counts_no_other_row_is_likelier() -> None:
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.integers(0, 2, 200), rng.poisson(3, 200), rng.poisson(6, 200)]).astype(float)
    kinds = [ColumnKind("category", levels=2), ColumnKind(step=1.0), ColumnKind(step=1.0)]
    field = as_density(FitRecipe(resolve("default").method, kinds=kinds).fit(torch.from_numpy(rows)))
    top = mode(field)
    every = torch.tensor(list(itertools.product(range(2), range(12), range(20)))).double()
    found = field.log_density(every)
    np.testing.assert_array_equal(top, every[found.argmax()])


@pytest.mark.parametrize("unit", [1.0, 1e-5])
def test_an_atom_is_denser_than_any_other_value(unit: float) -> None:
    rng = np.random.default_rng(0)
    rows = np.column_stack(
        [np.where(rng.random(200) < 0.3, 0.0, rng.normal(9, 1, 200)), rng.normal(size=200)]
    )
    kinds = [ColumnKind(atoms=(0.0,)), ColumnKind()]
    field = as_density(FitRecipe(resolve("default").method, kinds=kinds).fit(torch.from_numpy(rows * unit)))
    top = mode(field)
    assert top[0] == 0
    assert abs(float(field.score(torch.from_numpy(top[None]))[0, 1])) * unit < 1e-2

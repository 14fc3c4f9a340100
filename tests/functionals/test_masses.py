"""Masses of regions: ends are inside, and one column in closed form agrees with draws of all."""

import math

import numpy as np
import pytest
import torch

from discoformer import DataError
from discoformer.baselines.kde import KDE
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.columns.kinds import ColumnKind
from discoformer.core.fields import Density, as_density
from discoformer.functionals.masses import probability
from discoformer.methods import resolve

TWO = KDE(1.0).fit([[-9.0], [9.0], [9.0]])
PLANE = KDE(1.0).fit([[0.0, 5.0], [0.0, 5.0]])
KINDS = [ColumnKind(atoms=(0.0,)), ColumnKind(step=0.1), ColumnKind("category", levels=2)]


@pytest.fixture(scope="module")
def mixed() -> Density:
    rng = np.random.default_rng(4)
    amount = np.where(rng.random(150) < 0.3, 0.0, rng.normal(5, 1, 150))
    rows = np.column_stack([amount, rng.binomial(9, 0.4, 150) / 10, rng.integers(0, 2, 150)])
    return as_density(FitRecipe(resolve("default").method, kinds=KINDS).fit(torch.from_numpy(rows)))


def test_probabilities_of_boxes_and_of_any_region() -> None:
    assert probability(TWO, {0: (None, 0.0)}).value == pytest.approx(1 / 3)
    value, error = probability(PLANE, {0: (0.0, None), 1: (None, 5.0)})
    assert abs(value - 0.25) < 4 * error
    value, error = probability(PLANE, lambda rows: ((rows - [0.0, 5.0]) ** 2).sum(1) < 1)
    assert abs(value - (1 - np.exp(-0.5))) < 4 * error
    assert probability(TWO, {0: 9.0}).value == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("region", "message"),
    [
        ({2: (0.0, 1.0)}, "columns 0 to 1"),
        ({}, "columns 0 to 1"),
        ({0: (1, 0)}, "column 0 from 1 to 0: give the lower end first"),
        ({0: (0, math.nan)}, "None for an open end"),
        ({0: (1, 2, 3)}, "or a single value"),
        ({0: "many"}, "or a single value"),
        ({0: None}, "or a single value"),
    ],
)
def test_what_is_no_region_is_refused(region: dict[int, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        probability(PLANE, region)


@pytest.mark.parametrize(
    ("column", "ends"),
    [
        (0, (0, 0)),
        (0, 0),
        (0, (0, None)),
        (0, (4, None)),
        (1, 0.3),
        (1, (0.1, 0.1 + 0.2)),
        (2, 1),
        (2, (0, 1)),
    ],
)
def test_one_column_agrees_with_draws_of_two(mixed: Density, column: int, ends: object) -> None:
    value, _ = probability(mixed, {column: ends})
    drawn, error = probability(mixed, {column: ends, (column + 1) % 2: (None, None)})
    assert abs(value - drawn) <= 4 * error + 1e-3


def test_masses_of_all_values_add_up(mixed: Density) -> None:
    places = [probability(mixed, {1: k / 10}).value for k in range(-10, 20)]
    assert sum(places) == pytest.approx(1, abs=1e-3)
    assert probability(mixed, {1: (0.2, 0.5)}).value == pytest.approx(sum(places[12:16]), abs=1e-9)
    above = probability(mixed, {0: (1e-9, None)}).value
    below = probability(mixed, {0: (None, -1e-9)}).value
    assert probability(mixed, {0: 0}).value + above + below == pytest.approx(1)
    assert probability(mixed, {0: (None, None)}).value == 1


@pytest.mark.parametrize("step", [0.0, 1.0])
def test_a_circle_is_run_around_in_one_direction(step: float) -> None:
    hours = np.random.default_rng(0).normal(23.5, 2, 200) % 24
    rows = torch.from_numpy(hours[:, None].round() % 24 if step else hours[:, None])
    kind = ColumnKind("circular", period=24.0, step=step)
    field = as_density(FitRecipe(resolve("default").method, kinds=[kind]).fit(rows))
    draws = field.sample(4000, torch.Generator().manual_seed(1))[:, 0].numpy()
    night = probability(field, {0: (22, 2)}).value
    assert night == pytest.approx(((draws >= 22) | (draws <= 2)).mean(), abs=0.03)
    rest = probability(field, {0: (2 + (step or 1e-9), 22 - (step or 1e-9))}).value
    assert night + rest == pytest.approx(1, abs=1e-6)
    assert probability(field, {0: (0, None)}).value == pytest.approx(1)
    assert probability(field, {0: (5, 5 + 24)}).value == pytest.approx(1)
    assert probability(field, {0: 12.25}).value == pytest.approx(0, abs=1e-6)

"""Bounds of columns that follow from others hold in draws and at queries."""

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import fit_quietly, mixture_network
from numpy.typing import NDArray

from discoformer import DataError, DiScoFormer, SupportWarning
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.columns.left_out import Restriction

RNG = np.random.default_rng(0)
pytestmark = pytest.mark.filterwarnings("ignore::discoformer.SupportWarning")


def shares(n: int = 300) -> NDArray[np.float64]:
    return RNG.dirichlet([2.0, 1.0, 1.0], n)


@pytest.mark.parametrize("model", ["network", "kde-scott"])
def test_no_share_of_a_whole_is_negative(model: str, model_path: Path) -> None:
    est = DiScoFormer(model=model_path if model == "network" else model, bounds=(0, None)).fit(shares())
    drawn = est.sample(10_000, random_state=0)
    assert (drawn >= 0).all()
    np.testing.assert_allclose(drawn.sum(1), 1, atol=1e-12)
    inside, without, contradicted = est.score_samples([[0.5, 0.3, 0.2], [0.8, 0.4, -0.2], [0.8, 0.4, 0.1]])
    assert math.isfinite(inside)
    assert without == contradicted == -math.inf
    np.testing.assert_array_equal(est.score_function([[0.8, 0.4, -0.2]]), 0)


def test_what_is_left_after_the_cut_has_mass_one() -> None:
    field = fit_quietly(FitRecipe(mixture_network(), [(0.0, math.inf)] * 3), shares())
    steps = (np.arange(400) + 0.5) / 400
    s, t = (grid.ravel() for grid in np.meshgrid(steps, steps))
    x = s**6  # finer near zero
    y = (1 - x) * t**6  # of what x leaves
    volume = 36 * s**5 * t**5 * (1 - x)
    log_density = field.log_density(np.column_stack([x, y, 1 - x - y]))
    assert (np.exp(log_density) * volume).mean() == pytest.approx(1, abs=0.01)


def test_bounds_of_another_unit_are_bounds() -> None:
    """Fahrenheit above 32 is Celsius above 0, exactly, without a cut."""
    celsius = RNG.gamma(2.0, size=(200, 1))
    celsius[0] = 0.0
    table = np.hstack([celsius, RNG.normal(size=(200, 1)), 32 + 1.8 * celsius])
    field = DiScoFormer(model="kde-scott", bounds={2: (32, None)}).fit(table)
    same = DiScoFormer(model="kde-scott", bounds={0: (0, None), 2: (32, None)}).fit(table)
    np.testing.assert_allclose(field.score_samples(table[1:]), same.score_samples(table[1:]), rtol=1e-6)
    assert (field.sample(2000, random_state=0) >= [0, -math.inf, 32]).all()
    assert field.score_samples([[-1.0, 0.0, 30.2]]) == -math.inf


def test_totals_of_bounded_parts_need_no_cut() -> None:
    parts = RNG.gamma(2.0, size=(200, 2))
    est = DiScoFormer(model="kde-scott", bounds=(0, None)).fit(np.column_stack([parts, parts.sum(1)]))
    assert not any(isinstance(step, Restriction) for step in est.field_.transforms)
    assert (est.sample(2000, random_state=0) >= 0).all()
    assert est.score_samples([[1.0, 1.0, -2.0]]) == -math.inf


def test_samples_outside_the_bounds_of_left_out_columns_are_refused() -> None:
    table = np.column_stack([RNG.normal(size=50), np.full(50, -1.0)])
    with pytest.raises(DataError, match="column 1 has -1 at row 0, outside its bounds"):
        DiScoFormer(model="kde-scott", bounds={1: (0, None)}).fit(table)


def test_columns_left_out_after_their_maps_end_at_their_bounds() -> None:
    x = RNG.normal(size=100)
    table = 1 / (1 + np.exp(-np.column_stack([x, 2 * x])))
    est = DiScoFormer(model="kde-scott", bounds=(0, 1)).fit(table)
    assert est.support_.tolist() == [True, False]
    assert est.score_samples([[0.5, 1.5]]) == -math.inf


def test_batches_are_cut_one_by_one() -> None:
    tables = torch.tensor(np.stack([shares(), shares()]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        both = FitRecipe(mixture_network(), [(0.0, math.inf)] * 3).fit(tables)
    drawn = both.sample(500, torch.Generator().manual_seed(0))
    assert drawn.shape == (2, 500, 3)
    assert bool((drawn >= 0).all())
    one = fit_quietly(FitRecipe(mixture_network(), [(0.0, math.inf)] * 3), tables[1])
    points = torch.tensor([[0.5, 0.3, 0.2], [0.8, 0.4, -0.2]], dtype=torch.float64)
    torch.testing.assert_close(
        both.log_density(points.expand(2, 2, 3))[1], one.log_density(points), atol=0.01, rtol=0
    )

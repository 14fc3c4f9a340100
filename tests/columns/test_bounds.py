"""Bounded columns: no mass outside, an exact Jacobian, and units that do not matter."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from discoformer.baselines.kde import KDE
from discoformer.columns.bounds import HalfLine, Interval, fit_maps, parse_bounds
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.core.checks import DataError
from discoformer.core.composed import Pushforward
from discoformer.core.fields import Estimate, Method
from discoformer.core.transforms import At, ColumnMaps
from discoformer.models.registry import load_model

F64 = torch.float64
RNG = np.random.default_rng(0)
POSITIVE = RNG.exponential(size=(300, 1))
SHARES = RNG.beta(0.7, 2.0, size=(300, 1))
NEGATIVE = 3.0 - RNG.lognormal(size=(300, 1))
CASES: dict[str, tuple[np.ndarray, tuple[float | None, float | None]]] = {
    "above": (POSITIVE, (0, None)),
    "below": (NEGATIVE, (None, 3.0)),
    "interval": (SHARES, (0.0, 1.0)),
}


def bounded(method: Method, bounds: Any, columns: int, names: Sequence[str] | None = None) -> FitRecipe:
    """The method within bounds written as users do, and no column left out."""
    return FitRecipe(method, parse_bounds(bounds, columns, names), names, drop=False)


def fit(case: str) -> tuple[Pushforward, float, float]:
    sample, pair = CASES[case]
    field = bounded(KDE("scott"), pair, 1).fit(sample)
    assert isinstance(field, Pushforward)
    low, high = maps_of(field).bounds
    return field, float(low), float(high)


def maps_of(field: Pushforward) -> ColumnMaps:
    (maps,) = (part for part in field.transforms if isinstance(part, ColumnMaps))
    return maps


@pytest.mark.parametrize("case", CASES)
def test_all_mass_is_inside(case: str) -> None:
    field, low, high = fit(case)
    total, _ = integrate.quad(
        lambda x: math.exp(field.log_density(np.array([[x]]))[0]), low, high, limit=500, epsabs=1e-9
    )
    assert total == pytest.approx(1, abs=1e-6)
    outside = np.array([[low - 1e-9], [low - 5.0]] if math.isfinite(low) else [[high + 1e-9], [high + 5.0]])
    log_density, score = field.estimate(outside)
    assert np.isneginf(log_density).all()
    assert (score == 0).all()


@pytest.mark.parametrize("case", CASES)
def test_score_is_the_gradient(case: str) -> None:
    field, _, _ = fit(case)
    points = torch.tensor(CASES[case][0][:50], requires_grad=True)
    log_density, score = field.estimate(points)
    (gradient,) = torch.autograd.grad(log_density.sum(), points)
    torch.testing.assert_close(score, gradient)


@pytest.mark.parametrize("case", CASES)
def test_the_map_is_inverted_and_its_slope_exact(case: str) -> None:
    (column_map,) = maps_of(fit(case)[0]).maps.values()
    x = torch.tensor(CASES[case][0][:, 0], requires_grad=True)
    line, (log_slope, bend) = column_map.forward(x), column_map.log_derivative(x)
    torch.testing.assert_close(column_map.inverse(line), x)
    (slope,) = torch.autograd.grad(line.sum(), x, create_graph=True)
    torch.testing.assert_close(log_slope, slope.log())
    (second,) = torch.autograd.grad(log_slope.sum(), x)
    torch.testing.assert_close(bend, second)


def test_an_exponential_law_becomes_logistic_and_a_uniform_one_too() -> None:
    """The closed forms that the choice of the maps rests on."""
    x = torch.linspace(0.01, 9, 50, dtype=F64)
    zero, ten, end, nudge = torch.tensor([0.0, 10.0, math.inf, 1e-3], dtype=F64)
    half_line = HalfLine(zero, end, torch.tensor([2.0], dtype=F64), nudge, rising=True)
    line, (log_slope, _) = half_line.forward(x), half_line.log_derivative(x)
    np.testing.assert_allclose(
        stats.logistic.logpdf(line) + log_slope.numpy(), stats.expon(scale=2).logpdf(x)
    )
    interval = Interval(zero, ten, nudge, nudge)
    line, (log_slope, _) = interval.forward(x), interval.log_derivative(x)
    np.testing.assert_allclose(stats.logistic.logpdf(line) + log_slope.numpy(), np.full(50, -math.log(10)))


def test_scale_follows_the_law_of_the_column() -> None:
    """Exponential data is mapped on the scale of its mean, lognormal data by the logarithm."""
    exponential = HalfLine.fit(torch.tensor(RNG.exponential(3.0, size=4000)), None, 0.0, math.inf)
    assert 2.5 < float(exponential.scale) < 3.5
    x = torch.tensor(RNG.lognormal(0, 1.5, size=4000))
    lognormal = HalfLine.fit(x, None, 0.0, math.inf)
    assert float(lognormal.scale) > 10 * float(x.mean())


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_units_change_the_log_density_by_the_jacobian(unit: float) -> None:
    sample = np.column_stack([POSITIVE, SHARES, RNG.normal(size=300)])
    bounds = [(0, None), (0, 1), None]
    scaled = [(0, None), (0, unit), None]
    for method in (KDE("scott-full"), KDE("loo")):
        a = bounded(method, bounds, 3).fit(sample).estimate(sample)
        b = bounded(method, scaled, 3).fit(sample * unit).estimate(sample * unit)
        np.testing.assert_allclose(b.log_density, a.log_density - 3 * math.log(unit), rtol=1e-9)
        np.testing.assert_allclose(b.score * unit, a.score, rtol=1e-8, atol=1e-8)


def test_values_on_a_bound_get_an_answer() -> None:
    """Rain: many exact zeros.  They are read inside, where the sample puts them, and stay typical."""
    rain = np.where(RNG.random(300) < 0.4, 0.0, RNG.exponential(size=300))[:, None]
    field = bounded(KDE("scott"), (0, None), 1).fit(rain)
    log_density, score = field.estimate(np.array([[0.0], [0.5 * rain[rain > 0].min()]]))
    assert np.isfinite(log_density).all()
    assert log_density[0] == log_density[1]
    assert score[0] == score[1]
    stars = np.array([1, 2, 3, 4, 5, 5, 5, 1, 2, 4], dtype=float)[:, None]
    assert np.isfinite(bounded(KDE(), (1, 5), 1).fit(stars).log_density(stars)).all()


def test_nearness_to_a_bound_does_not_overflow() -> None:
    near = np.array([[5e-324], [1e-300], [1e-100], [1e-20]])
    for pair in ((0, None), (0, 10)):
        log_density, score = bounded(KDE(), pair, 1).fit(POSITIVE[:, :1]).estimate(near)
        assert np.isfinite(log_density).all()
        assert np.isfinite(score).all()


def test_bounds_are_kept_in_full_precision() -> None:
    field = bounded(KDE(), (0.1, None), 1).fit(0.1 + 1e-8 * POSITIVE)
    assert np.isfinite(field.log_density(np.array([[0.1 + 1e-10]]))).all()
    assert np.isneginf(field.log_density(np.array([[0.1 - 1e-10]]))).all()


def test_data_outside_is_refused_by_row_and_column() -> None:
    sample = np.column_stack([POSITIVE, SHARES])
    sample[7, 1] = -0.5
    with pytest.raises(DataError, match=r"'share' has -0.5 at row 7, outside its bounds \(0, 1\)"):
        bounded(KDE(), {"share": (0, 1)}, 2, ["amount", "share"]).fit(sample)
    with pytest.raises(DataError, match="on its bounds in every row"):
        bounded(KDE(), (0, 1), 1).fit([[0.0], [1.0], [1.0]])


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"c": (0, 1)}, "bounds name column 'c', but the data has 'a', 'b'"),
        ({2: (0, 1)}, "bounds name column 2"),
        ([(0, 1)], "1 bounds for 2 column"),
        ((1, 0), "the first must be below the second"),
        ({"a": (math.nan, 1)}, "the first must be below the second"),
        ({"a": 0}, "not a pair"),
        ({"a": ("x", 1)}, "not a pair"),
        (3, "give pairs"),
    ],
)
def test_wrong_bounds_are_refused(bounds: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_bounds(bounds, 2, ["a", "b"])


def test_bounds_may_be_written_in_many_ways() -> None:
    free = (-math.inf, math.inf)
    assert parse_bounds(None, 2) == [free, free]
    assert parse_bounds([(0, None), None], 2) == [(0.0, math.inf), free]
    assert parse_bounds((0, None), 2) == [(0.0, math.inf)] * 2
    assert parse_bounds({1: (None, 1)}, 2) == [free, (-math.inf, 1.0)]
    assert parse_bounds({"b": (0, np.float64(2))}, 2, ["a", "b"]) == [free, (0.0, 2.0)]
    assert parse_bounds([None, None], 2) == [free, free]
    assert parse_bounds(np.array([[0, 1], [2, 3]]), 2) == [(0.0, 1.0), (2.0, 3.0)]
    assert parse_bounds(np.array([0, 1]), 3) == [(0.0, 1.0)] * 3
    assert parse_bounds({np.int64(1): (0, 1)}, 2) == [free, (0.0, 1.0)]


def test_batches_are_fitted_one_by_one() -> None:
    batch = torch.tensor(RNG.exponential(size=(3, 60, 2)) * np.array([1.0, 5.0, 100.0])[:, None, None])
    method = bounded(KDE(), [(0, None), (None, 1e4)], 2)
    whole = method.fit(batch).estimate(batch[:, :7])
    for i in range(3):
        alone = method.fit(batch[i]).estimate(batch[i, :7])
        torch.testing.assert_close(whole.log_density[i], alone.log_density)
        torch.testing.assert_close(whole.score[i], alone.score)


def test_sample_marginal_and_conditional_stay_inside(model_path: str) -> None:
    """A law of probability: joint = marginal times conditional, and draws respect the bounds."""
    sample = np.column_stack([POSITIVE, SHARES, RNG.normal(size=300)])
    method = bounded(load_model(model_path), [(0, None), (0, 1), None], 3)
    field = method.fit(sample)
    drawn = field.sample(2000, torch.Generator().manual_seed(0))
    assert drawn.shape == (2000, 3)
    assert float(drawn[:, 0].min()) >= 0
    assert 0 <= float(drawn[:, 1].min()) <= float(drawn[:, 1].max()) <= 1
    at = sample[:5]
    for row in at:
        given, rest = field.marginal([1]), field.conditional([1], row[[1]])
        product = given.log_density(row[None, [1]]) + rest.log_density(row[None, [0, 2]])
        np.testing.assert_allclose(product, field.log_density(row[None]), rtol=1e-9)
    with pytest.raises(DataError, match="the value given has no density"):
        field.conditional([1], [2.0])


def test_columns_without_bounds_are_left_alone() -> None:
    points = torch.randn(4, 3, dtype=F64)
    maps = fit_maps(points, None, parse_bounds(None, 3))
    assert not maps.maps
    assert torch.equal(maps.normalize(points), points)
    log_density, score = torch.randn(4, dtype=F64), torch.randn(4, 3, dtype=F64)
    at = At(points, points, torch.ones(3, dtype=torch.bool))
    outside = maps.estimate_outside(at, Estimate(log_density, score))
    assert torch.equal(outside.log_density, log_density) and torch.equal(outside.score, score)

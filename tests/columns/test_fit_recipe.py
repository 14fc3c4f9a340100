"""Messy data: an answer that makes sense or one clear error, never NaN, never a numeric warning."""

import copy
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import fit_quietly, normal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from discoformer import KDE, DiScoFormer, RangeWarning, SupportWarning, load_model
from discoformer.columns.bounds import FREE
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.columns.impute import impute
from discoformer.columns.kinds import CONTINUOUS, ColumnKind
from discoformer.columns.split import SplitColumns
from discoformer.core.checks import DataError
from discoformer.core.composed import Pushforward
from discoformer.core.fields import Density, Method, as_density
from discoformer.methods import resolve, without_axes
from discoformer.models.registry import load_network

VIEWS: Any = load_model("default")
RNG = np.random.default_rng(0)
F64 = torch.float64
KINDS = [
    ColumnKind("category", levels=3),
    CONTINUOUS,
    ColumnKind(atoms=(0.0,)),
    ColumnKind(step=1.0),
    ColumnKind("circular", period=24.0),
]
BOUNDS = [FREE, FREE, (0.0, math.inf), (0.0, math.inf), FREE]


def test_totals_of_positive_parts_are_found_before_the_logarithm(model_path: Path) -> None:
    a, b = RNG.exponential(size=(2, 100))
    with pytest.warns(SupportWarning, match=r"column 2 \(linear"):
        est = DiScoFormer(model=model_path, bounds=(0, None)).fit(np.column_stack([a, b, a + b]))
    assert est.support_.tolist() == [True, True, False]


def test_columns_that_are_collinear_after_their_maps_are_found(model_path: Path) -> None:
    logit = RNG.normal(size=(100, 1)) * [1.0, 2.0] + [0.0, 0.5]
    shares = 1 / (1 + np.exp(-logit))
    with pytest.warns(SupportWarning, match=r"left out column 1 \(linear"):
        est = DiScoFormer(model=model_path, bounds=(0, 1)).fit(shares)
    drawn = est.sample(20, random_state=0)
    other = np.log(drawn / (1 - drawn))
    np.testing.assert_allclose(other[:, 1], 2 * other[:, 0] + 0.5, atol=1e-6)
    np.testing.assert_allclose(est.score_function(shares)[:, 1], 0)


def test_messages_number_columns_as_the_table_does_whatever_was_left_out_before(model_path: Path) -> None:
    logit = RNG.normal(size=(100, 1)) * [1.0, 2.0] + [0.0, 0.5]
    table = np.column_stack([np.ones(100), 1 / (1 + np.exp(-logit))])
    est = DiScoFormer(model=model_path, bounds=[None, (0, 1), (0, 1)])
    with pytest.warns(SupportWarning) as caught:
        est.fit(table)
    first, second = (str(warning.message) for warning in caught)
    assert first.startswith("left out column 0 (constant)")
    assert second.startswith("left out column 2 (linear")
    assert est.support_.tolist() == [False, True, False]
    with pytest.raises(DataError, match="column 2: left out of the fit"):
        est.marginal([2])
    table[7, 2] = 1.5
    with pytest.raises(DataError, match="column 2 has 1.5 at row 7"), pytest.warns(SupportWarning):
        est.fit(table)
    positive = np.column_stack([np.ones(60), RNG.exponential(size=60), RNG.normal(size=60)])
    field = fit_quietly(FitRecipe(KDE(), [FREE, (0, math.inf), FREE]), positive)
    with pytest.raises(DataError, match="column 1: the value given has no density"):
        field.conditional([1], [-1.0])


@pytest.mark.parametrize("rows", [2, 3, 5])
@pytest.mark.parametrize("columns", [1, 2, 3, 30])
def test_few_rows_get_an_answer(rows: int, columns: int, model_path: Path, other_path: Path) -> None:
    sample = np.random.default_rng(rows).normal(size=(rows, columns))
    for model in (model_path, other_path, "kde-scott"):
        est = DiScoFormer(model=model).fit(sample)
        assert est.support_.all()
        assert np.isfinite(est.score_samples(sample)).all()
        assert np.isfinite(est.score_function(10 * sample)).all()


def test_a_covariance_of_few_rows_is_not_trusted(model_path: Path) -> None:
    """Below six rows per column the network sees standardized points, from there on whitened ones."""
    for rows, whitened in ((17, False), (18, True)):
        sample = RNG.normal(size=(rows, 3)) @ np.array([[1.0, 0.9, 0.0], [0.0, 1.0, 0.9], [0.0, 0.0, 1.0]])
        frame, _ = load_network(model_path).place(torch.from_numpy(sample))
        mixes = bool((frame.matrix - frame.matrix.diagonal().diag()).abs().max() > 1e-6)
        assert mixes == whitened


@pytest.mark.parametrize("scale", [1e-12, 1e-9, 1e9, 1e12])
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_units_change_the_log_density_by_the_jacobian(
    scale: float, shift: float, model_path: Path, other_path: Path
) -> None:
    """Scaling a column by 1e9 and shifting by 1e9: exactly the Jacobian, relative 1e-6."""
    sample = RNG.normal(size=(300, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.5], [0, 0, 1]])
    moved = sample.copy()
    moved[:, 1] = scale * sample[:, 1] + shift * scale
    for model in (model_path, other_path, "kde-scott"):
        a, b = (DiScoFormer(model=model).fit(x).estimate(x) for x in (sample, moved))
        np.testing.assert_allclose(b.log_density + math.log(scale), a.log_density, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(b.score * [1, scale, 1], a.score, rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore::discoformer.RangeWarning")
@pytest.mark.parametrize(("scale", "shift"), [(1e9, 1.0), (1e-9, 1.0), (1.0, 1e9)])
def test_units_change_the_log_density_of_the_shipped_default_by_the_jacobian(
    scale: float, shift: float
) -> None:
    """1e9 x + 1e9, and x + 1e9: the structure follows from counts and orders, and no unit may tip one."""
    generator = np.random.default_rng(5)
    sample = np.concatenate([generator.normal(-2, 1, size=(70, 2)), generator.normal(2, 0.5, size=(50, 2))])
    sample = np.round(sample * 2**20) / 2**20  # so that adding 1e9 loses nothing
    moved = sample.copy()
    moved[:, 1] = scale * (sample[:, 1] + shift)
    a, b = (DiScoFormer().fit(x).estimate(x) for x in (sample, moved))
    np.testing.assert_allclose(b.log_density + math.log(scale), a.log_density, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(b.score * [1, scale], a.score, rtol=1e-6, atol=1e-6)


SCALES = st.sampled_from([1e-12, 1e-6, 1.0, 1e3, 1e12])
TRAITS = [
    "plain",
    "integers",
    "duplicates",
    "outlier",
    "collinear",
    "constant",
    "offset",
    "binary",
    "lattice",
]


@st.composite
def samples(draw: st.DrawFn) -> NDArray[np.float64]:
    """Arrays as they come: any shape, column scales, ties, copies, collinear columns, outliers."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, columns = draw(st.integers(2, 40)), draw(st.integers(1, 6))
    sample = rng.normal(size=(rows, columns)) * [draw(SCALES) for _ in range(columns)]
    for trait in draw(st.lists(st.sampled_from(TRAITS), max_size=3)):
        j = int(rng.integers(columns))
        if trait == "integers":
            sample = np.round(sample)
        elif trait == "duplicates":
            sample = sample[rng.integers(max(1, rows // 4), size=rows)]
        elif trait == "outlier":
            sample[int(rng.integers(rows)), j] *= 10.0 ** draw(st.integers(3, 12))
        elif trait == "collinear":
            sample[:, j] = sample @ rng.normal(size=columns) * draw(SCALES)
        elif trait == "constant":
            sample[:, j] = draw(SCALES)
        elif trait == "offset":
            sample[:, j] += draw(SCALES) * 1e3
        elif trait == "binary":
            sample[:, j] = rng.integers(2, size=rows)
        elif trait == "lattice":
            sample[:, j] = rng.integers(3, size=rows) * draw(SCALES)
    return sample


def assert_answered(
    sample: NDArray[np.float64], model: Path | str, bounded: bool, weights: NDArray[np.float64] | None
) -> None:
    """Finite answers, or a refusal in one line; any other warning is an error by configuration."""
    bounds = [(float(x.min()) - np.ptp(x), None) for x in sample.T] if bounded else None
    if bounded and not all(np.ptp(x) > 0 for x in sample.T):
        bounds = None
    queries = np.concatenate([sample, sample.mean(0, keepdims=True), 3 * sample[:2]])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SupportWarning)
            warnings.simplefilter("ignore", RangeWarning)
            est = DiScoFormer(model=model, bounds=bounds).fit(sample, sample_weight=weights)
            log_density, score = est.estimate(queries)
    except DataError as error:
        there = sample if weights is None else sample[weights > 1e-15 * weights.max()]
        if "span no" in str(error):  # without axes: there is no frame to stand in for the whitening one
            assert len(there) <= sample.shape[1]
            return
        assert "every column is constant" in str(error)
        assert (np.ptp(there, axis=0) <= 1e-12 * np.abs(there).max(0)).all()
        return
    inside = np.ones(len(queries), bool) if bounds is None else ~np.isneginf(log_density)
    assert inside[: len(sample)].all()
    assert np.isfinite(log_density[inside]).all()
    assert np.isfinite(score).all()


def uneven_weights(rows: int) -> NDArray[np.float64]:
    """Weights over many orders of magnitude, a fifth of them zero."""
    rng = np.random.default_rng(rows)
    weights = rng.exponential(size=rows) ** 8 * (rng.random(rows) > 0.2)
    weights[:2] = 1.0
    return weights


CHOICES = st.sampled_from(["network", "other", "no axes", "kde-scott"])
QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def chosen(choice: str, model_path: Path, other_path: Path) -> Path | str | Method:
    """The model behind a choice."""
    if choice == "no axes":
        return without_axes(resolve(model_path)).method
    return {"network": model_path, "other": other_path, "kde-scott": "kde-scott"}[choice]


@settings(max_examples=100, deadline=None, suppress_health_check=QUIET, derandomize=True)
@given(sample=samples(), choice=CHOICES, bounded=st.booleans(), weighted=st.booleans())
def test_random_arrays(
    sample: NDArray[np.float64],
    choice: str,
    bounded: bool,
    weighted: bool,
    model_path: Path,
    other_path: Path,
) -> None:
    model = chosen(choice, model_path, other_path)
    assert_answered(sample, model, bounded, uneven_weights(len(sample)) if weighted else None)


def test_too_few_rows_for_whitening_are_refused_in_a_line(model_path: Path) -> None:
    """What `test_random_arrays` drew with another version of hypothesis."""
    two = np.array([[1.25730221e-13, -1.32104863e-13], [6.40422650e-13, 1.04900117e-13]])
    assert_answered(two, chosen("no axes", model_path, model_path), False, None)
    with pytest.raises(DataError, match="2 rows in 2 columns span no 2-dimensional density"):
        DiScoFormer(axes=False).fit(two)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None, suppress_health_check=QUIET)
@given(sample=samples(), choice=CHOICES, bounded=st.booleans(), weighted=st.booleans())
def test_many_random_arrays(
    sample: NDArray[np.float64],
    choice: str,
    bounded: bool,
    weighted: bool,
    model_path: Path,
    other_path: Path,
) -> None:
    model = chosen(choice, model_path, other_path)
    assert_answered(sample, model, bounded, uneven_weights(len(sample)) if weighted else None)


@settings(max_examples=30, deadline=None, suppress_health_check=QUIET, derandomize=True)
@given(sample=samples(), bounded=st.booleans(), weighted=st.booleans())
def test_random_arrays_with_the_shipped_default(
    sample: NDArray[np.float64], bounded: bool, weighted: bool
) -> None:
    assert_answered(sample, "default", bounded, uneven_weights(len(sample)) if weighted else None)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None, suppress_health_check=QUIET)
@given(sample=samples(), bounded=st.booleans(), weighted=st.booleans())
def test_many_random_arrays_with_the_shipped_default(
    sample: NDArray[np.float64], bounded: bool, weighted: bool
) -> None:
    assert_answered(sample, "default", bounded, uneven_weights(len(sample)) if weighted else None)


def make_table(rows: int = 250, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    kind = torch.randint(0, 3, (rows,), generator=generator).to(F64)
    x = torch.randn(rows, generator=generator, dtype=F64) + 2 * kind
    amount = torch.randn(rows, generator=generator, dtype=F64).exp()
    amount = torch.where(torch.rand(rows, generator=generator) < 0.3, 0.0, amount)
    count = torch.poisson(2 + kind, generator=generator)
    hour = (23.5 + 2 * torch.randn(rows, generator=generator, dtype=F64)).remainder(24)
    table = torch.stack([kind, x, amount, count, hour], -1)
    gap = torch.rand(table.shape, generator=generator) < 0.1
    return table.masked_fill(gap & (gap.sum(-1, keepdim=True) < 5), torch.nan)


@pytest.fixture(scope="module")
def table() -> torch.Tensor:
    return make_table()


@pytest.fixture(scope="module")
def density(table: torch.Tensor) -> Density:
    return as_density(FitRecipe(resolve("default").method, BOUNDS, kinds=KINDS).fit(table))


def test_without_kinds_and_gaps_nothing_changes() -> None:
    x = torch.randn(60, 2, generator=torch.Generator().manual_seed(0), dtype=F64)
    method = resolve("default").method
    plain, kinds = FitRecipe(method).fit(x), FitRecipe(method, kinds=[CONTINUOUS] * 2).fit(x)
    torch.testing.assert_close(as_density(plain).log_density(x), as_density(kinds).log_density(x))


def test_permuting_rows_changes_nothing(table: torch.Tensor, density: Density) -> None:
    order = torch.randperm(len(table), generator=torch.Generator().manual_seed(0))
    again = FitRecipe(resolve("default").method, BOUNDS, kinds=KINDS).fit(table[order])
    torch.testing.assert_close(
        as_density(again).log_density(table), density.log_density(table), rtol=1e-5, atol=1e-5
    )


def test_mass_is_one_over_levels_atoms_and_line(density: Density) -> None:
    assert float(density.marginal([0]).log_density(torch.arange(3, dtype=F64)[:, None]).exp().sum()) == (
        pytest.approx(1)
    )
    line = torch.logspace(-6, 5, 40_001, dtype=F64)[:, None]
    amount = density.marginal([2])
    mass = float(torch.trapezoid(amount.log_density(line).exp(), line[:, 0]))
    assert mass + float(amount.log_density(torch.zeros(1, 1, dtype=F64)).exp()) == pytest.approx(1, abs=2e-3)
    day = torch.linspace(0, 24, 4801, dtype=F64)[:, None]
    hour = density.marginal([4]).log_density(day)
    assert float(torch.trapezoid(hour.exp(), day[:, 0])) == pytest.approx(1, abs=1e-3)
    torch.testing.assert_close(hour[0], hour[-1], rtol=0, atol=1e-3)


def test_the_distribution_function_is_the_integral_of_the_density(density: Density) -> None:
    """Of an amount with an atom at zero, and of an hour, from where its circle was cut."""
    power = torch.linspace(-25, 7, 40_001, dtype=F64)  # in logarithms: the density may grow towards zero
    line, amount = power.exp()[:, None], density.marginal([2])
    zero = float(amount.log_density(torch.zeros(1, 1, dtype=F64)).exp())
    below = zero + torch.cumulative_trapezoid(amount.log_density(line).exp() * line[:, 0], power)
    torch.testing.assert_close(amount.cdf(line[1:]), below, rtol=0, atol=1e-5)
    assert float(amount.cdf(torch.zeros(1, 1, dtype=F64))) == pytest.approx(zero, abs=1e-9)
    assert float(amount.cdf(torch.full((1, 1), -1e-9, dtype=F64))) == 0
    assert isinstance(density, Pushforward) and isinstance(density.transforms[0], SplitColumns)
    cut = density.transforms[0].columns[4].cut
    day = torch.linspace(cut, cut + 23.999, 4801, dtype=F64)
    hour = density.marginal([4])
    below = torch.cumulative_trapezoid(hour.log_density(day[:, None].remainder(24)).exp(), day)
    torch.testing.assert_close(hour.cdf(day[1:, None].remainder(24)), below, rtol=0, atol=1e-3)


def test_quantiles_are_where_the_distribution_function_passes(table: torch.Tensor, density: Density) -> None:
    """One at a time and in a batch; an atom holds all the shares of its mass."""
    others = [0, 1, 3, 4]
    shares = torch.tensor([1e-6, 0.1, 0.4, 0.5, 0.9], dtype=F64)
    batch = density.conditional(others, table[:6, others]).quantile(shares.expand(6, -1))
    for row, found in zip(table[:6], batch, strict=True):
        amount = density.conditional(others, row[others])
        torch.testing.assert_close(amount.quantile(shares), found, rtol=1e-6, atol=1e-6)
        zero, upto = float(amount.cdf(torch.zeros(1, 1, dtype=F64))), amount.cdf(found)
        for share, x, below in zip(shares, found[:, 0], upto, strict=True):
            assert (float(x) == 0) == (float(share) <= zero)
            assert float(below) == pytest.approx(max(float(share), zero), abs=1e-9)


def test_a_column_of_nothing_but_atoms_has_quantiles() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, generator=generator, dtype=F64)
    size = torch.where(x > 0.5, 5.0, 0.0).to(F64)
    kinds = [CONTINUOUS, ColumnKind(atoms=(5.0, 0.0))]
    density = as_density(FitRecipe(resolve("default").method, kinds=kinds).fit(torch.stack([x, size], -1)))
    law = density.marginal([1])
    small = float(law.cdf(torch.zeros(1, 1, dtype=F64)))
    assert small == pytest.approx(float((size == 0).double().mean()), abs=0.02)
    assert law.quantile([0.9 * small, small + 1e-3, 0.999]).flatten().tolist() == [0.0, 5.0, 5.0]


def test_conditional_times_marginal_is_the_joint(table: torch.Tensor, density: Density) -> None:
    row = table[~table.isnan().any(-1)][:1]
    for known in ([0], [2], [1, 4], [0, 2, 3]):
        rest = [c for c in range(5) if c not in known]
        product = density.marginal(known).log_density(row[:, known])
        product = product + density.conditional(known, row[0, known]).log_density(row[:, rest])
        torch.testing.assert_close(density.log_density(row), product)


def test_a_gap_is_a_margin(table: torch.Tensor, density: Density) -> None:
    row = table[~table.isnan().any(-1)][:1].clone()
    row[0, [0, 2]] = torch.nan
    torch.testing.assert_close(
        density.log_density(row), density.marginal([1, 3, 4]).log_density(row[:, [1, 3, 4]])
    )


def test_the_score_is_the_gradient(table: torch.Tensor, density: Density) -> None:
    x = table[:40].clone().requires_grad_()
    log_density, score = density.estimate(x)
    gradient = torch.autograd.grad(log_density.sum(), x)[0]
    there = (~table[:40].isnan()) & (table[:40] != 0)  # not at an atom
    there[:, 0] = False
    torch.testing.assert_close(score[there], gradient[there], rtol=1e-6, atol=1e-6)
    assert bool((score[:, 0] == 0).all()) and bool((score[table[:40].isnan()] == 0).all())


def test_draws_are_of_the_kinds_of_the_table(table: torch.Tensor, density: Density) -> None:
    draws = density.sample(4000, torch.Generator().manual_seed(0))
    assert bool((draws[:, 3] == draws[:, 3].round()).all()) and float(draws[:, 3].min()) >= 0
    zeros, seen = float((draws[:, 2] == 0).double().mean()), table[~table[:, 2].isnan(), 2]
    assert zeros == pytest.approx(float((seen == 0).double().mean()), abs=0.06)
    assert set(draws[:, 0].tolist()) == {0.0, 1.0, 2.0}
    assert bool(((draws[:, 4] >= 0) & (draws[:, 4] < 24)).all())


def test_every_row_can_be_left_out(table: torch.Tensor, density: Density) -> None:
    left_out, inside = density.left_out(table), density.log_density(table)
    assert bool(left_out.isfinite().all())
    assert float((inside - left_out).mean()) > 0


def test_gaps_are_filled_in_kind(table: torch.Tensor, density: Density) -> None:
    filled = impute(density, table, KINDS)
    there = ~table.isnan()
    torch.testing.assert_close(filled[there], table[there])
    assert not bool(filled.isnan().any())
    assert set(filled[:, 0].tolist()) == {0.0, 1.0, 2.0}
    draws = impute(density, table, KINDS, draws=3, generator=torch.Generator().manual_seed(0))
    assert draws.shape == (3, *table.shape) and not bool(draws.isnan().any())
    assert bool((draws[0] != draws[1]).any())
    order = torch.randperm(len(table), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(impute(density, table[order], KINDS), filled[order])


def test_a_table_of_categories_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    first = torch.randint(0, 3, (300,), generator=generator)
    noise = torch.rand(300, generator=generator) < 0.1
    table = torch.stack([first, torch.where(noise, (first + 1) % 3, first)], -1).to(F64)
    kinds = [ColumnKind("category", levels=3)] * 2
    density = as_density(FitRecipe(resolve("default").method, kinds=kinds).fit(table))
    cells = torch.cartesian_prod(torch.arange(3.0), torch.arange(3.0)).to(F64)
    probability = density.log_density(cells).exp()
    assert float(probability.sum()) == pytest.approx(1)
    share = torch.stack([(table == cell).all(-1).double().mean() for cell in cells])
    torch.testing.assert_close(probability, share, rtol=0, atol=0.05)
    assert float(impute(density, torch.tensor([[2.0, torch.nan]], dtype=F64), kinds)[0, 1]) == 2.0


def test_what_cannot_be_fitted_is_said() -> None:
    x = torch.randn(30, 2, generator=torch.Generator().manual_seed(0), dtype=F64)
    with pytest.raises(DataError, match="1 kinds for 2 column"):
        FitRecipe(KDE(), kinds=[CONTINUOUS]).fit(x)
    x[0, 0] = torch.nan
    with pytest.raises(DataError, match="need a mixture network"):
        FitRecipe(KDE()).fit(x)
    x[1] = torch.nan
    with pytest.warns(SupportWarning, match="dropped 1 row"):
        FitRecipe(resolve("default").method).fit(x)
    x = torch.stack([x[:, 0].nan_to_num(), torch.full((30,), torch.nan, dtype=F64)], -1)
    with pytest.raises(DataError, match="column 1: no value"):
        FitRecipe(resolve("default").method).fit(x)


def test_constant_columns_are_left_out_of_tables_with_gaps() -> None:
    table = torch.cat([make_table(80)[:, :2], torch.full((80, 1), 7.0, dtype=F64)], -1)
    with pytest.warns(SupportWarning, match="constant"):
        field = FitRecipe(resolve("default").method, kinds=[*KINDS[:2], CONTINUOUS]).fit(table)
    assert field.support == [0, 1]
    torch.testing.assert_close(as_density(field).sample(5)[:, 2], torch.full((5,), 7.0, dtype=F64))


@pytest.mark.parametrize("column", [2, 3, 4])
def test_distribution_functions_of_every_kind_are_those_of_draws(density: Density, column: int) -> None:
    """Atoms and bins rise by their mass, circles begin where they are cut; quantiles turn it around."""
    margin = density.marginal([column])
    draws = margin.sample(20_000, torch.Generator().manual_seed(1))
    points = draws[:60].unique(dim=0)
    if KINDS[column].period:
        share = margin.cdf(points)
        back = margin.quantile(share.clamp(1e-9, 1 - 1e-9))
        torch.testing.assert_close(back, points, atol=1e-6, rtol=0)
        return
    below = (draws <= points.T).double().mean(0)
    torch.testing.assert_close(margin.cdf(points), below, atol=0.015, rtol=0)
    shares = torch.linspace(0.01, 0.99, 99, dtype=F64)
    found = margin.quantile(shares)
    assert bool((margin.cdf(found) >= shares - 1e-9).all())  # the least value with such a share below it
    step = KINDS[column].step or 1e-6
    assert bool((margin.cdf(found - step) <= shares + 1e-9).all())


def test_quantiles_given_other_columns_come_in_batches(table: torch.Tensor, density: Density) -> None:
    rows = table[:5, [0, 1, 3, 4]]
    law = density.conditional([0, 1, 3, 4], rows)
    found = law.quantile(torch.tensor([0.05, 0.5, 0.95], dtype=F64).expand(5, -1))
    assert found.shape == (5, 3, 1)
    for row, own in zip(rows, found, strict=True):
        alone = density.conditional([0, 1, 3, 4], row).quantile([0.05, 0.5, 0.95])
        torch.testing.assert_close(alone, own, atol=1e-6, rtol=1e-6)


def test_the_labels_of_a_category_have_no_order(density: Density) -> None:
    with pytest.raises(DataError, match="no order"):
        density.marginal([0]).quantile([0.5])


def test_angles_with_their_mode_at_the_seam_have_no_jump_and_mass_one() -> None:
    """From the sample to the density: 350 and 10 degrees are near each other."""
    rng = np.random.default_rng(0)
    angles = torch.from_numpy(rng.normal(0, 25, (300, 1)) % 360)
    field = FitRecipe(resolve("default").method, kinds=[ColumnKind("circular", period=360.0)]).fit(angles)
    density = as_density(field)
    line = torch.linspace(0, 360, 7201, dtype=torch.float64).unsqueeze(-1)
    log_density, score = density.estimate(line[:-1])
    whole = torch.cat([log_density, log_density[:1]]).exp()
    assert float(torch.trapezoid(whole, line[:, 0])) == pytest.approx(1, abs=1e-4)
    assert float((log_density[0] - log_density[-1]).abs()) < 2 * float(score.abs().max()) * 0.05
    nearest = torch.tensor([[1e-9], [360 - 1e-9]], dtype=torch.float64)
    ends = density.estimate(nearest)
    torch.testing.assert_close(ends.log_density[0], ends.log_density[1], rtol=0, atol=1e-6)
    torch.testing.assert_close(ends.score[0], ends.score[1], rtol=0, atol=1e-6)
    assert float(ends.log_density[0]) > float(log_density.max()) - 0.2  # the mode is there


def _batch() -> Tensor:
    """Two samples of three columns; the middle one of the second is constant."""
    both = torch.stack([normal(80, 3), normal(80, 3, seed=1)])
    both[1, :, 1] = 4.0
    return both


@pytest.mark.parametrize("method", [KDE(), VIEWS, VIEWS.network], ids=["kde", "views", "network"])
def test_methods_name_the_column_and_the_sample_of_a_batch(method: Method) -> None:
    both = _batch()
    with pytest.raises(DataError, match=r"^column 1: constant"):
        method.fit(both[1])
    with pytest.raises(DataError, match=r"^sample 1: column 1: constant"):
        method.fit(both)
    both[1, :, 1] = both[1, :, 0]
    with pytest.raises(DataError, match=r"^sample 0, 1: column 1: a linear combination"):
        VIEWS.fit(both[None])


def test_a_column_left_out_of_a_batch_is_named_with_its_sample() -> None:
    with pytest.warns(SupportWarning, match=r"left out column 1 \(constant\) in sample 1:"):
        FitRecipe(KDE()).fit(_batch())
    both = _batch()
    both[0, :, 0] = both[0, :, 2] = 1.0
    with pytest.raises(DataError, match="in sample 0 and 1: there is no density"):
        FitRecipe(KDE()).fit(both)


@pytest.mark.parametrize("names, said", [(None, "column 2"), (["a", "b", "c"], "'c'")])
def test_what_a_method_refuses_is_named_as_in_the_table(names: list[str] | None, said: str) -> None:
    """In single precision the last column is constant; the first one was left out before."""
    sample = normal(80, 3) + torch.tensor([0.0, 0.0, 1e9])
    sample[:, 0] = 1.0
    single = copy.deepcopy(VIEWS.network).float()
    with pytest.warns(SupportWarning), pytest.raises(DataError, match=f"^{said}: constant"):
        FitRecipe(single, names=names).fit(sample)


@pytest.mark.parametrize("names, said", [(None, "column 1"), (["a", "b"], "'b'")])
def test_an_empty_column_is_named(names: list[str] | None, said: str) -> None:
    sample = normal(80, 2)
    sample[:, 1] = torch.nan
    with pytest.raises(DataError, match=f"^{said}: no value at all"):
        FitRecipe(VIEWS, names=names).fit(sample)

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
from discoformer.core.checks import DataError
from discoformer.core.fields import Method
from discoformer.methods import resolve, without_axes
from discoformer.models.registry import load_network

VIEWS: Any = load_model("default")
RNG = np.random.default_rng(0)


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
    with pytest.raises(DataError, match="column 1 cannot be given outside its bounds"):
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

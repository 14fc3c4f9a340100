"""Messy data: an answer that makes sense or one clear error, never NaN, never a numeric warning."""

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from discoformer import KDE, DiScoFormer
from discoformer.api.estimate import estimate
from discoformer.columns.support import Supported, SupportedField, SupportWarning
from discoformer.core.checks import DataError
from discoformer.methods import RangeWarning, resolve
from discoformer.models.mixture.stack import Stack
from discoformer.models.network import Network
from discoformer.models.registry import Card, build_network, load_model, save_model

RNG = np.random.default_rng(0)


def fit_quietly(sample: Any, **options: Any) -> DiScoFormer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        return DiScoFormer(**options).fit(sample)


# -- constant and collinear columns -----------------------------------------------------------


def test_constant_and_collinear_columns_are_named_and_left_out(model_path: Path) -> None:
    import pandas as pd

    a, b = RNG.normal(size=(2, 80))
    frame = pd.DataFrame({"a": a, "one": 1.0, "b": 1e9 * b, "sum": 3 * a - 1e9 * b + 7})
    with pytest.warns(SupportWarning, match=r"left out 'one' \(constant\) and 'sum' \(linear in"):
        est = DiScoFormer(model=model_path).fit(frame)
    assert est.support_.tolist() == [True, False, True, False]
    alone = DiScoFormer(model=model_path).fit(frame[["a", "b"]])
    np.testing.assert_allclose(est.score_samples(frame), alone.score_samples(frame[["a", "b"]]), rtol=1e-12)
    score = est.score_function(frame)
    assert (score[["one", "sum"]] == 0).all(axis=None)
    np.testing.assert_allclose(score[["a", "b"]], alone.score_function(frame[["a", "b"]]), rtol=1e-8)


@pytest.mark.parametrize("value", [1.0, 0.1, 1e9, -1e-12])
@pytest.mark.parametrize("rows", [3, 300, 10_000])
def test_constants_are_found_whatever_their_value_and_number(value: float, rows: int) -> None:
    sample = np.column_stack([RNG.normal(size=rows), np.full(rows, value)])
    assert fit_quietly(sample, model="kde").support_.tolist() == [True, False]


def test_samples_satisfy_the_relation_of_the_data(model_path: Path) -> None:
    a, b = RNG.normal(size=(2, 80))
    est = fit_quietly(np.column_stack([a, b, a + b, np.full(80, 3.0)]), model=model_path)
    drawn = est.sample(50, random_state=0)
    np.testing.assert_allclose(drawn[:, 2], drawn[:, 0] + drawn[:, 1], atol=1e-10)
    np.testing.assert_allclose(drawn[:, 3], 3.0)


def test_queries_off_the_support_are_warned_of_once() -> None:
    a = RNG.normal(size=80)
    sample = np.column_stack([a, np.full(80, 3.0)])
    est = fit_quietly(sample, model="kde")
    assert np.isfinite(est.score_samples(sample)).all()  # no warning for the sample itself
    off = np.array([[0.0, 4.0]])
    with pytest.warns(SupportWarning, match="queries differ from what the sample has in column 1"):
        first = est.score_samples(off)
    assert est.score_samples(off) == first == est.score_samples([[0.0, 3.0]])


@pytest.mark.parametrize("noise", [1e-14, 1e-10, 1e-8, 1e-7, 1e-6, 1e-4])
def test_nearly_collinear_columns_always_get_an_answer(noise: float, model_path: Path) -> None:
    """There is no gap between what is left out and what can be whitened."""
    a, b, c = RNG.normal(size=(3, 200))
    sample = np.column_stack([a, b, a - b + noise * c, 1e6 + a])
    est = fit_quietly(sample, model=model_path)
    assert np.isfinite(est.score_samples(sample)).all()
    assert est.support_[:2].all()
    assert not est.support_[3]
    assert est.support_[2] == (noise > 3e-7)


def test_marginal_and_conditional_of_left_out_columns_are_refused(model_path: Path) -> None:
    a, b = RNG.normal(size=(2, 80))
    est = fit_quietly(np.column_stack([a, np.ones(80), b]), model=model_path)
    assert est.marginal([2]).n_features_in_ == 1
    assert est.conditional([0], [0.5]).n_features_in_ == 1
    for call in (lambda: est.marginal([1]), lambda: est.conditional([1], [1.0])):
        with pytest.raises(DataError, match="column 1: left out of the fit"):
            call()


def test_totals_of_positive_parts_are_found_before_the_logarithm(model_path: Path) -> None:
    a, b = RNG.exponential(size=(2, 100))
    with pytest.warns(SupportWarning, match=r"column 2 \(linear"):
        est = DiScoFormer(model=model_path, bounds=(0, None)).fit(np.column_stack([a, b, a + b]))
    assert est.support_.tolist() == [True, True, False]


def test_columns_that_are_collinear_after_their_maps_are_found(model_path: Path) -> None:
    logit = RNG.normal(size=(100, 1)) * [1.0, 2.0] + [0.0, 0.5]
    shares = 1 / (1 + np.exp(-logit))
    with pytest.warns(SupportWarning, match=r"'column 1' \(linear"):
        est = DiScoFormer(model=model_path, bounds=(0, 1)).fit(shares)
    drawn = est.sample(20, random_state=0)
    other = np.log(drawn / (1 - drawn))
    np.testing.assert_allclose(other[:, 1], 2 * other[:, 0] + 0.5, atol=1e-6)
    np.testing.assert_allclose(est.score_function(shares)[:, 1], 0)


def test_batches_share_their_support() -> None:
    batch = torch.randn(3, 20, 2, dtype=torch.float64)
    batch[1, :, 1] = 4.0
    with pytest.warns(SupportWarning):
        field = Supported(KDE()).fit(batch)
    assert isinstance(field, SupportedField)
    assert field.kept == [0]
    with pytest.warns(SupportWarning, match="queries differ"):  # in the samples where it was no constant
        assert field.estimate(batch).score.shape == (3, 20, 2)


# -- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_missing_values_are_named_by_row_and_column(value: float) -> None:
    import pandas as pd

    sample = RNG.normal(size=(10, 2))
    sample[3, 1] = value
    what = "NaN" if math.isnan(value) else "an infinity"
    with pytest.raises(DataError, match=f"X has {what} at row 3, column 1 "):
        DiScoFormer(model="kde").fit(sample)
    with pytest.raises(DataError, match=f"X has {what} at row 3, column 'weight' "):
        DiScoFormer(model="kde").fit(pd.DataFrame(sample, columns=["height", "weight"]))
    with pytest.raises(DataError, match="row 3, column 1"):
        DiScoFormer(model="kde").fit(torch.tensor(sample))
    fitted = DiScoFormer(model="kde").fit(np.nan_to_num(sample, posinf=0, neginf=0))
    with pytest.raises(DataError, match="row 3, column 1"):
        fitted.score_samples(sample)


def test_text_is_named_by_column() -> None:
    import pandas as pd

    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "when": pd.to_datetime(["2020", "2021", "2022"])})
    with pytest.raises(DataError, match="column 'when' holds text or dates"):
        DiScoFormer(model="kde").fit(frame)
    with pytest.raises(DataError, match="column 'name' holds text or dates"):
        DiScoFormer(model="kde").fit(pd.DataFrame({"a": [1.0, 2.0], "name": ["x", "y"]}))


def test_samples_without_any_density_are_refused() -> None:
    with pytest.raises(DataError, match="every column is constant"):
        DiScoFormer(model="kde").fit(np.ones((5, 2)))
    with pytest.raises(DataError, match="all weight is on one row"):
        DiScoFormer(model="kde").fit(RNG.normal(size=(5, 2)), sample_weight=[0, 1, 0, 0, 0])
    with pytest.raises(DataError, match="change the unit"):
        DiScoFormer(model="kde").fit([[1e-200], [2e-200]])
    with pytest.raises(DataError, match="change the unit"):
        DiScoFormer(model="kde").fit([[1e200], [2e200]])
    with pytest.raises(DataError, match="sum to zero"):
        DiScoFormer(model="kde").fit(RNG.normal(size=(5, 2)), sample_weight=np.zeros(5))


# -- small and wide samples -------------------------------------------------------------------


@pytest.mark.parametrize("rows", [2, 3, 5])
@pytest.mark.parametrize("columns", [1, 2, 3, 30])
def test_few_rows_get_an_answer(rows: int, columns: int, model_path: Path, axis_path: Path) -> None:
    sample = np.random.default_rng(rows).normal(size=(rows, columns))
    for model in (model_path, axis_path, "kde"):
        est = DiScoFormer(model=model).fit(sample)
        assert est.support_.all()
        assert np.isfinite(est.score_samples(sample)).all()
        assert np.isfinite(est.score_function(10 * sample)).all()


def test_a_covariance_of_few_rows_is_not_trusted(model_path: Path) -> None:
    """Below six rows per column the network sees standardized points, from there on whitened ones."""
    network = load_model(model_path)
    standardized = Network(network.core, "standardize")
    for rows, expected in ((17, standardized), (18, network)):
        sample = RNG.normal(size=(rows, 3)) @ np.array([[1.0, 0.9, 0.0], [0.0, 1.0, 0.9], [0.0, 0.0, 1.0]])
        log_density = DiScoFormer(model=model_path).fit(sample).score_samples(sample)
        np.testing.assert_allclose(log_density, expected.fit(sample).log_density(sample), rtol=1e-9)


def test_range_is_warned_of_once_per_fit(tmp_path: Path) -> None:
    core = {"kind": "mixture", "layers": 1, "width": 16, "heads": 2, "slots": 4}
    path = tmp_path / "w.safetensors"
    card = Card(core, "whiten", dims=(1, 2), sizes=(64, 256))
    save_model(build_network(core, "whiten"), card, path)
    sample = RNG.normal(size=(40, 3))
    with pytest.warns(RangeWarning, match=r"40 rows \(trained on 64 to 256\) and 3 columns") as caught:
        DiScoFormer(model=path).fit(sample).score_samples(sample)
    assert len(caught) == 1
    with pytest.warns(RangeWarning):
        estimate(sample, model=path)
    DiScoFormer(model=path).fit(RNG.normal(size=(64, 2)))  # inside: silent


def test_weights_are_read_once(model_path: Path) -> None:
    assert resolve(str(model_path)).method is resolve(model_path).method
    with pytest.raises(DataError, match="give a name, a path or a method"):
        resolve(3)  # type: ignore[arg-type]


# -- units ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-12, 1e-9, 1e9, 1e12])
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_units_change_the_log_density_by_the_jacobian(
    scale: float, shift: float, model_path: Path, axis_path: Path
) -> None:
    """Scaling a column by 1e9 and shifting by 1e9: exactly the Jacobian, relative 1e-6."""
    sample = RNG.normal(size=(300, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.5], [0, 0, 1]])
    moved = sample.copy()
    moved[:, 1] = scale * sample[:, 1] + shift * scale
    for model in (model_path, axis_path, "kde"):
        a, b = (DiScoFormer(model=model).fit(x).estimate(x) for x in (sample, moved))
        np.testing.assert_allclose(b.log_density + math.log(scale), a.log_density, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(b.score * [1, scale, 1], a.score, rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore::discoformer.methods.RangeWarning")
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


# -- random arrays ----------------------------------------------------------------------------

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
        assert "every column is constant" in str(error)
        there = sample if weights is None else sample[weights > 1e-15 * weights.max()]
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


CHOICES = st.sampled_from(["whiten", "axis", "stack", "kde"])
QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def chosen(choice: str, model_path: Path, axis_path: Path) -> Path | str | Stack:
    """The model behind a choice; the stack is what the shipped default is."""
    if choice == "stack":
        return Stack([resolve(path).method for path in (model_path, axis_path)])
    return {"whiten": model_path, "axis": axis_path, "kde": "kde"}[choice]


@settings(max_examples=100, deadline=None, suppress_health_check=QUIET, derandomize=True)
@given(sample=samples(), choice=CHOICES, bounded=st.booleans(), weighted=st.booleans())
def test_random_arrays(
    sample: NDArray[np.float64],
    choice: str,
    bounded: bool,
    weighted: bool,
    model_path: Path,
    axis_path: Path,
) -> None:
    model = chosen(choice, model_path, axis_path)
    assert_answered(sample, model, bounded, uneven_weights(len(sample)) if weighted else None)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None, suppress_health_check=QUIET)
@given(sample=samples(), choice=CHOICES, bounded=st.booleans(), weighted=st.booleans())
def test_many_random_arrays(
    sample: NDArray[np.float64],
    choice: str,
    bounded: bool,
    weighted: bool,
    model_path: Path,
    axis_path: Path,
) -> None:
    model = chosen(choice, model_path, axis_path)
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

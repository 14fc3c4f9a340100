"""Kinds of columns: what the rules say, what a user says otherwise, and the way to numbers and back."""

import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discoformer import DiScoFormer, SupportWarning
from discoformer.columns.schema import KINDS, infer_schema
from discoformer.columns.schema_convert import from_numbers, to_numbers
from discoformer.core.checks import DataError


def kind(values: Any, name: str = "x", **options: Any) -> str:
    return infer_schema(pd.DataFrame({name: values}), **options)[name].kind


# -- the rules --------------------------------------------------------------------------------

SAMPLES = {
    "continuous": lambda rng, n: rng.normal(size=n),
    "continuous, rounded finely": lambda rng, n: rng.normal(0, 100, n).round(4),
    "continuous, whole but wide": lambda rng, n: rng.normal(0, 1e7, n).round(),
    "positive": lambda rng, n: rng.exponential(size=n),
    "bounded": lambda rng, n: rng.random(n),
    "count": lambda rng, n: rng.poisson(3, n),
    "count, mostly zero": lambda rng, n: rng.negative_binomial(0.4, 0.3, n),
    "count, large": lambda rng, n: rng.poisson(300, n) - 200,
    "lattice": lambda rng, n: rng.normal(5, 1, n).round(1),
    "lattice, sixteenths": lambda rng, n: np.rint(rng.normal(0, 20, n)) / 16,
    "lattice, shifted": lambda rng, n: 0.25 + np.rint(rng.normal(0, 10, n)) * 0.7,
    "atoms": lambda rng, n: np.where(rng.random(n) < 0.25, 0, rng.gamma(2, 50, n)),
    "atoms, in cents": lambda rng, n: np.where(rng.random(n) < 0.6, 0, rng.gamma(2, 5000, n)).round(2),
    "atoms, at both ends": lambda rng, n: np.clip(rng.normal(0, 1, n), -1, 1),
    "identifier": lambda rng, n: rng.permutation(n) + 17,
    "identifier, with holes": lambda rng, n: rng.permutation(2 * n)[:n],
}


@pytest.mark.parametrize("rows", [200, 2000])
@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_told_by_their_values(name: str, rows: int) -> None:
    expected = name.split(",")[0]
    found = [kind(SAMPLES[name](np.random.default_rng(seed), rows)) for seed in range(20)]
    assert found.count(expected) >= 19, found


def test_reversing_rows_and_gaps_change_nothing() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: make(rng, 300) for name, make in SAMPLES.items()})
    schema = infer_schema(frame)
    assert infer_schema(frame[::-1]) == schema
    gaps = pd.concat([frame, pd.DataFrame(np.nan, index=range(9), columns=frame.columns)])
    assert [c.kind for c in infer_schema(gaps)] == [c.kind for c in schema]
    assert {c.gaps for c in infer_schema(gaps)} == {9}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([True, False, True], "boolean"),
        (["Yes", "no ", "Yes"], "boolean"),
        ([0, 1, 1, 0], "boolean"),
        (["a", "b", "a", "c"], "category"),
        (["a", "b", "c", "d"], "identifier"),
        (pd.Categorical(["a", "b", "c", "d"]), "category"),
        (["they came in late today", "nobody was there at all", "the box was empty again"], "text"),
        ([[1], [2], [3]], "text"),
        ([b"a", b"b"], "text"),
        ([1 + 2j, 3j], "text"),
        ([2.0, 2.0, None], "constant"),
        ([None, None], "constant"),
        ([2**60, 2**61, 2**61 + 1], "identifier"),
        (pd.to_datetime(["2026-01-01", "2026-02-01"]), "date"),
        (pd.to_timedelta([1, 2], "h"), "date"),
        (pd.period_range("2026-01", periods=2, freq="M"), "date"),
        ([pd.Timestamp("2026-01-01").date(), None, pd.Timestamp("2026-01-03").date()], "date"),
        ([pd.Timestamp("2026-01-01 10:30").time(), pd.Timestamp("2026-01-01 23:15").time()], "circular"),
    ],
)
def test_types_of_pandas(values: Any, expected: str) -> None:
    assert kind(values) == expected


def test_signs_for_missing_values_leave_the_rest_what_it_is() -> None:
    rng = np.random.default_rng(0)
    clean = {
        "age": rng.integers(18, 90, 500),
        "visits": rng.poisson(2, 500),
        "price": rng.gamma(2, 50, 500),
        "share": rng.random(500),
    }
    frame = pd.DataFrame(clean)
    told = pd.DataFrame({name: np.where(np.arange(500) < 9, -9999, cells) for name, cells in clean.items()})
    for before, after in zip(infer_schema(frame), infer_schema(told), strict=True):
        assert (after.kind, after.bounds, after.step, after.period) == (
            before.kind,
            before.bounds,
            before.step,
            before.period,
        )
        assert after.atoms == (-9999.0,)
        assert "-9999 in 2 % of the rows, apart from them" in after.reason
        assert "of its own for -9999" in after.action
    back = from_numbers(to_numbers(told, infer_schema(told)), infer_schema(told))
    pd.testing.assert_frame_equal(back, told)


def test_a_cap_of_few_values_is_found() -> None:
    children = np.minimum(np.random.default_rng(0).poisson(3, 3000), 5) + 1
    column = infer_schema(pd.DataFrame({"x": np.where(children == 6, 7, children)}))["x"]
    assert column.kind == "count"
    extra = np.where(
        np.random.default_rng(1).random(5000) < 0.6, 0, np.random.default_rng(2).poisson(2, 5000)
    )
    assert infer_schema(pd.DataFrame({"x": extra}))["x"].atoms == (0.0,)


def test_a_circle_with_a_sign_is_no_circle() -> None:
    degrees = np.random.default_rng(0).integers(0, 360, 500)
    assert kind(degrees, "wind_dir") == "circular"
    assert kind(np.where(np.arange(500) < 30, -999, degrees), "wind_dir") != "circular"


@pytest.mark.parametrize("sign", [-999.0, -99.0, -1.0])
@pytest.mark.parametrize("name", ["amount", "income", "percent"])
def test_the_only_negative_value_is_a_sign(name: str, sign: float) -> None:
    """However wide the rest is: its bounds are those without the sign."""
    rng = np.random.default_rng(0)
    rest = {"amount": rng.exponential(300, 500), "income": rng.lognormal(3, 1, 500)}
    values = rest.get(name, 100 * rng.random(500))
    clean = infer_schema(pd.DataFrame({name: values}))[name]
    found = infer_schema(pd.DataFrame({name: np.where(np.arange(500) % 20 == 0, sign, values)}))[name]
    assert (found.kind, found.bounds) == (clean.kind, clean.bounds)
    assert found.atoms == (sign,)


def test_few_values_that_are_all_common_have_no_others() -> None:
    rng = np.random.default_rng(0)
    answers = rng.integers(1, 6, 300)
    for values in (answers, rng.integers(1, 3, 300), rng.choice([9.99, 19.99, 29.99], 300)):
        frame = pd.DataFrame({"x": values, "y": rng.normal(size=300)})
        assert set(DiScoFormer().fit(frame).sample(2000, random_state=0)["x"]) <= set(values)
    coded = pd.DataFrame({"x": np.where(rng.random(300) < 0.1, 99, answers), "y": rng.normal(size=300)})
    column = infer_schema(coded)["x"]
    assert (column.kind, column.atoms) == ("atoms", (1, 2, 3, 4, 5, 99))
    assert set(DiScoFormer().fit(coded).sample(2000, random_state=0)["x"]) == {1, 2, 3, 4, 5, 99}


def test_a_cap_on_a_grid_is_an_atom_of_the_grid() -> None:
    rng = np.random.default_rng(0)
    column = infer_schema(pd.DataFrame({"age": rng.normal(55, 20, 4000).round().clip(20, 85)}))["age"]
    assert (column.kind, column.step, column.atoms) == ("count", 1.0, (20.0, 85.0))


def test_names_help() -> None:
    rng = np.random.default_rng(0)
    far = rng.permutation(10**8)[:50]
    assert [kind(far, name) for name in ("id", "user_id", "userId", "Row", "paid", "amount")] == [
        *["identifier"] * 4,
        "positive",
        "positive",
    ]
    hours = rng.integers(0, 24, 50)
    assert [kind(hours, name) for name in ("hour", "start_hour", "hours")] == [
        "circular",
        "circular",
        "count",
    ]
    assert kind(hours + 10, "hour") == "count"
    assert kind(rng.uniform(20, 60, 50), "discount_pct") == "bounded"
    assert kind(rng.uniform(20, 60, 50), "discount") == "continuous"
    assert kind(rng.uniform(20, 60, 50), "discount", units={"discount": " %"}) == "bounded"


def test_bounds_are_where_values_leave_no_doubt() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"share": rng.random(80), "wait": rng.exponential(size=80), "x": rng.normal(size=80)}
    )
    assert infer_schema(frame).bounds == [(0.0, 1.0), (0.0, np.inf), (-np.inf, np.inf)]


def test_numbers_among_text_are_refused_not_left_out() -> None:
    column = infer_schema(pd.DataFrame({"x": [None, "1", "2", "tall", "4"]}))["x"]
    assert (column.use, column.reason) == ("refused", "holds text or dates, first at row 3 ('tall')")


def test_everything_has_words_and_is_json() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: make(rng, 100) for name, make in SAMPLES.items()})
    for column in infer_schema(frame):
        plain = json.loads(json.dumps(column.as_dict(), allow_nan=False))
        assert plain["reason"] and plain["action"] and plain["kind"] in KINDS


def test_what_is_left_out_is_one_warning() -> None:
    frame = pd.DataFrame({"name": ["Ann", "Bo", "Cy"], "x": [1.5, 2.5, 4.0]})
    with pytest.warns(
        SupportWarning, match=r"^left out 'name' \(identifier: all different texts\): say otherwise"
    ):
        infer_schema(frame).warn()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        infer_schema(frame[["x"]]).warn()


# -- what the user says -----------------------------------------------------------------------


@pytest.mark.parametrize("asked", KINDS)
def test_small_counts_can_be_asked_to_be_almost_anything(asked: str) -> None:
    if asked == "date":
        return
    values = [0, 1, 1, 0] if asked == "boolean" else [0, 1, 5, 1, 2]
    column = infer_schema(pd.DataFrame({"x": values}), types={"x": asked})["x"]
    assert (column.kind, column.reason) == (asked, "asked for")


def test_parameters_of_kinds() -> None:
    frame = pd.DataFrame({"x": [0.0, 0.5, 2.0, 3.5]})
    assert infer_schema(frame, {"x": "circular:12"})["x"].period == 12
    assert infer_schema(frame, {"x": "circular"})["x"].period == pytest.approx(2 * np.pi)
    assert infer_schema(frame, {"x": "bounded:-1:10"})["x"].bounds == (-1, 10)
    assert infer_schema(frame, {"x": "lattice:0.25"})["x"].step == 0.25
    clock = pd.DataFrame({"t": pd.to_timedelta(["01:00:00", "23:00:00"])})
    assert infer_schema(clock, {"t": "circular"})["t"].period == 86_400


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"types": {"y": "count"}}, "no column 'y', the table has 'x', 'name'"),
        ({"exclude": ["y"]}, "no column 'y'"),
        ({"columns": ["y"]}, "no column 'y'"),
        ({"columns": ["x", "x"]}, "asked for twice"),
        ({"types": {"x": "counts"}}, "column 'x' cannot be 'counts': choose continuous, positive"),
        ({"types": {"x": "count"}}, "column 'x' cannot be a count: it has -1.5"),
        ({"types": {"x": "positive"}}, "column 'x' cannot be positive: it has -1.5"),
        ({"types": {"x": "bounded"}}, "say its ends"),
        ({"types": {"x": "bounded:0:1"}}, "cannot be within 0 and 1: it has -1.5"),
        ({"types": {"x": "boolean"}}, "cannot be boolean: it has 3 values"),
        ({"types": {"x": "date"}}, "parse its dates"),
        ({"types": {"x": "circular:1"}}, "say its period"),
        ({"types": {"x": "lattice:wide"}}, "after lattice goes its step"),
        ({"types": {"name": "continuous"}}, "column 'name' cannot be continuous: it holds text"),
    ],
)
def test_what_cannot_be_is_said(options: dict[str, Any], message: str) -> None:
    frame = pd.DataFrame({"x": [-1.5, 0.25, 7.0], "name": ["a", "b", "a"]})
    with pytest.raises(DataError) as caught:
        infer_schema(frame, **options)
    assert message in str(caught.value)


def test_columns_and_exclude_choose() -> None:
    frame = pd.DataFrame({"id": [3, 1, 2], "x": [1.5, 2.5, 9.0], "y": [2.5, 0.5, 7.0]})
    assert [c.name for c in infer_schema(frame, exclude=["y"])] == ["id", "x"]
    chosen = infer_schema(frame, columns=["y", "id"])
    assert [c.name for c in chosen] == ["y", "id"]
    assert chosen["id"].use == "number"


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(DataError, match="two columns 'a'"):
        infer_schema(pd.DataFrame([[1, 2]], columns=["a", "a"]))


# -- numbers and back -------------------------------------------------------------------------

ROWS = 12
FINITE = st.floats(-1e9, 1e9, allow_subnormal=False)


def lists(cells: st.SearchStrategy[Any], gaps: bool = False) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.one_of(st.none(), cells) if gaps else cells, min_size=ROWS, max_size=ROWS)


def column_of(cells: st.SearchStrategy[Any], dtype: Any, gaps: bool = False) -> st.SearchStrategy[pd.Series]:
    return lists(cells, gaps).map(lambda values: pd.Series(values, dtype=dtype))


DATES = st.datetimes(pd.Timestamp("1800-01-01"), pd.Timestamp("2140-01-01"))
SERIES = st.one_of(
    column_of(FINITE, "float64", gaps=True),
    column_of(st.floats(-1e9, 1e9, width=32), "float32"),
    column_of(FINITE, "Float64", gaps=True),
    column_of(st.integers(-(2**53), 2**53), "int64"),
    column_of(st.integers(0, 255), "uint8"),
    column_of(st.integers(-5, 5), "Int32", gaps=True),
    column_of(st.integers(-40, 40).map(lambda k: k / 10), "float64"),
    column_of(st.booleans(), "bool"),
    column_of(st.booleans(), "boolean", gaps=True),
    column_of(st.sampled_from(["red", "green", "blue"]), "str", gaps=True),
    column_of(
        st.sampled_from(["low", "high"]), pd.CategoricalDtype(["low", "high", "never"], ordered=True), True
    ),
    column_of(st.sampled_from([3, 5, 9]), pd.CategoricalDtype([3, 5, 9]), gaps=True),
    column_of(DATES, "datetime64[us]", gaps=True),
    column_of(DATES.map(lambda t: t.replace(microsecond=0)), "datetime64[s]"),
    column_of(DATES.map(lambda t: t.replace(microsecond=0, second=0)), "datetime64[ns]"),
    column_of(
        DATES.map(lambda t: pd.Timestamp(t).tz_localize("UTC")), "datetime64[us, Europe/Berlin]", gaps=True
    ),
    column_of(DATES.map(lambda t: t.date()), object, gaps=True),
    column_of(st.times(), object, gaps=True),
    column_of(st.timedeltas(pd.Timedelta(days=-9999), pd.Timedelta(days=9999)), "timedelta64[us]", gaps=True),
    column_of(DATES.map(lambda t: pd.Period(t, "M")), "period[M]"),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(SERIES, min_size=1, max_size=4))
def test_to_numbers_and_back_is_the_same_frame(columns: list[pd.Series]) -> None:
    frame = pd.DataFrame({f"c{j}": column for j, column in enumerate(columns)})
    # Identifiers are left out, which is not what is tested here.
    types = {
        c.name: "continuous" for c in infer_schema(frame) if c.kind == "identifier" and c.dtype.kind in "iuf"
    }
    schema = infer_schema(frame, types)
    values = to_numbers(frame, schema)
    assert values.shape == (ROWS, len(schema.used))
    back = from_numbers(values, schema)
    restored = [
        c.name for c in schema if c.use != "left out" or (c.kind == "constant" and c.distinct and not c.gaps)
    ]
    assert list(back.columns) == restored
    if restored:
        pd.testing.assert_frame_equal(back, frame[restored], rtol=0, atol=0)


def test_new_values_are_rounded_to_what_the_column_can_hold() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "n": rng.poisson(3, 50),
            "length": rng.normal(5, 1, 50).round(1),
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 90, 50), "D"),
        }
    )
    schema = infer_schema(frame)
    back = from_numbers(np.array([[2.4, 5.0432, 20454.4], [-0.2, 4.96, np.nan]]), schema)
    assert back["n"].tolist() == [2, 0]
    np.testing.assert_allclose(back["length"], [5.0, 5.0])
    assert back["day"][0] == pd.Timestamp("2026-01-01")
    assert back["day"].isna().tolist() == [False, True]


def test_gaps_that_a_type_cannot_hold_widen_it() -> None:
    schema = infer_schema(pd.DataFrame({"n": [0, 3, 1, 3, 0, 0], "b": [True, False] * 3}))
    back = from_numbers(np.array([[1.0, 1.0], [np.nan, np.nan]]), schema)
    assert back["n"].isna().tolist() == [False, True]
    assert back["b"].isna().tolist() == [False, True]


def test_labels_that_the_sample_has_not_are_refused() -> None:
    schema = infer_schema(pd.DataFrame({"c": ["a", "b", "a"]}))
    with pytest.raises(DataError, match="column 'c' has 'z' at row 1, which the sample has not"):
        to_numbers(pd.DataFrame({"c": ["a", "z"]}), schema)

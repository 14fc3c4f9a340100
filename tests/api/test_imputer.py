"""Gaps filled by a density: arrays, frames with categories, and scikit-learn's contract."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import check_estimator

from discoformer import DataError, DiScoFormer, DiScoFormerImputer, SupportWarning


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::discoformer.RangeWarning")
def test_check_estimator() -> None:
    """Every check of scikit-learn passes, none is excused; one does not run without SCIPY_ARRAY_API."""
    results = check_estimator(DiScoFormerImputer(), on_skip=None)
    assert {r["check_name"] for r in results if r["status"] != "passed"} <= {"check_array_api_input"}


def test_frames_keep_what_is_there_and_their_types() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 300)
    frame = pd.DataFrame(
        {
            "key": [f"k{j}" for j in range(300)],
            "group": np.array(["low", "high"])[group],
            "x": rng.normal(10.0 * group, 1.0),
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 60, 300), "D"),
        },
        index=pd.Index(range(5, 305)),
    )
    whole = frame.copy()
    frame.loc[frame.index[:10], "group"] = None
    frame.loc[frame.index[10:20], "x"] = np.nan
    frame.loc[frame.index[20:30], "day"] = pd.NaT
    with pytest.warns(SupportWarning, match="left out 'key'"):
        imputer = DiScoFormerImputer().fit(frame)
    filled = imputer.transform(frame)
    assert not filled.isna().any().any()
    pd.testing.assert_frame_equal(filled[30:], whole[30:])
    pd.testing.assert_series_equal(filled.dtypes, whole.dtypes)
    assert (filled["group"] == whole["group"]).all()  # ten standard deviations apart
    assert (filled["x"] - whole["x"]).abs().max() < 5
    draws = imputer.density_.impute(frame, draws=3, random_state=0)
    assert len(draws) == 3 and len({float(table["x"].iloc[12]) for table in draws}) == 3


def test_models_that_take_no_gaps_say_so(model_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(50, 2))
    x[3, 1] = np.nan
    with pytest.raises(DataError, match="NaN at row 3, column 1"):
        DiScoFormerImputer(model="kde-scott").fit(x)
    filled = DiScoFormer(model=model_path).fit(x).impute(x)
    np.testing.assert_array_equal(filled[np.isfinite(x)], x[np.isfinite(x)])
    assert np.isfinite(filled).all()


def test_what_is_masked_is_filled(model_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(50, 2))
    gap = np.zeros_like(x, dtype=bool)
    gap[3, 1] = True
    masked = np.ma.masked_array(np.where(gap, -999999, x), mask=gap)
    expected = DiScoFormerImputer(model=model_path).fit_transform(np.where(gap, np.nan, x))
    np.testing.assert_array_equal(DiScoFormerImputer(model=model_path).fit_transform(masked), expected)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_whole_numbers_with_gaps_keep_their_type(library: str) -> None:
    rng = np.random.default_rng(0)
    age = pd.array(rng.integers(18, 80, 100), dtype="Int64")
    age[::9] = pd.NA
    frame = pd.DataFrame({"age": age, "size": rng.normal(size=100)})
    given = frame if library == "pandas" else pytest.importorskip("polars").from_pandas(frame)
    est = DiScoFormer().fit(given)
    for table in (est.sample(5, random_state=0), est.impute(given), *est.impute(given, draws=2)):
        assert type(table) is type(given)
        assert str(table["age"].dtype) == "Int64"
        assert all(isinstance(cell, int) for cell in table["age"].to_list())


def test_a_sign_is_no_number_to_take_a_mean_of() -> None:
    rng = np.random.default_rng(0)
    temperature = rng.normal(15, 3, 300)
    frame = pd.DataFrame({"t": np.where(rng.random(300) < 0.1, -999, temperature), "u": rng.normal(size=300)})
    frame.loc[:30, "t"] = np.nan
    filled = DiScoFormerImputer().fit_transform(frame)
    assert filled.loc[:30, "t"].between(0, 30).all()


def test_a_fit_without_gaps_fills_them_by_its_conditionals() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 1)) @ np.ones((1, 3)) + 0.3 * rng.normal(size=(300, 3))
    table = np.c_[x, 2 * x[:, 0]]  # the last column is left out, and follows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = DiScoFormer().fit(table)
    asked = table[:20].copy()
    asked[:10, 1] = np.nan
    asked[5:15, 2:] = np.nan
    filled, draws = fit.impute(asked), np.stack(fit.impute(asked, draws=2000, random_state=0))
    there = ~np.isnan(asked)
    np.testing.assert_array_equal(filled[there], asked[there])
    np.testing.assert_array_equal(draws[:, there], np.broadcast_to(asked[there], (2000, there.sum())))
    np.testing.assert_allclose(filled[:, 3], 2 * filled[:, 0])
    np.testing.assert_allclose(draws.mean(0), filled, atol=0.06)
    np.testing.assert_allclose(fit.impute(asked[::-1])[::-1], filled, atol=1e-9)
    known = fit.conditional([0, 2], asked[0, [0, 2]])
    assert abs(filled[0, 1] - np.asarray(known.mean())[0]) < 0.02


def test_a_value_without_density_is_refused_by_the_name_of_its_column() -> None:
    table = pd.DataFrame(
        {
            "temp": np.random.default_rng(0).exponential(size=100),
            "x": np.random.default_rng(1).normal(size=100),
        }
    )
    fit = DiScoFormer(model="kde-scott", bounds={"temp": (0, np.inf)}).fit(table)
    with pytest.raises(DataError, match="'temp': the value given has no density"):
        fit.conditional("temp", -998)


def test_a_region_beside_a_constant_does_not_warn_of_its_own_grid() -> None:
    table = np.c_[np.ones(100), np.random.default_rng(0).normal(size=100)]
    with pytest.warns(SupportWarning, match="constant"):
        fit = DiScoFormer(model="kde-scott").fit(table)
    assert fit.region(0.9).outlines == []

"""The scikit-learn face: its contract, every kind of data, and the laws of the fitted density."""

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import attention_network, correlated
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from discoformer import KDE, DiScoFormer, Method, SupportWarning, functionals
from discoformer.baselines import ScoreMatching, SteinGradient
from discoformer.core.checks import DataError
from discoformer.models.registry import load_model

RNG = np.random.default_rng(0)
SAMPLE, QUERIES = correlated(200), correlated(20, seed=1)
FRAME = pd.DataFrame(SAMPLE, columns=["a", "b", "c"], index=[f"row{i}" for i in range(200)])


@pytest.fixture
def est(model_path: Path) -> DiScoFormer:
    return DiScoFormer(model=model_path).fit(SAMPLE)


@pytest.mark.filterwarnings("ignore::discoformer.RangeWarning")
@pytest.mark.parametrize("model", ["network", "kde-scott", pytest.param("default", marks=pytest.mark.slow)])
def test_check_estimator(model: str, model_path: Path) -> None:
    """Every check of scikit-learn passes, none is excused; one does not run without SCIPY_ARRAY_API."""
    path = str(model_path) if model == "network" else model
    results = check_estimator(DiScoFormer(model=path), on_skip=None)
    assert {r["check_name"] for r in results if r["status"] != "passed"} <= {"check_array_api_input"}
    assert len(results) > 30


def test_clone_and_pickle_keep_everything(est: DiScoFormer) -> None:
    assert clone(est).get_params() == est.get_params()
    copy = pickle.loads(pickle.dumps(est))
    np.testing.assert_array_equal(copy.score_samples(QUERIES), est.score_samples(QUERIES))
    np.testing.assert_array_equal(copy.sample(5, random_state=1), est.sample(5, random_state=1))
    method = KDE("loo")
    assert clone(DiScoFormer(model=method)).model.bandwidth == "loo"


def test_grid_search_and_pipeline(model_path: Path) -> None:
    grid = GridSearchCV(DiScoFormer(), {"model": [KDE(0.01), KDE(0.5), str(model_path)]}, cv=3).fit(SAMPLE)
    assert grid.best_score_ > grid.cv_results_["mean_test_score"][0]
    assert np.isfinite(grid.cv_results_["mean_test_score"]).all()
    pipeline = make_pipeline(StandardScaler(), DiScoFormer(model="kde-scott")).fit(FRAME)
    assert pipeline.score_samples(FRAME).shape == (200,)
    assert np.isfinite(cross_val_score(pipeline, SAMPLE)).all()


def test_equals_scikit_learn_for_the_same_kernel() -> None:
    ours = DiScoFormer(model=KDE(0.4)).fit(SAMPLE)
    theirs = KernelDensity(bandwidth=0.4).fit(SAMPLE)
    np.testing.assert_allclose(ours.score_samples(QUERIES), theirs.score_samples(QUERIES), rtol=1e-6)
    assert ours.score(QUERIES) == pytest.approx(theirs.score(QUERIES), rel=1e-6)


def test_answers_are_those_of_the_model(est: DiScoFormer, model_path: Path) -> None:
    log_density, score = load_model(model_path).fit(SAMPLE).estimate(QUERIES)
    np.testing.assert_allclose(est.score_samples(QUERIES), log_density, rtol=1e-12)
    np.testing.assert_allclose(est.log_density(QUERIES), log_density, rtol=1e-12)
    np.testing.assert_allclose(est.score_function(QUERIES), score, rtol=1e-12)
    np.testing.assert_allclose(est.estimate(QUERIES).score, score, rtol=1e-12)
    assert est.score(QUERIES) == pytest.approx(float(log_density.sum()))


def test_pandas_keeps_names_and_index(est: DiScoFormer, model_path: Path) -> None:
    named = DiScoFormer(model=model_path).fit(FRAME)
    assert named.feature_names_in_.tolist() == ["a", "b", "c"]
    queries = FRAME.iloc[[3, 1]]
    both = named.estimate(queries)
    assert both.columns.tolist() == ["log_density", "score_a", "score_b", "score_c"]
    for answer in (both, named.log_density(queries), named.score_function(queries)):
        assert answer.index.tolist() == ["row3", "row1"]
    assert named.score_function(queries).columns.tolist() == ["a", "b", "c"]
    assert type(named.score_samples(queries)) is np.ndarray
    np.testing.assert_allclose(both["log_density"], est.score_samples(SAMPLE[[3, 1]]), rtol=1e-12)
    np.testing.assert_allclose(both.iloc[:, 1:], est.score_function(SAMPLE[[3, 1]]), rtol=1e-10)
    assert named.sample(4).columns.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        named.score_samples(queries[["b", "a", "c"]])


@pytest.mark.parametrize("columns", [[0, 1], [10, 5], [("a", "x"), ("a", "y")]])
def test_columns_need_no_text_for_names(columns: list[Any]) -> None:
    frame = pd.DataFrame(SAMPLE[:, :2], columns=columns)
    est = DiScoFormer(model="kde-scott").fit(frame)
    assert list(est.sample(2, random_state=0).columns) == columns
    assert list(est.score_function(frame).columns) == columns
    assert list(est.estimate(frame).columns) == ["log_density", *(f"score_{name}" for name in columns)]
    assert list(est.estimate(est.sample(2, random_state=0)).index) == [0, 1]  # and no warning of names


def test_frames_without_columns_or_with_two_of_a_name_are_refused() -> None:
    with pytest.raises(DataError, match="X has no columns"):
        DiScoFormer(model="kde-scott").fit(FRAME[[]])
    with pytest.raises(DataError, match="X has two columns 'a': rename one of them"):
        DiScoFormer(model="kde-scott").fit(FRAME[["a", "b", "a"]])


def test_integer_and_nullable_columns_are_numbers() -> None:
    frame = pd.DataFrame(
        {"a": range(10), "b": pd.array([1, 2, 3, 4, 5] * 2, dtype="Int64"), "c": [True, False] * 5}
    )
    assert np.isfinite(DiScoFormer(model="kde-scott").fit(frame).score_samples(frame)).all()
    frame.loc[4, "b"] = pd.NA
    with pytest.raises(DataError, match="NaN at row 4, column 'b'"):
        DiScoFormer(model="kde-scott").fit(frame)


def test_polars_keeps_names(est: DiScoFormer, model_path: Path) -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(SAMPLE, schema=["a", "b", "c"])
    named = DiScoFormer(model=model_path).fit(frame)
    both = named.estimate(frame[:5])
    assert both.columns == ["log_density", "score_a", "score_b", "score_c"]
    np.testing.assert_allclose(both["log_density"].to_numpy(), est.score_samples(SAMPLE[:5]), rtol=1e-12)
    assert named.log_density(frame[:5]).name == "log_density"
    assert named.sample(4).columns == ["a", "b", "c"]
    with pytest.warns(SupportWarning, match="left out 'b'"):
        text = DiScoFormer(model="kde-scott").fit(pl.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))
    assert text.sample(2).columns == ["a"]


def test_tensors_stay_tensors_in_their_dtype_and_graph(est: DiScoFormer, model_path: Path) -> None:
    sample = torch.tensor(SAMPLE, requires_grad=True)
    queries = torch.tensor(QUERIES, requires_grad=True)
    fitted = DiScoFormer(model=model_path).fit(sample)
    log_density, score = fitted.estimate(queries)
    np.testing.assert_allclose(log_density.detach(), est.score_samples(QUERIES), rtol=1e-10)
    (gradient,) = torch.autograd.grad(log_density.sum(), queries, retain_graph=True)
    torch.testing.assert_close(gradient, score)
    (by_sample,) = torch.autograd.grad(log_density.sum(), sample)
    assert bool(by_sample.abs().sum() > 0)
    single = DiScoFormer(model=model_path).fit(torch.tensor(SAMPLE, dtype=torch.float32))
    answer = single.score_samples(torch.tensor(QUERIES, dtype=torch.float32))
    assert answer.dtype == torch.float32
    np.testing.assert_allclose(answer, est.score_samples(QUERIES), rtol=1e-3, atol=1e-3)
    assert isinstance(single.sample(3), torch.Tensor)


def test_a_sample_with_a_graph_answers_arrays_too(est: DiScoFormer) -> None:
    fitted = DiScoFormer(model=est.model).fit(torch.tensor(SAMPLE, requires_grad=True))
    np.testing.assert_allclose(fitted.score_samples(QUERIES), est.score_samples(QUERIES), rtol=1e-10)
    np.testing.assert_allclose(fitted.score_function(SAMPLE), est.score_function(SAMPLE), rtol=1e-8)
    assert fitted.marginal([0]).entropy() == pytest.approx(est.marginal([0]).entropy())
    queries = torch.tensor(QUERIES, requires_grad=True)
    assert fitted.score(queries) == pytest.approx(est.score(QUERIES))


def test_equal_weights_change_nothing_and_zero_weights_remove_rows(
    est: DiScoFormer, model_path: Path
) -> None:
    equal = DiScoFormer(model=model_path).fit(SAMPLE, sample_weight=np.full(200, 7.0))
    np.testing.assert_allclose(equal.score_samples(QUERIES), est.score_samples(QUERIES), rtol=1e-8)
    weights = (np.arange(200) < 150).astype(float)
    part = DiScoFormer(model=model_path).fit(SAMPLE, sample_weight=weights)
    removed = DiScoFormer(model=model_path).fit(SAMPLE[:150])
    np.testing.assert_allclose(part.score_samples(QUERIES), removed.score_samples(QUERIES), rtol=1e-8)


@pytest.mark.parametrize("weights", [[1.0] * 3, np.ones((200, 1)), -np.ones(200), np.full(200, np.nan)])
def test_wrong_weights_are_refused(weights: Any) -> None:
    with pytest.raises(DataError, match="sample weights"):
        DiScoFormer(model="kde-scott").fit(SAMPLE, sample_weight=weights)


def test_sample_has_the_moments_of_the_density(est: DiScoFormer) -> None:
    drawn = est.sample(20_000, random_state=0)
    assert drawn.shape == (20_000, 3)
    for column in range(3):
        one = est.marginal(column).field_
        level = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
        below = (torch.from_numpy(drawn[:, column]) <= one.quantile(level)).double().mean(-1)
        np.testing.assert_allclose(below, level, atol=5 * 0.5 / np.sqrt(20_000))
    np.testing.assert_array_equal(drawn, est.sample(20_000, random_state=0))
    assert not np.array_equal(est.sample(5, random_state=0), est.sample(5, random_state=1))


def test_kernel_estimates_draw_rows_within_bounds_and_on_the_support() -> None:
    x = np.random.default_rng(0).exponential(size=(60, 1))
    frame = pd.DataFrame(np.hstack([x, 2 * x, np.ones_like(x)]), columns=["a", "double", "one"])
    with pytest.warns(UserWarning, match="left out 'one'"):
        fitted = DiScoFormer(model="kde-scott", bounds={"a": (0, None)}).fit(frame)
    drawn = fitted.sample(2000, random_state=0)
    assert drawn.columns.tolist() == ["a", "double", "one"]
    assert (drawn["a"] > 0).all()
    np.testing.assert_allclose(drawn["double"], 2 * drawn["a"], rtol=1e-9)
    np.testing.assert_allclose(drawn["one"], 1)


@pytest.mark.parametrize("count", [0, -1])
def test_no_rows_cannot_be_drawn(est: DiScoFormer, count: int) -> None:
    for fitted in (est, DiScoFormer(model="kde-scott").fit(SAMPLE)):
        with pytest.raises(DataError, match="draw at least one row"):
            fitted.sample(count)


def test_marginal_times_conditional_is_the_joint(model_path: Path) -> None:
    named = DiScoFormer(model=model_path, bounds={"c": (-20, 20)}).fit(FRAME)
    for i in range(3):
        row = FRAME.iloc[[i]]
        marginal = named.marginal("b")
        rest = named.conditional(["b"], row["b"].to_numpy())
        assert rest.feature_names_in_.tolist() == ["a", "c"]
        assert rest.bounds[1] == (-20, 20)
        total = marginal.score(row[["b"]]) + rest.score(row[["a", "c"]])
        assert total == pytest.approx(named.score(row), rel=1e-9)
    assert named.marginal([2, 0]).sample(3).columns.tolist() == ["c", "a"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("z", "no column 'z'"),
        ([], "at least one"),
        ([0, 0], "none twice"),
        ([3], "columns 0 to 2"),
        ([-1], "0 to 2"),
        ([True, False, True], "no column True"),
    ],
)
def test_wrong_columns_are_refused(est: DiScoFormer, columns: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        est.marginal(columns)


def test_conditional_needs_a_value_per_column(est: DiScoFormer) -> None:
    with pytest.raises(DataError, match="2 value"):
        est.conditional([0], [1.0, 2.0])
    with pytest.raises(DataError, match="every column is given"):
        est.conditional([0, 1, 2], [0.0, 0.0, 0.0])


def test_what_answers_at_points_only_says_so() -> None:
    fitted = DiScoFormer(model=attention_network()).fit(SAMPLE)
    assert np.isfinite(fitted.score_samples(QUERIES)).all()
    for ask in (
        lambda: fitted.sample(3),
        lambda: fitted.marginal([0]),
        lambda: fitted.conditional([0], [0.5]),
    ):
        with pytest.raises(DataError, match="answers at points only"):
            ask()


@pytest.mark.parametrize("method", [ScoreMatching(steps=3, hidden=(8,)), SteinGradient()])
def test_what_knows_the_score_only_says_so(method: Method) -> None:
    with pytest.warns(SupportWarning):
        fitted = DiScoFormer(model=method).fit(np.column_stack([SAMPLE, np.ones(200)]))
    queries = np.column_stack([QUERIES, np.ones(20)])
    score = fitted.score_function(queries)
    np.testing.assert_allclose(score[:, :3], method.fit(SAMPLE).score(QUERIES), rtol=1e-6, atol=1e-6)
    assert (score[:, 3] == 0).all()
    assert np.isfinite(fitted.fisher_information().value)
    for ask in (fitted.score_samples, fitted.log_density, fitted.estimate, fitted.score):
        with pytest.raises(DataError, match="estimates the score only: use score_function"):
            ask(queries)
    with pytest.raises(DataError, match="score only"):
        fitted.entropy()
    with pytest.raises(DataError, match="answers at points only"):
        fitted.sample(3)


def test_entropy_and_fisher_information_are_the_functionals(model_path: Path) -> None:
    for model in (str(model_path), "kde-scott"):
        fitted = DiScoFormer(model=model).fit(FRAME)
        method = KDE() if model == "kde-scott" else load_model(model)
        assert fitted.entropy() == pytest.approx(functionals.entropy(SAMPLE, method))
        expected = functionals.fisher_information(SAMPLE, method, split="none")
        assert fitted.fisher_information(split="none") == pytest.approx(expected)


def test_entropy_of_parts_is_that_of_their_density(est: DiScoFormer) -> None:
    """The chain rule: H(a, b) = H(b) + E H(a | b), with a and b independent given nothing but b's value."""
    one = est.marginal([0])
    assert one.entropy().value == pytest.approx(
        -float(one.score_samples(one.sample(20_000, 1)).mean()), abs=0.05
    )


def test_functionals_of_equal_weights_are_those_without(est: DiScoFormer) -> None:
    weighted = DiScoFormer(model=est.model).fit(SAMPLE, sample_weight=np.full(200, 3.0))
    assert weighted.entropy() == pytest.approx(est.entropy(), rel=1e-6)
    assert weighted.fisher_information() == pytest.approx(est.fisher_information(), rel=1e-6)


def test_entropy_follows_bounds_and_support(model_path: Path) -> None:
    positive = np.column_stack([RNG.exponential(size=300), np.ones(300)])
    with pytest.warns(UserWarning, match="left out column 1"):
        fitted = DiScoFormer(model="kde-scott", bounds=[(0, None), None]).fit(positive)
    value, error = fitted.entropy()
    assert abs(value - 1.0) < 4 * error  # of the exponential law


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_missing_values_are_named_by_row_and_column(value: float) -> None:
    import pandas as pd

    sample = RNG.normal(size=(10, 2))
    sample[3, 1] = value
    what = "NaN" if math.isnan(value) else "an infinity"
    with pytest.raises(DataError, match=f"X has {what} at row 3, column 1 "):
        DiScoFormer(model="kde-scott").fit(sample)
    with pytest.raises(DataError, match=f"X has {what} at row 3, column 'weight' "):
        DiScoFormer(model="kde-scott").fit(pd.DataFrame(sample, columns=["height", "weight"]))
    with pytest.raises(DataError, match="row 3, column 1"):
        DiScoFormer(model="kde-scott").fit(torch.tensor(sample))
    fitted = DiScoFormer(model="kde-scott").fit(np.nan_to_num(sample, posinf=0, neginf=0))
    with pytest.raises(DataError, match="row 3, column 1"):
        fitted.score_samples(sample)


def test_text_and_dates_are_taken_by_the_schema() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.5, 3.0], "when": pd.to_datetime(["2020", "2021", "2022"])})
    dated = DiScoFormer(model="kde-scott").fit(frame)
    assert dated.schema_["when"].kind == "date"
    assert dated.sample(3, random_state=0).dtypes.tolist() == frame.dtypes.tolist()
    with pytest.warns(SupportWarning, match="left out 'name' .identifier"):
        named = DiScoFormer(model="kde-scott").fit(frame.assign(name=["x", "y", "z"]))
    assert named.support_.tolist() == [True, True, False]
    np.testing.assert_allclose(named.score_samples(frame), dated.score_samples(frame))
    with pytest.raises(DataError, match="no column 'when', which the sample has"):
        named.score_samples(frame[["a"]])
    with pytest.raises(DataError, match="no column that a density could be of"):
        DiScoFormer(model="kde-scott").fit(pd.DataFrame({"name": ["x", "y"]}))


@pytest.fixture(scope="module")
def mixed_frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "country": rng.choice(["DE", "FR"], 150),
            "since": pd.Timestamp("2025-01-01") + pd.to_timedelta(rng.integers(0, 90, 150), "D"),
            "paid": rng.random(150) < 0.3,
            "age": rng.integers(18, 80, 150).astype(float),
            "share": rng.beta(2, 2, 150),
            "x": rng.normal(size=150),
        }
    )
    frame.loc[::7, "age"] = np.nan
    frame.loc[3, "country"] = None
    return frame


@pytest.fixture(scope="module")
def mixed(model_path: Path, mixed_frame: pd.DataFrame) -> DiScoFormer:
    return DiScoFormer(model=model_path).fit(mixed_frame)


def test_frames_of_every_kind_are_fitted_and_come_back(mixed: DiScoFormer, mixed_frame: pd.DataFrame) -> None:
    kinds = [column.kind for column in mixed.schema_]
    assert kinds == ["category", "date", "boolean", "count", "bounded", "continuous"]
    both = mixed.estimate(mixed_frame)
    assert list(both.columns) == ["log_density", *(f"score_{c}" for c in ("since", "age", "share", "x"))]
    assert np.isfinite(both).all().all()
    drawn = mixed.sample(50, random_state=0)
    assert drawn.dtypes.tolist() == mixed_frame.dtypes.tolist()
    assert drawn["share"].between(0, 1).all() and set(drawn["country"]) <= {"DE", "FR"}
    assert (drawn["age"] == drawn["age"].round()).all() and (
        drawn["since"].dt.normalize() == drawn["since"]
    ).all()
    assert mixed.loo_log_density_.shape == (150,)
    assert np.isfinite(mixed.entropy().value)


def test_parts_of_a_mixed_density_take_labels_and_dates(
    mixed: DiScoFormer, mixed_frame: pd.DataFrame
) -> None:
    row = mixed_frame.iloc[[1]]
    given = ["country", "since"]
    rest = mixed.conditional(given, row[given].iloc[0].tolist())
    joint = mixed.marginal(given).score(row[given]) + rest.score(row[["paid", "age", "share", "x"]])
    assert joint == pytest.approx(mixed.score(row), rel=1e-8)
    with pytest.raises(DataError, match="column 'country' has 'XX'"):
        mixed.conditional("country", "XX")


def test_gaps_in_queries_leave_the_density_of_what_is_there(
    mixed: DiScoFormer, mixed_frame: pd.DataFrame
) -> None:
    rows = mixed_frame.iloc[1:6].assign(age=np.nan)
    rest = [name for name in mixed_frame if name != "age"]
    np.testing.assert_allclose(mixed.score_samples(rows), mixed.marginal(rest).score_samples(rows[rest]))


def test_types_say_otherwise_and_one_word_turns_kinds_off(model_path: Path) -> None:
    frame = pd.DataFrame({"n": RNG.poisson(3, 200), "wait": RNG.exponential(size=200)})
    counted = DiScoFormer(model=model_path).fit(frame)
    assert [column.short for column in counted.schema_] == ["count from 0", "positive from 0"]
    assert counted.score_samples(frame.assign(wait=-1.0)).max() == -np.inf
    plain = DiScoFormer(model=model_path, types="continuous").fit(frame)
    array = DiScoFormer(model=model_path).fit(frame.to_numpy(dtype=float))
    np.testing.assert_allclose(plain.score_samples(frame), array.score_samples(frame.to_numpy(dtype=float)))
    label = DiScoFormer(model=model_path, types={"n": "category"}).fit(frame)
    assert label.schema_["n"].kind == "category"
    codes = DiScoFormer(model=model_path, types={0: "category"}).fit(frame.to_numpy(dtype=float))
    assert set(codes.sample(50, random_state=0)[:, 0]) <= set(frame["n"])


def test_nan_in_an_array_is_a_gap(model_path: Path) -> None:
    values = SAMPLE.copy()
    values[::5, 1] = np.nan
    fitted = DiScoFormer(model=model_path).fit(values)
    assert np.isfinite(fitted.score_samples(values)).all()
    with pytest.raises(DataError, match="infinity at row 0, column 0"):
        DiScoFormer(model=model_path).fit(np.where(np.isnan(values), np.inf, values)[:, [1, 0, 2]])


def test_samples_without_any_density_are_refused() -> None:
    with pytest.raises(DataError, match="every column is constant"):
        DiScoFormer(model="kde-scott").fit(np.ones((5, 2)))
    with pytest.raises(DataError, match="all weight is on one row"):
        DiScoFormer(model="kde-scott").fit(RNG.normal(size=(5, 2)), sample_weight=[0, 1, 0, 0, 0])
    with pytest.raises(DataError, match="change the unit"):
        DiScoFormer(model="kde-scott").fit([[1e-200], [2e-200]])
    with pytest.raises(DataError, match="change the unit"):
        DiScoFormer(model="kde-scott").fit([[1e200], [2e200]])
    with pytest.raises(DataError, match="sum to zero"):
        DiScoFormer(model="kde-scott").fit(RNG.normal(size=(5, 2)), sample_weight=np.zeros(5))


def test_an_estimator_with_a_trainable_network_answers_like_any_other() -> None:
    sample = np.random.default_rng(0).normal(size=(80, 2))
    free = DiScoFormer(model=load_model(trainable=True)).fit(sample)
    frozen = DiScoFormer().fit(sample)
    np.testing.assert_array_equal(free.quantile([0.1, 0.5]), frozen.quantile([0.1, 0.5]))
    np.testing.assert_array_equal(free.cdf([0.0], 1), frozen.cdf([0.0], 1))
    assert free.interval() == frozen.interval()
    np.testing.assert_array_equal(copy.deepcopy(free).log_density(sample), frozen.log_density(sample))

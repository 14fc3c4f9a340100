"""The scikit-learn face: its contract, every kind of data, and the laws of the fitted density."""

import os
import pickle
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import discoformer
from discoformer import KDE, DiScoFormer, estimate, functionals
from discoformer.core.checks import DataError
from discoformer.models.registry import load_model

RNG = np.random.default_rng(0)
SAMPLE = RNG.normal(size=(200, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 2.0]])
QUERIES = RNG.normal(size=(20, 3))
FRAME = pd.DataFrame(SAMPLE, columns=["a", "b", "c"], index=[f"row{i}" for i in range(200)])


@pytest.fixture
def est(model_path: Path) -> DiScoFormer:
    return DiScoFormer(model=model_path).fit(SAMPLE)


# -- the contract of scikit-learn -------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::discoformer.methods.RangeWarning")
@pytest.mark.parametrize("model", ["network", "kde", pytest.param("default", marks=pytest.mark.slow)])
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
    pipeline = make_pipeline(StandardScaler(), DiScoFormer(model="kde")).fit(FRAME)
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


# -- kinds of data ----------------------------------------------------------------------------


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
    est = DiScoFormer(model="kde").fit(frame)
    assert list(est.sample(2, random_state=0).columns) == columns
    assert list(est.score_function(frame).columns) == columns
    assert list(est.estimate(frame).columns) == ["log_density", *(f"score_{name}" for name in columns)]
    assert list(est.estimate(est.sample(2, random_state=0)).index) == [0, 1]  # and no warning of names


def test_frames_without_columns_or_with_two_of_a_name_are_refused() -> None:
    with pytest.raises(DataError, match="X has no columns"):
        DiScoFormer(model="kde").fit(FRAME[[]])
    with pytest.raises(DataError, match="X has two columns 'a': rename one of them"):
        DiScoFormer(model="kde").fit(FRAME[["a", "b", "a"]])


def test_integer_and_nullable_columns_are_numbers() -> None:
    frame = pd.DataFrame(
        {"a": range(10), "b": pd.array([1, 2, 3, 4, 5] * 2, dtype="Int64"), "c": [True, False] * 5}
    )
    assert np.isfinite(DiScoFormer(model="kde").fit(frame).score_samples(frame)).all()
    frame.loc[4, "b"] = pd.NA
    with pytest.raises(DataError, match="NaN at row 4, column 'b'"):
        DiScoFormer(model="kde").fit(frame)


def test_polars_keeps_names(est: DiScoFormer, model_path: Path) -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(SAMPLE, schema=["a", "b", "c"])
    named = DiScoFormer(model=model_path).fit(frame)
    both = named.estimate(frame[:5])
    assert both.columns == ["log_density", "score_a", "score_b", "score_c"]
    np.testing.assert_allclose(both["log_density"].to_numpy(), est.score_samples(SAMPLE[:5]), rtol=1e-12)
    assert named.log_density(frame[:5]).name == "log_density"
    assert named.sample(4).columns == ["a", "b", "c"]
    with pytest.raises(DataError, match="column 'b' holds text"):
        DiScoFormer(model="kde").fit(pl.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))


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


def test_functional_is_the_estimator_in_one_call(est: DiScoFormer, model_path: Path) -> None:
    log_density, score = estimate(SAMPLE, QUERIES, model=model_path)
    np.testing.assert_allclose(log_density, est.score_samples(QUERIES), rtol=1e-12)
    np.testing.assert_allclose(score, est.score_function(QUERIES), rtol=1e-12)
    np.testing.assert_allclose(
        estimate(SAMPLE, model=model_path).log_density, est.score_samples(SAMPLE), rtol=1e-12
    )
    batch = torch.tensor(np.stack([SAMPLE, 2 * SAMPLE]))
    both = estimate(batch, batch[:, :5], model=model_path)
    assert both.log_density is not None
    np.testing.assert_allclose(both.log_density[0], est.score_samples(SAMPLE[:5]), rtol=1e-10)
    torch.testing.assert_close(both.log_density[0] - 3 * np.log(2), both.log_density[1])


def test_functional_has_the_derivatives_of_its_answers(model_path: Path) -> None:
    """In the points and in the sample, against finite differences."""
    sample = torch.tensor(SAMPLE[:12, :2], requires_grad=True)
    queries = torch.tensor(QUERIES[:3, :2], requires_grad=True)

    def answer(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(t for t in estimate(x, y, model=model_path) if t is not None)

    assert torch.autograd.gradcheck(answer, (sample, queries), atol=1e-5)


# -- sample weights ---------------------------------------------------------------------------


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
        DiScoFormer(model="kde").fit(SAMPLE, sample_weight=weights)


# -- the fitted density as a distribution -----------------------------------------------------


def test_sample_has_the_moments_of_the_density(est: DiScoFormer) -> None:
    drawn = est.sample(20_000, random_state=0)
    assert drawn.shape == (20_000, 3)
    mixture = est.field_
    mean = (mixture.weights @ mixture.means).numpy()  # type: ignore[attr-defined]
    np.testing.assert_allclose(drawn.mean(0), mean, atol=5 * drawn.std(0).max() / np.sqrt(20_000))
    np.testing.assert_array_equal(drawn, est.sample(20_000, random_state=0))
    assert not np.array_equal(est.sample(5, random_state=0), est.sample(5, random_state=1))


def test_kernel_estimates_draw_rows_within_bounds_and_on_the_support() -> None:
    x = np.random.default_rng(0).exponential(size=(60, 1))
    frame = pd.DataFrame(np.hstack([x, 2 * x, np.ones_like(x)]), columns=["a", "double", "one"])
    with pytest.warns(UserWarning, match="left out 'one'"):
        fitted = DiScoFormer(model="kde", bounds={"a": (0, None)}).fit(frame)
    drawn = fitted.sample(2000, random_state=0)
    assert drawn.columns.tolist() == ["a", "double", "one"]
    assert (drawn["a"] > 0).all()
    np.testing.assert_allclose(drawn["double"], 2 * drawn["a"], rtol=1e-9)
    np.testing.assert_allclose(drawn["one"], 1)


@pytest.mark.parametrize("count", [0, -1])
def test_no_rows_cannot_be_drawn(est: DiScoFormer, count: int) -> None:
    for fitted in (est, DiScoFormer(model="kde").fit(SAMPLE)):
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


def test_verbs_a_method_lacks_are_a_clear_error() -> None:
    fitted = DiScoFormer(model="kde").fit(SAMPLE)
    with pytest.raises(DataError, match="KDEField has no marginal"):
        fitted.marginal([0])


def test_entropy_and_fisher_information_are_the_functionals(model_path: Path) -> None:
    for model in (str(model_path), "kde"):
        fitted = DiScoFormer(model=model).fit(FRAME)
        method = KDE() if model == "kde" else load_model(model)
        assert fitted.entropy() == pytest.approx(functionals.entropy(SAMPLE, method))
        expected = functionals.fisher_information(SAMPLE, method, split="none")
        assert fitted.fisher_information(split="none") == pytest.approx(expected)


def test_entropy_of_parts_is_that_of_their_density(est: DiScoFormer) -> None:
    """The chain rule: H(a, b) = H(b) + E H(a | b), with a and b independent given nothing but b's value."""
    one = est.marginal([0])
    assert one.entropy().value == pytest.approx(
        -float(one.score_samples(one.sample(20_000, 1)).mean()), abs=0.05
    )
    weighted = DiScoFormer(model=est.model).fit(SAMPLE, sample_weight=np.ones(200))
    assert weighted.entropy().value == pytest.approx(
        -weighted.score(weighted.sample(20_000, 1)) / 20_000, abs=0.08
    )


def test_entropy_follows_bounds_and_support(model_path: Path) -> None:
    positive = np.column_stack([RNG.exponential(size=300), np.ones(300)])
    with pytest.warns(UserWarning, match="left out column 1"):
        fitted = DiScoFormer(model="kde", bounds=[(0, None), None]).fit(positive)
    value, error = fitted.entropy()
    assert abs(value - 1.0) < 4 * error  # of the exponential law


@pytest.mark.slow
def test_first_estimate_is_not_slower_than_three_imports_of_torch() -> None:
    """Import, load the default, fit and answer in a fresh process, in processor time, best of three."""
    first = (
        "import numpy as np; from discoformer import DiScoFormer\n"
        "x = np.random.default_rng(0).normal(size=(1000, 2))\n"
        "DiScoFormer().fit(x).estimate(x)"
    )

    def seconds(code: str) -> float:
        times = []
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            # One thread: threads that wait for a busy machine count as processor time.
            one = {**os.environ, "OMP_NUM_THREADS": "1"}
            subprocess.run([sys.executable, "-c", code], check=True, env=one)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(times)

    assert seconds(first) < 3 * seconds("import torch")


def test_public_names_are_lazy() -> None:
    assert discoformer.DiScoFormer is DiScoFormer
    assert discoformer.estimate is estimate
    assert discoformer.load_model is load_model

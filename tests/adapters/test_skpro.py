"""The skpro interface, by skpro's own checks and by the conditional density itself."""

import numpy as np
import pytest

pytest.importorskip("skpro")

import pandas as pd
from skpro.utils import check_estimator

from discoformer.adapters.skpro import ConditionalDensity, DiScoFormerRegressor
from discoformer.core.checks import DataError
from discoformer.core.fields import Density


@pytest.mark.filterwarnings("ignore")  # those of the library
@pytest.mark.parametrize("kind", [DiScoFormerRegressor, ConditionalDensity])
def test_the_checks_of_skpro(kind: type) -> None:
    results = check_estimator(kind, raise_exceptions=False, verbose=False)
    assert {key: value for key, value in results.items() if value != "PASSED"} == {}


def test_all_rows_in_one_batch_are_the_conditionals_of_one_at_a_time() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    y = x @ [1.0, -0.5] + 0.3 * rng.normal(size=200)
    X, target = pd.DataFrame(x, columns=["a", "b"]), pd.DataFrame({"y": y})
    fitted = DiScoFormerRegressor("default").fit(X, target)
    law = fitted.predict_proba(X[:4])
    for row in range(4):
        one = fitted.density_.conditional([0, 1], x[row])
        np.testing.assert_allclose(law.log_pdf(target[:4]).iloc[row], one.log_density(y[row].reshape(1, 1)))
        np.testing.assert_allclose(law.cdf(target[:4]).iloc[row], one.cdf(y[row].reshape(1, 1)))


@pytest.mark.filterwarnings("ignore")  # those of the library
def test_mean_variance_and_energies_are_those_of_the_law() -> None:
    laws = ConditionalDensity(**ConditionalDensity.get_test_params()[0])
    shares = np.linspace(0, 1, 4002)[1:-1]
    quantiles = np.stack([law.quantile(shares).numpy().ravel() for law in _each(laws)])
    np.testing.assert_allclose(laws.mean().to_numpy().ravel(), quantiles.mean(1), atol=0.005)
    np.testing.assert_allclose(laws.var().to_numpy().ravel(), quantiles.var(1), rtol=0.02)
    gaps = np.abs(quantiles[:, ::8, None] - quantiles[:, None, ::8]).mean((1, 2))
    np.testing.assert_allclose(laws.energy().to_numpy().ravel(), gaps, rtol=0.02)
    at = pd.DataFrame({"y": [0.0, 1.0, -1.0]})
    expected = np.abs(quantiles - at.to_numpy()).mean(1)
    np.testing.assert_allclose(laws.energy(at).to_numpy().ravel(), expected, rtol=0.01)
    assert laws.sample(5).groupby(level=1).size().tolist() == [5, 5, 5]


def _each(laws: ConditionalDensity) -> list[Density]:
    return [laws.density.conditional([0], row) for row in laws.rows]


def test_what_a_row_says_does_not_depend_on_the_others() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 1))
    X, y = pd.DataFrame(x, columns=["a"]), pd.DataFrame(x + rng.normal(size=(150, 1)), columns=["y"])
    fitted = DiScoFormerRegressor("default").fit(X, y)
    for ask in (fitted.predict, fitted.predict_var, lambda rows: fitted.predict_proba(rows).energy()):
        np.testing.assert_allclose(ask(X[:6])[3:], ask(X[3:6]), rtol=1e-9)


def test_what_is_no_regression_is_refused() -> None:
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["a", "b"])
    with pytest.raises(DataError, match="y has 2 columns"):
        DiScoFormerRegressor()._fit(X[["a"]], X)
    fitted = DiScoFormerRegressor("kde-scott").fit(X[["a"]], X[["b"]])
    with pytest.raises(DataError, match="X has no rows"):
        fitted.predict_proba(X[["a"]][:0])

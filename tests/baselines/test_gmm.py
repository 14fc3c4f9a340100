"""scikit-learn's mixtures as fields: the same density, its exact gradient, an honest search."""

import warnings

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

from discoformer.baselines import BayesianMixture, GaussianMixtureBIC, SplineFlow
from discoformer.core.checks import DataError
from discoformer.core.fields import Method

METHODS = {
    "full": GaussianMixtureBIC("full", components=range(1, 5)),
    "diag": GaussianMixtureBIC("diag", components=range(1, 5)),
    "bayes": BayesianMixture(components=4),
}


@pytest.fixture
def sample() -> np.ndarray:
    """Two correlated clusters in three columns of very different units."""
    rng = np.random.default_rng(0)
    mixing = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.2, 0.0, 1.0]])
    shift = np.where(rng.random((120, 1)) < 0.5, 4.0, -4.0)
    return (rng.normal(size=(120, 3)) @ mixing + shift) * [1.0, 1e-6, 1e4] + [5.0, 0.0, 1e5]


def sklearn_fit(name: str, points: np.ndarray) -> GaussianMixture | BayesianGaussianMixture:
    """The mixture that scikit-learn itself fits to standardized columns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if name == "bayes":
            return BayesianGaussianMixture(n_components=4, max_iter=1000, random_state=0).fit(points)
        fits = [
            GaussianMixture(k, covariance_type=name, max_iter=1000, random_state=0).fit(points)
            for k in range(1, 5)
        ]
    return min(fits, key=lambda fit: fit.bic(points))


@pytest.mark.parametrize("name", METHODS)
def test_log_density_is_scikit_learns(name: str, sample: np.ndarray) -> None:
    center, scale = sample.mean(0), sample.std(0)
    theirs = sklearn_fit(name, (sample - center) / scale)
    queries = np.concatenate([sample, sample[:20] + 3 * scale])
    inside = (queries - center) / scale
    if name == "bayes":  # scikit-learn's own number is a variational bound, not a density
        parts = zip(theirs.weights_, theirs.means_, theirs.covariances_, strict=True)
        terms = [np.log(w) + multivariate_normal.logpdf(inside, m, c) for w, m, c in parts]
        expected = logsumexp(terms, axis=0) - np.log(scale).sum()
    else:
        expected = theirs.score_samples(inside) - np.log(scale).sum()
    ours = METHODS[name].fit(sample).log_density(queries)
    np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", METHODS)
def test_score_is_the_gradient(name: str, sample: np.ndarray) -> None:
    queries = torch.from_numpy(sample[:30]).requires_grad_()
    log_density, score = METHODS[name].fit(sample).estimate(queries)
    (gradient,) = torch.autograd.grad(log_density.sum(), queries)
    torch.testing.assert_close(score, gradient, rtol=1e-9, atol=0)


def test_the_search_finds_the_number_of_components() -> None:
    rng = np.random.default_rng(1)
    centers = np.array([[-6.0, 0.0], [6.0, 0.0], [0.0, 9.0]])
    sample = centers[rng.integers(3, size=300)] + rng.normal(size=(300, 2))
    for covariance in ("full", "diag"):
        field = GaussianMixtureBIC(covariance, components=range(1, 7)).fit(sample)
        assert field.base.means.shape == (3, 2)


def test_components_without_enough_points_come_last() -> None:
    """With 40 rows in 6 columns, eleven components of a few points have the least BIC of all."""
    sample = np.random.default_rng(0).normal(size=(40, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        standard = (sample - sample.mean(0)) / sample.std(0)
        one, eleven = (GaussianMixture(k, random_state=0).fit(standard).bic(standard) for k in (1, 11))
    assert eleven < one
    assert len(GaussianMixtureBIC(components=(11, 1)).fit(sample).base.weights) == 1


@pytest.mark.parametrize("name", METHODS)
def test_a_batch_is_fitted_sample_by_sample(name: str, sample: np.ndarray) -> None:
    other = np.random.default_rng(2).normal(size=sample.shape)
    both = METHODS[name].fit(np.stack([sample, other])).estimate(np.stack([sample, other]))
    for index, one in enumerate((sample, other)):
        log_density, score = METHODS[name].fit(one).estimate(one)
        np.testing.assert_allclose(both.log_density[index], log_density, rtol=1e-10)
        np.testing.assert_allclose(both.score[index], score, rtol=1e-8)


def test_fewer_rows_than_components() -> None:
    sample = np.array([[0.0], [1.0], [3.0]])
    assert np.isfinite(BayesianMixture().fit(sample).log_density(sample)).all()
    assert np.isfinite(GaussianMixtureBIC().fit(sample).log_density(sample)).all()
    with pytest.raises(DataError, match="3 rows are fewer than the 5 components"):
        GaussianMixtureBIC(components=[5]).fit(sample)


@pytest.mark.parametrize("method", [*METHODS.values(), pytest.param("flow", id="flow")])
def test_sample_weights_are_refused(method: Method | str) -> None:
    if method == "flow":
        pytest.importorskip("zuko")
        method = SplineFlow()
    with pytest.raises(DataError, match="no sample weights"):
        method.fit(np.arange(6.0).reshape(3, 2), weights=[1.0, 1.0, 2.0])


def test_bad_options_are_refused() -> None:
    with pytest.raises(DataError, match="'full' or 'diag'"):
        GaussianMixtureBIC("tied")
    with pytest.raises(DataError, match="at least 1"):
        GaussianMixtureBIC(components=[])
    with pytest.raises(DataError, match="at least 1"):
        BayesianMixture(0)

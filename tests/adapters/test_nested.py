"""The prior transform: uniform numbers in, draws of the density out, column by column."""

import pickle

import numpy as np
import pytest
import torch
from helpers import gmm_sample
from scipy.stats import ks_2samp

from discoformer.adapters import prior_transform
from discoformer.core.checks import DataError
from discoformer.core.fields import as_density
from discoformer.models.registry import load_model

FIELD = as_density(load_model("default").fit(gmm_sample(150, 2)))


def test_the_cube_becomes_the_density() -> None:
    transform = prior_transform(FIELD)
    points = transform(np.random.default_rng(0).uniform(size=(600, 2)))
    draws = FIELD.sample(4000, torch.Generator().manual_seed(1)).numpy()
    for direction in ([1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]):
        assert ks_2samp(points @ direction, draws @ direction).pvalue > 1e-3


def test_it_is_the_law_of_each_column_given_those_before() -> None:
    cube = np.array([[0.2, 0.7], [0.9, 0.4]])
    points = prior_transform(FIELD)(cube)
    np.testing.assert_allclose(prior_transform(FIELD)(cube[0]), points[0], rtol=1e-9)
    for share, point in zip(cube, points, strict=True):
        first = FIELD.marginal([0]).cdf(torch.tensor([[point[0]]]))
        second = FIELD.conditional([0], point[:1]).cdf(torch.tensor([[point[1]]]))
        np.testing.assert_allclose([float(first), float(second)], share, atol=1e-9)


def test_edges_are_finite_and_the_rest_is_refused() -> None:
    assert np.isfinite(prior_transform(FIELD)([[0.0, 1.0], [1.0, 0.0]])).all()
    with pytest.raises(DataError, match="unit cube"):
        prior_transform(FIELD)([0.5])
    with pytest.raises(DataError, match="unit cube"):
        prior_transform(FIELD)([0.5, 1.5])


def test_it_goes_to_other_processes() -> None:
    transform, cube = prior_transform(FIELD), [[0.2, 0.7], [0.9, 0.4]]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(transform))(cube), transform(cube))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of the library
def test_a_nested_sampler_finds_the_mean_likelihood_under_the_density() -> None:
    dynesty = pytest.importorskip("dynesty")
    law = FIELD.marginal([0])
    middle = float(law.quantile([0.5]))

    def log_likelihood(point: np.ndarray) -> float:
        return float(-0.5 * (point[0] - middle) ** 2)

    random = np.random.default_rng(0)
    sampler = dynesty.NestedSampler(
        log_likelihood, prior_transform(law), 1, nlive=25, bound="none", sample="unif", rstate=random
    )
    sampler.run_nested(dlogz=0.5, print_progress=False)
    draws = law.sample(100_000, torch.Generator().manual_seed(1)).numpy()[:, 0]
    exact = np.log(np.exp(-0.5 * (draws - middle) ** 2).mean())
    assert abs(sampler.results.logz[-1] - exact) < 3 * sampler.results.logzerr[-1] < 1

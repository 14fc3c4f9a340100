"""The benchmark's errors: what the zero field and the truth have, and what the sums mean."""

import math

import numpy as np
import pytest
import torch

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate, Field, Method, PointDensity
from discoformer.evaluation.known_truth import Errors, gmm_dataset, gmm_datasets, measure
from discoformer.priors import GMMPrior, LocationScaleMixture


class ZeroField(Field, Method):
    """Score zero everywhere; knows no density."""

    @property
    def dim(self):
        return 2

    def _score(self, queries):
        return torch.zeros_like(queries)

    def _fit(self, context, weights):
        return self


class OffBy(PointDensity):
    """The truth of a data set at its points, off by constants."""

    def __init__(self, data, *, log_density=0.0, score=0.0):
        self.answer = Estimate(data.truth.log_density + log_density, data.truth.score + score)

    @property
    def dim(self):
        return 2

    def _estimate(self, queries):
        return self.answer


def test_the_zero_predictor_has_exactly_one():
    errors = measure({"zero": ZeroField()}, gmm_datasets(2, 50, 5, seed=0))["zero"]
    assert errors.relative_score == 1.0
    assert errors.datasets == 5 and math.isnan(errors.log_density_mse)


def test_the_truth_has_zero_and_constants_have_their_squares():
    truth, off = Errors(), Errors()
    sizes = [20, 50]  # means are over data sets, not over points
    for size, shift in zip(sizes, (1.0, 3.0), strict=True):
        data = next(gmm_datasets(2, size, 1, seed=size))
        truth.add(OffBy(data), data.context, data.truth)
        off.add(OffBy(data, log_density=shift, score=2 * shift), data.context, data.truth)
    assert truth.relative_score == truth.score_mse == truth.log_density_mse == 0
    assert off.log_density_mse == pytest.approx((1 + 9) / 2)
    assert off.score_mse == pytest.approx((2 * 4 + 2 * 36) / 2)  # |s_hat - s|^2 over two coordinates
    assert off.score_error == pytest.approx(20 * 8 + 50 * 72)


def test_pooling_weighs_data_sets_by_their_squared_scores():
    datasets = list(gmm_datasets(2, 30, 3, seed=1))
    pooled = Errors()
    for data in datasets:
        pooled.add(OffBy(data, score=0.5), data.context, data.truth)
    squares = np.array([float(data.truth.score.square().sum()) for data in datasets])
    singles = 30 * 2 * 0.25 / squares
    assert pooled.relative_score == pytest.approx((singles * squares).sum() / squares.sum())


def test_datasets_take_the_modes_in_turn_and_each_seed_gives_the_same_one():
    first, again = (list(gmm_datasets(3, 10, 12, seed=5)) for _ in range(2))
    for index, (a, b) in enumerate(zip(first, again, strict=True)):
        assert torch.equal(a.context, b.context) and a.context.shape == (10, 3)
        assert isinstance(a.distribution, LocationScaleMixture)
        assert a.distribution.weights.shape == (1, index % 10 + 1)
        assert a.distribution.rotation is None
        torch.testing.assert_close(a.distribution.score(a.context)[0], a.truth.score)


def test_covariance_is_the_priors_or_the_argument_but_not_both():
    rotated = next(gmm_datasets(2, 10, 1, seed=0, covariance="rotated"))
    prior = next(gmm_datasets(2, 10, 1, seed=0, prior=GMMPrior(covariance="rotated")))
    assert torch.equal(rotated.context, prior.context)
    with pytest.raises(DataError, match="not both"):
        next(gmm_datasets(2, 10, 1, seed=0, covariance="diagonal", prior=GMMPrior()))


@pytest.mark.parametrize("text", ["gmm:2,100", "gmm:0,100,3", "gmm:2,1,3", "gmm:2,100,3,4", "gmm:a,b,c"])
def test_bad_mixtures_say_how_to_write_them(text: str) -> None:
    with pytest.raises(DataError, match="write gmm:d,n,k"):
        gmm_dataset(text)

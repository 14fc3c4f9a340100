"""The bandwidth that an oracle would choose."""

import math

import numpy as np
import pytest
import torch
from helpers import far_sample

from discoformer.baselines import KDE, oracle_bandwidth
from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate, PointDensity


class StandardNormal(PointDensity):
    """The exact answer for N(0, I)."""

    def __init__(self, dim):
        self._dim = dim

    @property
    def dim(self):
        return self._dim

    def _estimate(self, queries):
        log_density = -0.5 * (queries.square().sum(-1) + self.dim * math.log(2 * math.pi))
        return Estimate(log_density, -queries)


@pytest.mark.parametrize("by", ["score", "log_density"])
@pytest.mark.parametrize("d", [1, 100])
def test_oracle_is_the_best_of_its_grid(by, d):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 150, d)), rng.normal(size=(2, 80, d))
    grid = [0.5, 0.7, 1.0, 1.4, 2.0]
    H = oracle_bandwidth(x, StandardNormal(d), y, by=by, multiples=grid)
    truth = StandardNormal(d).estimate(y)

    def error(bandwidth, b):
        result = KDE(bandwidth).fit(x[b]).estimate(y[b])
        return np.square(getattr(result, by) - getattr(truth, by)[b]).mean()

    for b in range(2):
        scott = KDE("scott").fit(x[b]).bandwidth
        best = min(error(c**2 * scott, b) for c in grid)
        assert error(H[b], b) == pytest.approx(best, rel=1e-9)


def test_oracle_recovers_a_bandwidth():
    x = far_sample(100)
    truth = KDE("scott-full").fit(x)
    H = oracle_bandwidth(x, truth, x, rule="scott-full")
    torch.testing.assert_close(H, truth.bandwidth)


def test_errors_say_what_is_wrong():
    x = far_sample(10)
    for multiples in ([], [0.0, 1.0], [1.0, -1.0], [math.nan]):
        with pytest.raises(DataError, match="positive"):
            oracle_bandwidth(x, KDE().fit(x), x, multiples=multiples)
    with pytest.raises(DataError, match="by='density'"):
        oracle_bandwidth(x, KDE().fit(x), x, by="density")
    with pytest.raises(DataError, match="2 column"):
        oracle_bandwidth(x, KDE().fit(x), x[:, :2])

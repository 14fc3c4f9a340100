"""Nearest-neighbour entropy and divergence: definitions by brute force, closed forms, exact laws."""

import math

import numpy as np
import pytest
import torch
from helpers import normal
from scipy.special import digamma

from discoformer.core.checks import DataError
from discoformer.functionals.neighbours import knn_entropy, knn_kl_divergence


@pytest.mark.parametrize("k", [1, 4])
def test_definitions_by_brute_force(k: int) -> None:
    x, y = normal(30, 3), normal(20, 3, seed=1)
    own = torch.cdist(x, x).sort(-1).values[:, k]  # the first is the point itself
    other = torch.cdist(x, y).sort(-1).values[:, k - 1]
    ball = 4 / 3 * math.pi
    entropy = digamma(30) - digamma(k) + math.log(ball) + 3 * own.log().mean()
    divergence = 3 * (other / own).log().mean() + math.log(20 / 29)
    torch.testing.assert_close(knn_entropy(x, k).value, entropy)
    torch.testing.assert_close(knn_kl_divergence(x, y, k).value, divergence)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_closed_forms_of_gaussians(dim: int) -> None:
    x, y = normal(4000, dim), normal(4000, dim, seed=1) + 1 / math.sqrt(dim)
    value, error = knn_entropy(x)
    assert abs(value - 0.5 * dim * math.log(2 * math.pi * math.e)) < 4 * error + 0.02 * dim
    value, error = knn_kl_divergence(x, y)
    assert abs(value - 0.5) < 4 * error + 0.02 * dim


def test_laws_of_rotation_scale_and_shift() -> None:
    x, y = normal(50, 2), normal(40, 2, seed=1)
    turn = torch.linalg.qr(normal(2, 2, seed=2))[0]
    x2, y2 = (3 * z @ turn + 7 for z in (x, y))
    torch.testing.assert_close(knn_entropy(x2).value, knn_entropy(x).value + 2 * math.log(3))
    torch.testing.assert_close(knn_kl_divergence(x2, y2), knn_kl_divergence(x, y))


def test_batches_and_kinds_of_numbers() -> None:
    x, y = normal(2, 3, 30, 2), normal(20, 2, seed=1)  # one second sample for all
    entropy, divergence = knn_entropy(x), knn_kl_divergence(x, y)
    torch.testing.assert_close(entropy.value[1, 2], knn_entropy(x[1, 2]).value)
    torch.testing.assert_close(divergence.standard_error[1, 2], knn_kl_divergence(x[1, 2], y).standard_error)
    assert isinstance(knn_entropy(x[0, 0].numpy()).value, float)
    np.testing.assert_allclose(knn_entropy(x.numpy()).value, entropy.value)


def test_errors_say_what_to_do() -> None:
    copies = torch.zeros(5, 1).double()
    with pytest.raises(DataError, match="larger k"):
        knn_entropy(torch.cat([copies, normal(20, 1)]))
    with pytest.raises(DataError, match=r"second sample: a point is equal to 3 row"):
        knn_kl_divergence(torch.cat([copies[:1], normal(20, 1)]), copies)
    with pytest.raises(DataError, match="give the same columns of both"):
        knn_kl_divergence(normal(20, 2), normal(20, 1))
    with pytest.raises(DataError, match="at least 4"):
        knn_entropy(normal(3, 1))
    with pytest.raises(DataError, match="positive number"):
        knn_entropy(normal(3, 1), k=0)

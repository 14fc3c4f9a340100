"""Entropy and divergence from distances to nearest neighbours: no density, no score, no bandwidth.

The ball around x_i that reaches its k-th neighbour holds about k/n of the mass, so its volume gives the
density there (Kozachenko and Leonenko 1987; Wang, Kulkarni and Verdu 2009):

    H(f)    = log n' + log V_d + d mean_i log r_k(i),             log n' = psi(n) - psi(k)
    KL(f|g) = d mean_i log(q_k(i) / r_k(i)) + log(m / (n - 1))

with r_k(i) the distance from x_i to its k-th neighbour in its own sample, q_k(i) that in the other sample,
V_d the volume of the unit ball and psi the digamma function.  Distances are Euclidean: bring columns to the
same scale first.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.special import digamma
from torch import Tensor

from discoformer.core.checks import DataError, check_points
from discoformer.functionals.splits import Functional

__all__ = ["knn_entropy", "knn_kl_divergence"]


def knn_entropy(sample: Any, k: int = 3) -> Functional:
    """Differential entropy by k nearest neighbours, in nats.

    Parameters
    ----------
    sample : (..., n, d)
    k : number of neighbours

    >>> x = np.random.default_rng(0).uniform(size=(2000, 1))
    >>> value, standard_error = knn_entropy(x)
    >>> bool(abs(value) < 3 * standard_error)
    True
    """
    points = check_points(sample, "sample", min_rows=_positive(k) + 1)
    rows, dim = points.shape[-2:]
    log_radius = _log_distances(points, points, k + 1, "sample")  # the nearest point is the point itself
    log_volume = 0.5 * dim * math.log(math.pi) - math.lgamma(0.5 * dim + 1)
    terms = dim * log_radius + log_volume + float(digamma(rows) - digamma(k))
    return Functional.like(sample, terms.mean(-1), terms.var(-1) / rows)


def knn_kl_divergence(first: Any, second: Any, k: int = 3) -> Functional:
    """Kullback-Leibler divergence KL(f|g) by k nearest neighbours, in nats.

    The standard error counts the sample of f only.

    Parameters
    ----------
    first : (..., n, d), the sample of f
    second : (..., m, d), the sample of g
    k : number of neighbours

    >>> x = np.random.default_rng(0).normal(size=(2, 2000, 1))
    >>> value, standard_error = knn_kl_divergence(x[0], x[1])
    >>> bool(abs(value) < 3 * standard_error)
    True
    """
    x = check_points(first, "first sample", min_rows=_positive(k) + 1)
    y = check_points(second, "second sample", min_rows=k)
    rows, dim = x.shape[-2:]
    if y.shape[-1] != dim:
        raise DataError(f"the samples have {dim} and {y.shape[-1]} column(s): give the same columns of both")
    own = _log_distances(x, x, k + 1, "first sample")
    other = _log_distances(x, y, k, "second sample")
    terms = dim * (other - own) + math.log(y.shape[-2] / (rows - 1))
    return Functional.like(first, terms.mean(-1), terms.var(-1) / rows)


def _log_distances(queries: Tensor, points: Tensor, k: int, name: str) -> Tensor:
    """Log distance (..., m) from every query to its k-th nearest point."""
    batch = torch.broadcast_shapes(queries.shape[:-2], points.shape[:-2])
    y, x = (
        t.detach().expand(*batch, *t.shape[-2:]).reshape(-1, *t.shape[-2:]).cpu().double().numpy()
        for t in (queries, points)
    )
    distances: NDArray[np.float64] = np.stack(
        [cKDTree(x[b]).query(y[b], k=[k])[0][:, 0] for b in range(len(y))]
    )
    if not (distances > 0).all():
        raise DataError(
            f"{name}: a point is equal to {k} row(s), a distance is zero: use a larger k or drop the copies"
        )
    return torch.from_numpy(np.log(distances)).reshape(*batch, queries.shape[-2]).to(queries)


def _positive(k: int) -> int:
    if k < 1:
        raise DataError(f"k={k}: give a positive number of neighbours")
    return k

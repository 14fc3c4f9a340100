"""The full quadratic lift: phi(x) = the products of any two of h(x) = (1, x_1, ..., x_d), each pair once.

The paper lifts a token to [x, |x|^2] so that a softmax head becomes an isotropic Gaussian kernel.
Lifted fully, a Gaussian of any covariance is one inner product, and attention values are moments:

    log N(x; mu, S) = <phi(x), theta>
    sum_j r_j phi(x_j) = count, sum of points, sum of second moments

The lift of a sample has a row for every feature and a column for every point, so that operations run along
memory.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = [
    "Natural",
    "coefficients",
    "least_logit",
    "lift",
    "moment_matrix",
    "natural_parameters",
    "weight_and_log",
]


def lift(points: Tensor) -> Tensor:
    """phi(x) = [1, x, x_i x_j for i <= j] of points (..., n, d), in columns: (..., (d+1)(d+2)/2, n).

    >>> lift(torch.tensor([[2.0, 3.0]])).flatten().tolist()
    [1.0, 2.0, 3.0, 4.0, 6.0, 9.0]
    """
    pairs = _pairs(points.shape[-1], points.device)
    rows = torch.cat([torch.ones_like(points[..., :1]), points], -1).mT.contiguous()  # h(x), (..., d + 1, n)
    return rows.index_select(-2, pairs.first).mul_(rows.index_select(-2, pairs.second))


def coefficients(matrix: Tensor) -> Tensor:
    """The vector c with <phi(x), c> = h(x)' Q h(x), for symmetric Q (..., d + 1, d + 1).

    >>> round(float(coefficients(torch.eye(3)) @ lift(torch.tensor([[2.0, 3.0]]))))
    14
    """
    pairs = _pairs(matrix.shape[-1] - 1, matrix.device)
    return matrix.flatten(-2).index_select(-1, pairs.place) * pairs.times


def moment_matrix(lifted: Tensor, dim: int) -> Tensor:
    """Sums of h(x) h(x)' (..., d + 1, d + 1) from sums of phi(x) (..., (d+1)(d+2)/2).

    >>> points = torch.tensor([[2.0], [4.0]])
    >>> moment_matrix(lift(points).sum(-1), 1).tolist()  # count, sum; sum, sum of squares
    [[2.0, 6.0], [6.0, 20.0]]
    """
    back = _pairs(dim, lifted.device).back
    return lifted.index_select(-1, back).reshape(*lifted.shape[:-1], dim + 1, dim + 1)


class _Pairs(NamedTuple):
    """The pairs of entries of h(x), in the order of phi(x).

    Attributes
    ----------
    first, second : of every pair
    place : of every pair in a flattened matrix
    times : how often a pair is in a symmetric matrix, once or twice
    back : the pair of every place of a flattened matrix
    """

    first: Tensor
    second: Tensor
    place: Tensor
    times: Tensor
    back: Tensor


def _pairs(dim: int, device: torch.device) -> _Pairs:
    return _make_pairs(dim, device) if torch.compiler.is_compiling() else _kept_pairs(dim, device)


@cache
@torch.inference_mode(False)  # kept for later calls, whose derivatives need ordinary tensors
def _kept_pairs(dim: int, device: torch.device) -> _Pairs:
    return _make_pairs(dim, device)


def _make_pairs(dim: int, device: torch.device) -> _Pairs:
    first, second = torch.triu_indices(dim + 1, dim + 1, device=device)
    back = torch.zeros(dim + 1, dim + 1, dtype=torch.long, device=device)
    back[first, second] = back[second, first] = torch.arange(len(first), device=device)
    return _Pairs(first, second, first * (dim + 1) + second, 1 + (first < second).long(), back.flatten())


def weight_and_log(theta: Tensor, lifted: Tensor) -> tuple[Tensor, Tensor]:
    """w = 1 + <phi, theta> and log w, each (..., M, n), of keys (..., M, F) and lifted points (..., F, n).

    In double precision log1p is slow, and computing w = 1 + t first costs only nu * 1e-16 of a log density.
    """
    t = (theta @ lifted).clamp_min_(0)
    if t.dtype == torch.float32:
        return t + 1, t.log1p()
    w = t.add_(1)
    return w, w.log()


def least_logit(dtype: torch.dtype) -> float:
    """Logits this far below the largest count as zero: underflowing numbers are slow and add nothing."""
    return 0.75 * math.log(torch.finfo(dtype).tiny)


class Natural(NamedTuple):
    """Natural parameters of Gaussians N(mean, scale).

    Attributes
    ----------
    form : (..., d + 1, d + 1), the squared Mahalanobis distance is h(x)' form h(x)
    distance : (..., (d+1)(d+2)/2), and the same is <phi(x), distance>
    log_peak : (...), log density at the mean
    """

    form: Tensor
    distance: Tensor
    log_peak: Tensor

    @property
    def precision(self) -> Tensor:
        """(..., d, d), the inverse of the scale."""
        return self.form[..., 1:, 1:]

    @property
    def theta(self) -> Tensor:
        """(..., (d+1)(d+2)/2), log N(x) = <phi(x), theta>."""
        half = -0.5 * self.distance
        return torch.cat([half[..., :1] + self.log_peak.unsqueeze(-1), half[..., 1:]], -1)


def natural_parameters(mean: Tensor, scale: Tensor) -> Natural:
    """Natural parameters of N(mean (..., d), scale (..., d, d)).

    With scale = L L' and W = L^-1 [-mean, I], the distance is |W h(x)|^2.

    >>> standard = natural_parameters(torch.zeros(1), torch.eye(1))
    >>> round(float(standard.theta @ lift(torch.tensor([[2.0]]))), 4)  # log N(2; 0, 1)
    -2.9189
    """
    dim = mean.shape[-1]
    factor = torch.linalg.cholesky_ex(scale)[0]
    eye = torch.eye(dim, dtype=mean.dtype, device=mean.device).expand_as(scale)
    root = torch.linalg.solve_triangular(factor, torch.cat([-mean.unsqueeze(-1), eye], -1), upper=False)
    form = root.mT @ root
    log_peak = -0.5 * dim * math.log(2 * math.pi) - factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return Natural(form, coefficients(form), log_peak)

"""The full quadratic lift: phi(x) = [1, x, vec(xx')].

The paper lifts a token to [x, |x|^2] so that a softmax head becomes an isotropic Gaussian kernel.
Lifted fully, a Gaussian of any covariance is one inner product, and attention values are moments:

    log N(x; mu, S) = <phi(x), theta>,   theta = [c, P mu, -1/2 vec P],   P = S^-1
    sum_j r_j phi(x_j) = [count, sum of points, sum of second moments]

`vec` keeps the upper triangle and scales off-diagonal entries by sqrt(2), so that inner products of
vectors are inner products of matrices.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Natural", "lift", "natural_parameters", "unvec", "vec"]


@cache
def _upper(dim: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rows, columns and scale of the upper triangle, and the index that undoes `vec`."""
    rows, columns = torch.triu_indices(dim, dim)
    scale = torch.full((len(rows),), math.sqrt(2.0), dtype=torch.float64)
    scale[rows == columns] = 1.0
    index = torch.zeros(dim, dim, dtype=torch.long)
    index[rows, columns] = index[columns, rows] = torch.arange(len(rows))
    return rows, columns, scale, index


def lift(points: Tensor) -> Tensor:
    """phi(x) = [1, x, vec(xx')] of points (..., d): (..., 1 + d + d(d+1)/2).

    >>> lift(torch.tensor([[2.0, 3.0]])).round(decimals=2).tolist()
    [[1.0, 2.0, 3.0, 4.0, 8.489999771118164, 9.0]]
    """
    rows, columns, scale, _ = _upper(points.shape[-1])
    products = points[..., rows] * points[..., columns] * scale.to(points)
    return torch.cat([torch.ones_like(points[..., :1]), points, products], -1)


def vec(matrix: Tensor) -> Tensor:
    """Symmetric matrices (..., d, d) as vectors (..., d(d+1)/2) with the same inner product."""
    rows, columns, scale, _ = _upper(matrix.shape[-1])
    return matrix[..., rows, columns] * scale.to(matrix)


def unvec(vector: Tensor, dim: int) -> Tensor:
    """The inverse of `vec`."""
    _, _, scale, index = _upper(dim)
    return (vector / scale.to(vector))[..., index]


class Natural(NamedTuple):
    """Natural parameters of Gaussians N(mean, scale).

    Attributes
    ----------
    theta : (..., 1 + d + d(d+1)/2), log N(x) = <phi(x), theta>
    precision : (..., d, d)
    precision_mean : (..., d), precision times mean
    log_peak : (...), log density at the mean
    """

    theta: Tensor
    precision: Tensor
    precision_mean: Tensor
    log_peak: Tensor


def natural_parameters(mean: Tensor, scale: Tensor) -> Natural:
    """Natural parameters of N(mean (..., d), scale (..., d, d))."""
    dim = mean.shape[-1]
    factor = torch.linalg.cholesky_ex(scale)[0]
    precision = torch.cholesky_inverse(factor)
    precision_mean = (precision @ mean.unsqueeze(-1)).squeeze(-1)
    log_peak = -factor.diagonal(dim1=-2, dim2=-1).log().sum(-1) - 0.5 * dim * math.log(2 * math.pi)
    constant = log_peak - 0.5 * (mean * precision_mean).sum(-1)
    theta = torch.cat([constant.unsqueeze(-1), precision_mean, -0.5 * vec(precision)], -1)
    return Natural(theta, precision, precision_mean, log_peak)

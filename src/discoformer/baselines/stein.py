"""Kernel score estimators: Stein's identity solved in a space of kernel functions.

For a kernel K and the density f, integration by parts gives E_f K(y, x) s(x) = -E_f div_x K(y, x).  With
both means taken over the sample this is a linear equation L s = -zeta for the score,

    L s = sum_j w_j K(., x_j) s(x_j),        zeta = sum_j w_j div_x K(., x_j),

so ill-posed that it must be regularized.  The three estimators differ in how (Zhou, Shi and Zhu 2020):

``SteinGradient``   (L + lambda)^-1, ridge: at the sample -(K + eta I)^-1 <grad, K> (Li and Turner 2018)
``SpectralStein``   the largest eigenvalues of L only (SSGE; Shi, Sun and Zhu 2018)
``NuMethod``        a fixed number of accelerated gradient steps (the nu-method)

The first two use a Gaussian kernel for every component of the score; the third a curl-free kernel, whose
functions are gradients.  Columns are standardized, then the bandwidth is the median distance of pairs.
The default strengths did best among powers of ten (eta) and 0.95, 0.99, 0.999 (share) on the mixtures of
`evaluation.known_truth.gmm_datasets` with n = 256 and 1024 rows in d = 1, 2 and 10 columns; the nu-method
does best there with 10 to 30 steps.
All know only the score and hold n x n matrices: they are for samples of a few thousand rows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from discoformer.baselines.bandwidths import effective_size, scaled_frame
from discoformer.core.checks import DataError
from discoformer.core.composed import push
from discoformer.core.fields import Field, Method
from discoformer.core.frames import Standardize

__all__ = ["CurlFreeIMQ", "Gaussian", "Kernel", "KernelScore", "NuMethod", "SpectralStein", "SteinGradient"]

_MAX_ROWS = 20_000
_MEDIAN_ROWS = 2048
_PAIRS = 2**22  # query-context pairs at a time


class Kernel(Protocol):
    """A matrix kernel of unit bandwidth with K(x, x) = I, as the two sums that the estimators need."""

    def apply(self, queries: Tensor, points: Tensor, values: Tensor) -> Tensor:
        """sum_j K(y, x_j) v_j, (..., m, d), for values (..., n, d)."""
        ...

    def divergence(self, queries: Tensor, points: Tensor, weights: Tensor) -> Tensor:
        """zeta(y) = sum_j w_j div_x K(y, x_j), (..., m, d), for weights (..., n)."""
        ...


class Gaussian:
    """K(y, x) = exp(-|y - x|^2 / 2) I."""

    def matrix(self, queries: Tensor, points: Tensor) -> Tensor:
        """exp(-|y - x|^2 / 2), (..., m, n)."""
        return (-0.5 * _squares(queries, points)).exp()

    def apply(self, queries: Tensor, points: Tensor, values: Tensor) -> Tensor:
        return self.matrix(queries, points) @ values

    def divergence(self, queries: Tensor, points: Tensor, weights: Tensor) -> Tensor:
        return _weighted_differences(self.matrix(queries, points) * weights.unsqueeze(-2), queries, points)


class CurlFreeIMQ:
    """K(y, x) = -grad grad' k(y - x) with the inverse multiquadric k(u) = (1 + |u|^2)^(-1/2)."""

    def apply(self, queries: Tensor, points: Tensor, values: Tensor) -> Tensor:
        base = 1 + _squares(queries, points)
        inner = queries @ values.mT - (points * values).sum(-1).unsqueeze(-2)  # (y - x_j).v_j
        along = _weighted_differences(3 * base**-2.5 * inner, queries, points)
        return base**-1.5 @ values - along

    def divergence(self, queries: Tensor, points: Tensor, weights: Tensor) -> Tensor:
        squares = _squares(queries, points)
        base = 1 + squares
        factor = 3 * (queries.shape[-1] + 2) * base**-2.5 - 15 * squares * base**-3.5
        return _weighted_differences(factor * weights.unsqueeze(-2), queries, points)


@dataclass(frozen=True, repr=False)
class KernelScore(Field):
    """The score -a zeta(y) + sum_j K(y, x_j) c_j, in coordinates where the kernel has unit bandwidth.

    Attributes
    ----------
    kernel : Kernel
    points, weights : (..., n, d) and (..., n), the sample in the frame
    scale : (...), a
    coefficients : (..., n, d), c
    """

    kernel: Kernel
    points: Tensor
    weights: Tensor
    scale: Tensor
    coefficients: Tensor

    @property
    def dim(self) -> int:
        return self.points.shape[-1]

    def _score(self, queries: Tensor) -> Tensor:
        rows = max(1, _PAIRS // self.points.shape[-2])
        return torch.cat([self._block(block) for block in queries.split(rows, -2)], -2)

    def _block(self, queries: Tensor) -> Tensor:
        smooth = self.kernel.apply(queries, self.points, self.coefficients)
        zeta = self.kernel.divergence(queries, self.points, self.weights)
        return smooth - self.scale[..., None, None] * zeta


class _KernelMethod(Method):
    """Standardize, find the bandwidth, solve."""

    kernel: Kernel

    @abstractmethod
    def _solve(self, points: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Scale (...) and coefficients (..., n, d) of the score of points in the frame."""

    def _fit(self, context: Tensor, weights: Tensor | None) -> Field:
        rows = context.shape[-2]
        if rows > _MAX_ROWS:
            raise DataError(
                f"{rows} rows need a matrix of {rows} x {rows}: give a random part of at most {_MAX_ROWS}"
            )
        context = context.double()  # the equation is close to singular
        mass = context.new_full(context.shape[:-1], 1 / rows) if weights is None else weights.double()
        frame = Standardize().fit(context, weights if weights is None else mass)
        frame = scaled_frame(frame, _median_distance(frame.normalize(context)))
        points = frame.normalize(context)
        return push(KernelScore(self.kernel, points, mass, *self._solve(points, mass)), [frame])


class SteinGradient(_KernelMethod):
    """Stein gradient estimator: ridge regression with a Gaussian kernel.

    At the sample points x_i the answer solves (K + eta I) s = -sum_j grad_{x_j} k(x_j, x_i); elsewhere it is
    the corresponding function in the kernel's space.

    Parameters
    ----------
    eta : float
        Ridge added to the kernel matrix, whose diagonal is one.

    >>> x = torch.randn(400, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> error = SteinGradient().fit(x).score(x) + x
    >>> bool(error.square().mean() < 0.1)
    True
    """

    def __init__(self, eta: float = 0.1) -> None:
        if not eta > 0:
            raise DataError("eta must be positive")
        self.eta = eta
        self.kernel = Gaussian()

    def _solve(self, points: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        ridge = self.eta / effective_size(points, weights)  # lambda
        root = weights.sqrt().unsqueeze(-1)
        matrix = root * Gaussian().matrix(points, points) * root.mT
        matrix = matrix + torch.diag_embed(ridge.unsqueeze(-1).expand(weights.shape))
        zeta = self.kernel.divergence(points, points, weights)
        solution = torch.cholesky_solve(root * zeta, torch.linalg.cholesky(matrix))
        return 1 / ridge, root * solution / ridge[..., None, None]


class SpectralStein(_KernelMethod):
    """Spectral Stein gradient estimator (SSGE): the leading eigenfunctions of a Gaussian kernel.

    Parameters
    ----------
    share : float
        As many eigenvalues are kept as make up this share of their sum.

    >>> x = torch.randn(400, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> error = SpectralStein().fit(x).score(x) + x
    >>> bool(error.square().mean() < 0.1)
    True
    """

    def __init__(self, share: float = 0.999) -> None:
        if not 0 < share < 1:
            raise DataError("share must be between 0 and 1")
        self.share = share
        self.kernel = Gaussian()

    def _solve(self, points: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        root = weights.sqrt().unsqueeze(-1)
        values, vectors = torch.linalg.eigh(root * Gaussian().matrix(points, points) * root.mT)
        below = values.flip(-1).cumsum(-1).flip(-1) - values  # sum of the larger ones
        kept = below < self.share * values.sum(-1, keepdim=True)
        inverse = torch.where(kept, values.square().reciprocal(), 0.0).unsqueeze(-1)
        zeta = self.kernel.divergence(points, points, weights)
        coefficients = -root * (vectors @ (inverse * (vectors.mT @ (root * zeta))))
        return torch.zeros_like(weights[..., 0]), coefficients


class NuMethod(_KernelMethod):
    """The nu-method (nu = 1) with a curl-free inverse multiquadric kernel: early stopping regularizes.

    Parameters
    ----------
    iterations : int, optional
        Number of steps t, equivalent to a ridge of about 1 / t^2.  By default sqrt(n) / 2, so that this
        ridge shrinks like 1 / n, like that of `SteinGradient`.

    >>> x = torch.randn(400, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> error = NuMethod().fit(x).score(x) + x
    >>> bool(error.square().mean() < 0.2)
    True
    """

    def __init__(self, iterations: int | None = None) -> None:
        if iterations is not None and iterations < 1:
            raise DataError("the nu-method needs at least one iteration")
        self.iterations = iterations
        self.kernel = CurlFreeIMQ()

    def _solve(self, points: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        zeta = self.kernel.divergence(points, points, weights)
        before, now = (0.0, torch.zeros_like(points)), (0.0, torch.zeros_like(points))
        iterations = self.iterations or math.ceil(math.sqrt(points.shape[-2]) / 2)
        for momentum, rate in _nu_steps(iterations):
            score = self.kernel.apply(points, points, now[1]) - now[0] * zeta
            scale = now[0] + momentum * (now[0] - before[0]) + rate
            step = momentum * (now[1] - before[1]) - rate * weights.unsqueeze(-1) * score
            before, now = now, (scale, now[1] + step)
        return torch.full_like(weights[..., 0], now[0]), now[1]


def _nu_steps(count: int) -> Iterator[tuple[float, float]]:
    """Momentum and rate of the steps t = 1..count, for nu = 1."""
    for t in range(1, count + 1):
        below = (t + 1) * (2 * t + 3)
        yield (t - 1) * (2 * t - 3) * (2 * t + 1) / (below * (2 * t - 1)), 4 * (2 * t + 1) * t / below


def _squares(queries: Tensor, points: Tensor) -> Tensor:
    """|y - x|^2, (..., m, n)."""
    products = queries @ points.mT
    norms = queries.square().sum(-1).unsqueeze(-1) + points.square().sum(-1).unsqueeze(-2)
    return (norms - 2 * products).clamp(min=0)


def _weighted_differences(weights: Tensor, queries: Tensor, points: Tensor) -> Tensor:
    """sum_j a_ij (y_i - x_j), (..., m, d), for weights a (..., m, n)."""
    return weights.sum(-1, keepdim=True) * queries - weights @ points


def _median_distance(points: Tensor) -> Tensor:
    """Median distance (...) of pairs, of at most `_MEDIAN_ROWS` rows spread evenly over the sample."""
    count = points.shape[-2]
    rows = min(count, _MEDIAN_ROWS)
    some = points.detach()[..., torch.arange(rows, device=points.device) * count // rows, :]
    i, j = torch.triu_indices(rows, rows, 1, device=points.device)
    distances = torch.cdist(some, some)[..., i, j]
    median = distances.median(-1).values
    # With many copies of a row the median may be zero; the mean of standardized rows is not.
    return torch.where(median > 0, median, distances.mean(-1))

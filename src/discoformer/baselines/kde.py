"""Kernel density estimation with a Gaussian kernel: exact, chunked, with its score.

    f(y) = sum_j w_j N(y; x_j, H)
    grad log f(y) = H^-1 (sum_j p_j(y) x_j - y),   p(y) = softmax_j(log w_j + log N(y; x_j, H))

The bandwidth H comes from a rule of `discoformer.baselines.bandwidths`.  Sample points count
themselves (the self term is included), as in the paper; `KDEField.loo_log_density` leaves it out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from discoformer.baselines.bandwidths import bandwidth_frame
from discoformer.core.checks import DataError, check_points
from discoformer.core.fields import Density, Estimate, Method
from discoformer.core.kernel_sums import MEMORY, kernel_sums, log_weights
from discoformer.core.quantiles import find_quantile
from discoformer.core.transforms import Frame

__all__ = ["KDE", "KDEField"]


class KDE(Method):
    """Gaussian kernel density estimate.

    Parameters
    ----------
    bandwidth : str, number, (d,) or (..., d, d)
        A rule (``scott``, ``scott-full``, ``silverman``, ``loo``, ``loo-full``), one standard
        deviation for all columns, one per column, or the kernel's covariance matrix.
    memory : int
        Bytes that blocks of query-context pairs may take; the answer does not depend on it.

    >>> import numpy as np
    >>> field = KDE(bandwidth=1.0).fit(np.array([[-1.0], [1.0]]))
    >>> log_density, score = field.estimate(np.array([[0.0]]))
    >>> round(float(log_density[0]), 6), float(score[0, 0])
    (-1.418939, 0.0)
    """

    def __init__(self, bandwidth: Any = "scott", *, memory: int = MEMORY) -> None:
        self.bandwidth = bandwidth
        self.memory = memory

    def _fit(self, context: Tensor, weights: Tensor | None) -> KDEField:
        frame = bandwidth_frame(self.bandwidth, context, weights)
        return KDEField(context, weights, frame, memory=self.memory)


class KDEField(Density):
    """The estimate of one sample, or of a batch of samples, at any points.

    Parameters
    ----------
    context : (..., n, d)
    weights : (..., n) with sum one, or None
    frame : Frame
        Coordinates in which the kernel is standard.
    memory : int
    """

    def __init__(
        self, context: Tensor, weights: Tensor | None, frame: Frame, *, memory: int = MEMORY
    ) -> None:
        self.frame = frame
        self.memory = memory
        self._points = frame.normalize(context)
        self._log_weights = log_weights(context, weights)

    @property
    def dim(self) -> int:
        return self._points.shape[-1]

    @property
    def bandwidth(self) -> Tensor:
        """Covariance H of the kernel, (..., d, d)."""
        return self.frame.inverse.mT @ self.frame.inverse

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        points = self.frame.normalize(queries.to(self._points))
        log_sum, mean = kernel_sums(points, self._points, self._log_weights, memory=self.memory)
        standard = Estimate(log_sum - 0.5 * self.dim * math.log(2 * math.pi), mean - points)
        return self.frame.denormalize_estimate(standard)

    def score_divergence(self, queries: Tensor) -> Tensor:
        """Divergence of the score (..., m) at queries (..., m, d), in closed form.

        With p the kernel's weights at a query, the score has the derivative A (Cov_p(x) - I) A' in the frame
        A of the bandwidth, so that its divergence is the trace E_p |x A'|^2 - |E_p x A'|^2 - |A|^2.

        >>> field = KDE(bandwidth=0.5).fit([[0.0], [0.0]])
        >>> field.score_divergence(torch.ones(1, 1, dtype=torch.float64)).item()
        -4.0
        """
        back = self.frame.matrix.mT
        points = self.frame.normalize(queries.to(self._points))
        log_sum, mean = kernel_sums(points, self._points, self._log_weights, memory=self.memory)
        # the mean of a positive number is a ratio of kernel sums; the numerator has it in the weights
        square = (self._points @ back).square().sum(-1).clamp_min(torch.finfo(back.dtype).tiny)
        tilted, _ = kernel_sums(points, self._points, self._log_weights + square.log(), memory=self.memory)
        spread = (tilted - log_sum).exp() - (mean @ back).square().sum(-1)
        return spread - back.square().sum((-2, -1)).unsqueeze(-1)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n points (..., n, d): a sample point by its weight, and the kernel's noise around it.

        >>> field = KDE(bandwidth=1e-3).fit([[-1.0], [1.0]])
        >>> field.sample(5, torch.Generator().manual_seed(0)).abs().round(decimals=1).flatten().tolist()
        [1.0, 1.0, 1.0, 1.0, 1.0]
        """
        centers = self._points.reshape(-1, *self._points.shape[-2:])
        below = self._log_weights.expand(self._points.shape[:-1]).reshape(centers.shape[:-1]).exp().cumsum(-1)
        level = below[:, -1:] * below.new_empty(len(centers), n).uniform_(generator=generator)
        # Not `torch.multinomial`: it refuses more than 2^24 rows.
        index = torch.searchsorted(below, level, right=True).clamp_max(below.shape[-1] - 1)
        noise = centers.new_empty(*index.shape, self.dim).normal_(generator=generator)
        drawn = centers.gather(-2, index.unsqueeze(-1).expand(noise.shape)) + noise
        return self.frame.denormalize(drawn.reshape(*self._points.shape[:-2], n, self.dim))

    def marginal(self, columns: Sequence[int]) -> KDEField:
        """The estimate of some of the columns: their kernel has the same covariance."""
        self._check_columns(columns)
        eye = torch.eye(self.dim, dtype=self._points.dtype, device=self._points.device)
        return self.transform(eye[:, list(columns)], torch.zeros_like(eye[:1, : len(columns)]))

    def conditional(self, columns: Sequence[int], values: Any) -> KDEField:
        """The law of the other columns given ``values`` (..., k): points count by how well they explain them.

        >>> field = KDE(bandwidth=0.1).fit([[0.0, 5.0], [1.0, 7.0]])
        >>> round(float(field.conditional([0], [1.0]).sample(1)))
        7
        """
        self._check_columns(columns)
        if len(columns) == self.dim:
            raise DataError("every column is given, none is left: leave at least one out")
        given, rest = list(columns), [c for c in range(self.dim) if c not in set(columns)]
        row = torch.as_tensor(values, dtype=self._points.dtype, device=self._points.device)
        row = row.unsqueeze(-2)  # (..., 1, k)
        context, cross = self.frame.denormalize(self._points), self.bandwidth[..., given, :][..., rest]
        factor = torch.linalg.cholesky(self.bandwidth[..., given, :][..., given])
        offset = torch.linalg.solve_triangular(factor, (row - context[..., given]).mT, upper=False)
        slopes = torch.cholesky_solve(cross, factor)  # (..., k, e)
        mean = context[..., rest] + (row - context[..., given]) @ slopes
        kernel = self.bandwidth[..., rest, :][..., rest] - cross.mT @ slopes
        weights = torch.softmax(self._log_weights - 0.5 * offset.square().sum(-2), -1)
        return KDEField(mean, weights, _kernel_frame(kernel), memory=self.memory)

    def transform(self, matrix: Tensor, shift: Tensor) -> KDEField:
        """The law of x matrix + shift."""
        context = self.frame.denormalize(self._points) @ matrix + shift
        weights = self._log_weights.exp().expand(context.shape[:-1])
        frame = _kernel_frame(matrix.mT @ self.bandwidth @ matrix)
        return KDEField(context, weights, frame, memory=self.memory)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean (..., d) and covariance (..., d, d): those of the points, and the kernel."""
        context = self.frame.denormalize(self._points)
        weights = self._log_weights.exp().expand(context.shape[:-1]).unsqueeze(-1)
        mean = (weights * context).sum(-2)
        off = context - mean.unsqueeze(-2)
        return mean, (weights * off).mT @ off + self.bandwidth

    def blurred(self, noise: Tensor) -> KDEField:
        """A wider kernel."""
        context = self.frame.denormalize(self._points)
        weights = self._log_weights.exp().expand(context.shape[:-1])
        return KDEField(context, weights, _kernel_frame(self.bandwidth + noise), memory=self.memory)

    def cdf(self, queries: Any) -> Tensor:
        """Distribution function (..., m) at queries (..., m, 1), for one column."""
        self._check_one_column("the distribution function")
        points = self.frame.normalize(check_points(queries, "queries", dim=1).to(self._points))
        rows = max(1, self.memory // (8 * self._points.shape[-2]))
        weights = self._log_weights.exp().unsqueeze(-1)
        parts = [torch.special.ndtr(part - self._points.mT) @ weights for part in points.split(rows, -2)]
        return torch.cat(parts, -2).squeeze(-1)

    def quantile(self, shares: Any) -> Tensor:
        """Where `cdf` is ``shares`` (..., m), strictly between 0 and 1: (..., m, 1)."""
        self._check_one_column("a quantile")
        ends = torch.cat([self._points.amin(-2, keepdim=True), self._points.amax(-2, keepdim=True)], -1)

        def bracket(share: Tensor) -> Tensor:
            noise: Tensor = torch.special.ndtri(share).unsqueeze(-1)
            return (ends + noise) * self.frame.inverse + self.frame.center

        return find_quantile(self.cdf, bracket, shares, self._points)

    def __repr__(self) -> str:
        return f"kernel density of {self._points.shape[-2]} points in {self.dim} column(s)"

    def left_out(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """`loo_log_density`, whatever the arguments: the field holds the sample and its weights."""
        return self.loo_log_density()

    def loo_log_density(self) -> Tensor:
        """Log density (..., n) at every sample point of the estimate without that point.

        Its mean is the leave-one-out log-likelihood; minus its mean is an estimate of the entropy.

        >>> field = KDE(bandwidth=1.0).fit([[0.0], [0.0]])
        >>> [round(v, 6) for v in field.loo_log_density().tolist()]
        [-0.918939, -0.918939]
        """
        rows = torch.arange(self._points.shape[-2], device=self._points.device)
        log_sum, _ = kernel_sums(
            self._points, self._points, self._log_weights, exclude=rows, memory=self.memory
        )
        rest = torch.log1p(-self._log_weights.exp())
        if not bool(torch.isfinite(rest).all()):
            raise DataError("all sample weight is on one row: nothing is left when it is left out")
        constant = self.frame.log_det - 0.5 * self.dim * math.log(2 * math.pi)
        return log_sum - rest + constant.unsqueeze(-1)


def _kernel_frame(covariance: Tensor) -> Frame:
    """The frame in which a kernel of this covariance (..., d, d) is standard, centered at the origin."""
    factor = torch.linalg.cholesky(covariance)
    eye = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    matrix = torch.linalg.solve_triangular(factor, eye.expand_as(factor), upper=False).mT
    log_det = -factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return Frame(torch.zeros_like(factor[..., :1, :]), matrix, factor.mT.contiguous(), log_det)

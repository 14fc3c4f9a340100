"""Score-debiased kernel density estimation (SD-KDE): sharpen the sample along the score, then smooth.

A Gaussian kernel of covariance H smears the density out, to first order by diffusion for a unit of time
with diffusivity H/2.  Moving the points against that flow first,

    x -> x + (H/2) grad log f(x),

takes the bias of the kernel density estimate from second to fourth order in the bandwidth, so wider
kernels pay: the best bandwidth shrinks like n^(-1/(d+8)) instead of n^(-1/(d+4)).  The score may come
from anything: a method, an exact field, or the kernel density estimate itself (Emp-SD-KDE).

After Epstein, Dharmakeerthi, Rajan et al., *SD-KDE: Score-Debiased Kernel Density Estimation* (2025).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from discoformer.baselines.bandwidths import RULES, bandwidth_frame, effective_size
from discoformer.baselines.kde import KDEField
from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate, Field, Method, PointDensity, as_point_density
from discoformer.core.frames import Standardize
from discoformer.core.kernel_sums import MEMORY
from discoformer.core.transforms import Frame, scaling_frame

__all__ = ["SDKDE", "AutogradScore", "sdkde_frame"]

RULE = "sd-kde"
EMPIRICAL = "empirical"


@dataclass(eq=False)
class SDKDE(Method):
    """Kernel density estimate of the sharpened sample.

    Parameters
    ----------
    score : "empirical", Method or Field
        Where the score at the sample points comes from: the kernel density estimate of the sample
        with the same bandwidth, a method fitted to the sample, or a field as it is.  Wrap a method
        in `AutogradScore` to use the gradient of its log density instead of its own score.
    bandwidth : str, number, (d,) or (..., d, d)
        ``sd-kde`` (the rule of `sdkde_frame`) or anything `KDE` takes; the paper uses ``scott``.
    memory : int
        Bytes that blocks of query-context pairs may take; the answer does not depend on it.

    >>> import numpy as np
    >>> sample = np.random.default_rng(0).normal(size=(500, 1))
    >>> peak = np.zeros((1, 1))
    >>> from discoformer.baselines import KDE
    >>> plain, sharp = KDE(0.5).fit(sample), SDKDE(bandwidth=0.5).fit(sample)
    >>> bool(plain.log_density(peak)[0] < sharp.log_density(peak)[0])
    True
    """

    score: str | Method | Field = EMPIRICAL
    bandwidth: Any = "scott"
    memory: int = field(default=MEMORY, kw_only=True)

    def _fit(self, context: Tensor, weights: Tensor | None) -> KDEField:
        frame = self._frame(context, weights)
        if isinstance(self.score, Field):
            source = self.score
        elif isinstance(self.score, Method):
            source = self.score.fit(context, weights)
        elif self.score == EMPIRICAL:
            source = KDEField(context, weights, frame, memory=self.memory)
        else:
            raise DataError(f"score={self.score!r} is unknown: use {EMPIRICAL!r}, a method or a field")
        kernel = frame.inverse.mT @ frame.inverse  # H
        sharpened = context + 0.5 * source.score(context) @ kernel
        return KDEField(sharpened, weights, frame, memory=self.memory)

    def _frame(self, context: Tensor, weights: Tensor | None) -> Frame:
        if not isinstance(self.bandwidth, str):
            return bandwidth_frame(self.bandwidth, context, weights)
        rules = {RULE: sdkde_frame, **RULES}
        if self.bandwidth not in rules:
            raise DataError(
                f"bandwidth rule {self.bandwidth!r} is unknown: use one of {', '.join(rules)}, or a number"
            )
        return rules[self.bandwidth](context, weights)


def sdkde_frame(context: Tensor, weights: Tensor | None = None) -> Frame:
    """Bandwidth rule of the SD-KDE authors, as the frame in which the kernel is standard.

    Per column, h = c sigma n^(-1/(d+8)) with sigma the smaller of the standard deviation and the
    interquartile range over 1.34, n the effective sample size, and c = 0.4 in one dimension, 0.65 in more.
    The authors give these constants for d = 1 and 2, with the power -1/9 in both.  The power here is that of
    the theory, and beyond d = 2 the constants are an extrapolation.

    Parameters
    ----------
    context : (..., n, d)
    weights : (..., n), optional
        Non-negative, with sum one.

    >>> x = torch.linspace(-1, 1, 512, dtype=torch.float64).unsqueeze(-1)
    >>> round(float(sdkde_frame(x).inverse / (0.4 * x.std() * 512 ** (-1 / 9))), 6)
    1.0
    """
    dim = context.shape[-1]
    size = effective_size(context, weights)
    standard = Standardize().fit(context, weights)
    std = standard.inverse.diagonal(dim1=-2, dim2=-1) * (1 - 1 / size).rsqrt().unsqueeze(-1)  # ddof = 1
    spread = _interquartile_range(context, weights) / 1.34
    # If half of the rows share one value the range may be zero; then the standard deviation serves.
    sigma = torch.where(spread > 0, torch.minimum(std, spread), std)
    factor = (0.4 if dim == 1 else 0.65) * size ** (-1 / (dim + 8))
    return scaling_frame(standard.center, sigma * factor.unsqueeze(-1))


@dataclass(eq=False)
class AutogradScore(Method):
    """A method whose score is the gradient of its own log density, by autograd.

    The two heads of the attention core need not agree; this trusts the density.

    >>> from discoformer.baselines import KDE
    >>> x = torch.randn(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> torch.allclose(AutogradScore(KDE()).fit(x).score(x), KDE().fit(x).score(x))
    True
    """

    method: Method

    def _fit(self, context: Tensor, weights: Tensor | None) -> PointDensity:
        return _AutogradDensity(as_point_density(self.method.fit(context, weights)))


@dataclass(eq=False, repr=False)
class _AutogradDensity(PointDensity):
    field: PointDensity

    @property
    def dim(self) -> int:
        return self.field.dim

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        tracked = torch.is_grad_enabled() and queries.requires_grad
        with torch.enable_grad():
            points = queries if tracked else queries.detach().requires_grad_()
            log_density = self.field.log_density(points)
            # Queries do not see one another: the gradient of the sum holds every query's own gradient.
            (score,) = torch.autograd.grad(log_density.sum(), points, create_graph=tracked)
        return Estimate(log_density if tracked else log_density.detach(), score)


def _interquartile_range(context: Tensor, weights: Tensor | None) -> Tensor:
    """Range between the quartiles (..., d), interpolated linearly as `numpy.quantile` does."""
    order = context.sort(-2)
    if weights is None:
        mass = torch.full_like(context, 1 / context.shape[-2])
    else:
        mass = weights.unsqueeze(-1).expand(context.shape).gather(-2, order.indices)
    ends = mass[..., :1, :] / 2, mass[..., -1:, :] / 2
    # Level of each point: from 0 at the lowest to 1 at the highest, half of a point's mass below it.
    level = (mass.cumsum(-2) - mass / 2 - ends[0]) / (1 - ends[0] - ends[1])  # (..., n, d)
    low, high = (_interpolate(order.values, level, q) for q in (0.25, 0.75))
    return high - low


def _interpolate(values: Tensor, level: Tensor, q: float) -> Tensor:
    above = (level < q).sum(-2, keepdim=True).clamp(1, values.shape[-2] - 1)
    v0, v1 = values.gather(-2, above - 1), values.gather(-2, above)
    l0, l1 = level.gather(-2, above - 1), level.gather(-2, above)
    share = torch.where(l1 > l0, (q - l0) / (l1 - l0), 1.0).clamp(0, 1)
    return (v0 + share * (v1 - v0)).squeeze(-2)

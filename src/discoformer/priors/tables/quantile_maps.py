"""Column maps by distribution functions, x = F^(-1)(Phi(z)): a standard normal column gets the margin F.

With f = F' and z = Phi^(-1)(F(x)), dz/dx = f(x) / phi(z), so the logarithm of the slope is
log f(x) + z^2 / 2 + log(2 pi) / 2, with derivative (log f)'(x) + z dz/dx.  F and 1 - F are handled as
logarithms: z is exact far out on either side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from discoformer.core.checks import DataError
from discoformer.priors.tables.column_maps import MonotoneMap, Pulled
from discoformer.priors.tables.shapes import harden, log_softplus

__all__ = ["HalfNormal", "SoftInterval", "Weibull", "log1mexp", "normal_quantile", "pull_margin"]

_SMALL = -30.0  # below this logarithm log(1 - e^(-e^t)) is t in double precision
_LEAST = -600.0  # of log p, for the quantile function that takes p itself
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def log1mexp(t: Tensor) -> Tensor:
    """log(1 - e^(-t)) for t > 0.

    >>> log1mexp(torch.tensor([1e-30, math.log(2)])).exp().tolist()
    [1.0000000031710769e-30, 0.5]
    """
    near = t < math.log(2)
    return torch.where(
        near,
        torch.log(-torch.expm1(-torch.where(near, t, 1.0))),
        torch.log1p(-torch.exp(-torch.where(near, 1.0, t))),
    )


def normal_quantile(log_p: Tensor) -> Tensor:
    """The z with log Phi(z) = log p, for p up to about one half, however small.

    >>> normal_quantile(torch.tensor([-1e6, math.log(0.5)], dtype=torch.float64)).abs().round().tolist()
    [1414.0, 0.0]
    """
    with torch.no_grad():
        z = torch.special.ndtri(log_p.clamp_min(_LEAST).exp())
        far = log_p < _LEAST
        if bool(far.any()):
            tail = -2 * log_p.clamp_max(_LEAST)
            tail = tail - (2 * math.pi * tail).log()
            z = torch.where(far, -tail.sqrt(), z)
            for _ in range(2):
                z = torch.where(far, _newton(z, log_p), z)
    # This step is for the gradient: z itself is as good as it gets.
    return _newton(z, log_p) if log_p.requires_grad else z


def _newton(z: Tensor, log_p: Tensor) -> Tensor:
    log_cdf = torch.special.log_ndtr(z)
    step: Tensor = (log_cdf - log_p) * torch.exp(log_cdf + 0.5 * z.square() + _HALF_LOG_2PI)
    return z - step


def pull_margin(log_cdf: Tensor, log_survival: Tensor, log_density: Tensor, score: Tensor) -> Pulled:
    """The map to the normal at points where log F, log(1 - F), log f and its derivative are these."""
    low = log_cdf < log_survival
    quantile = normal_quantile(torch.where(low, log_cdf, log_survival))
    z = torch.where(low, quantile, -quantile)
    log_slope = log_density + 0.5 * z.square() + _HALF_LOG_2PI
    return Pulled(z, log_slope, score + z * log_slope.exp())


@dataclass(frozen=True, eq=False)
class Weibull(MonotoneMap):
    """Positive columns with survival function exp(-y^c) and a soft bound at zero, y = e log(1 + exp(x / e)).

    Exponential for c = 1, near half-normal and gamma shapes around it.  On the wrong side of the bound the
    density falls like exp(c x / e): the score is at most about c / e.

    Parameters
    ----------
    shape : c, (..., d), positive
    softness : e, (..., d), positive
    """

    shape: Tensor
    softness: Tensor

    def __post_init__(self) -> None:
        if not bool((self.shape > 0).all() and (self.softness > 0).all()):
            raise DataError("shape and softness of a Weibull must be positive")

    def forward(self, z: Tensor) -> Tensor:
        # y^c = -log(1 - Phi(z)), which is Phi(z) where that is small.
        log_cdf, log_survival = torch.special.log_ndtr(z), torch.special.log_ndtr(-z)
        log_hazard = torch.where(log_cdf < _SMALL, log_cdf, torch.log(-log_survival))
        return harden(log_hazard / self.shape.unsqueeze(-2), self.softness.unsqueeze(-2))

    def pull(self, x: Tensor) -> Pulled:
        c, e = self.shape.unsqueeze(-2), self.softness.unsqueeze(-2)
        t = x / e
        log_sigmoid, soft = logsigmoid(t), log_softplus(t)
        log_y = e.log() + soft
        log_hazard = c * log_y
        hazard = log_hazard.exp()
        log_cdf = torch.where(log_hazard < _SMALL, log_hazard, log1mexp(log_hazard.clamp_min(_SMALL).exp()))
        log_density = c.log() + (c - 1) * log_y - hazard + log_sigmoid
        share = torch.exp(log_sigmoid - soft)  # e d log y / dx
        score = (share * (c - 1 - c * hazard) + torch.sigmoid(-t)) / e
        return pull_margin(log_cdf, -hazard, log_density, score)


@dataclass(frozen=True, eq=False)
class HalfNormal(MonotoneMap):
    """Half-normal columns with a soft bound: a normal of scale one right of zero, of scale e left of it.

    The density is 2 / (1 + e) phi(x) on the right and 2 / (1 + e) phi(x / e) on the left, which holds the
    share e / (1 + e) of the mass.

    Parameters
    ----------
    softness : e, (..., d), positive
    """

    softness: Tensor

    def __post_init__(self) -> None:
        if not bool((self.softness > 0).all()):
            raise DataError("softness of a HalfNormal must be positive")

    def forward(self, z: Tensor) -> Tensor:
        e = self.softness.unsqueeze(-2)
        left, right = (2 * e / (1 + e)).log(), (2 / (1 + e)).log()
        log_cdf, log_survival = torch.special.log_ndtr(z) - left, torch.special.log_ndtr(-z) - right
        low = log_cdf < math.log(0.5)
        quantile = normal_quantile(torch.where(low, log_cdf, log_survival.clamp_max(math.log(0.5))))
        return torch.where(low, e * quantile, -quantile)

    def pull(self, x: Tensor) -> Pulled:
        e = self.softness.unsqueeze(-2)
        low = x < 0
        t = torch.where(low, x / e, -x)
        half = torch.special.log_ndtr(t) + torch.where(low, 2 * e / (1 + e), 2 / (1 + e)).log()
        # The smaller share follows from its own side, the other one from that.
        other = torch.log1p(-half.clamp_max(-1e-300).exp())
        log_density = (2 / (1 + e)).log() - 0.5 * t.square() - _HALF_LOG_2PI
        score = torch.where(low, -x / e.square(), -x)
        return pull_margin(torch.where(low, half, other), torch.where(low, other, half), log_density, score)


@dataclass(frozen=True, eq=False)
class SoftInterval(MonotoneMap):
    """Columns on the interval (-1, 1) with soft edges: uniform, or humped, leaning and U-shaped like a beta.

    A uniform number on (-1, 1) plus logistic noise of scale e has the distribution function
    v = e/2 (log(1 + exp((x + 1) / e)) - log(1 + exp((x - 1) / e))), which can be solved for x.  Kumaraswamy's
    F = 1 - (1 - v^a)^b gives it the shapes of the beta distributions; a = b = 1 is the uniform.  Beyond the
    edges the score is at most about a / e on the left and b / e on the right.

    Parameters
    ----------
    left, right : a and b, (..., d), positive
    softness : e, (..., d), positive
    """

    left: Tensor
    right: Tensor
    softness: Tensor

    def __post_init__(self) -> None:
        if not bool((self.left > 0).all() and (self.right > 0).all() and (self.softness > 0).all()):
            raise DataError("left, right and softness of a SoftInterval must be positive")

    def forward(self, z: Tensor) -> Tensor:
        a, b, e = (p.unsqueeze(-2) for p in (self.left, self.right, self.softness))
        log_power = log1mexp(-torch.special.log_ndtr(-z) / b)  # log v^a
        v = torch.exp(log_power / a)
        other = torch.where(v < 0.5, 1 - v, -torch.expm1(log_power / a))
        # Both are positive but for rounding, beyond 37 standard deviations.
        v, other = (part.clamp_min(torch.finfo(z.dtype).tiny) for part in (v, other))
        return 2 * v - 1 + e * (log1mexp(2 * v / e) - log1mexp(2 * other / e))

    def pull(self, x: Tensor) -> Pulled:
        a, b, e = (p.unsqueeze(-2) for p in (self.left, self.right, self.softness))
        left, right = (x + 1) / e, (x - 1) / e
        log_v, log_other = _box(left, right, e), _box(-right, -left, e)
        low = log_v < log_other  # the larger one follows from the smaller, whose digits are all there
        log_v, log_other = (
            torch.where(low, log_v, torch.log1p(-torch.where(low, 0.0, log_other.exp()))),
            torch.where(low, torch.log1p(-torch.where(low, log_v.exp(), 0.0)), log_other),
        )
        # 1 - v^a, which is a (1 - v) where v is all but one.
        near = log_other < _SMALL
        log_rest = torch.where(near, a.log() + log_other, log1mexp(-a * torch.where(near, -1.0, log_v)))
        log_survival = b * log_rest
        near = log_v * a < _SMALL
        log_cdf = torch.where(near, b.log() + a * log_v, log1mexp(-torch.where(near, -1.0, log_survival)))
        log_box = logsigmoid(left) + logsigmoid(-right) + log1mexp(2 / e) - math.log(2)
        log_density = (a * b).log() + (a - 1) * log_v + (b - 1) * log_rest + log_box
        score = (1 - torch.sigmoid(left) - torch.sigmoid(right)) / e
        score = score + (a - 1) * torch.exp(log_box - log_v)
        score = score - (b - 1) * a * torch.exp(log_box + (a - 1) * log_v - log_rest)
        return pull_margin(log_cdf, log_survival, log_density, score)


def _box(left: Tensor, right: Tensor, softness: Tensor) -> Tensor:
    """log v for left = (x + 1) / e and right = (x - 1) / e; that of 1 - v with -right and -left."""
    difference = logsigmoid(-right) - logsigmoid(-left)
    far = left < _SMALL
    log_difference = torch.where(far, left + log1mexp(2 / softness), torch.where(far, 1.0, difference).log())
    return log_difference + (softness / 2).log()

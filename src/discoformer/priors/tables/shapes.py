"""Column maps in closed form both ways: skewed, positive, censored and heaped columns.

All of them map R onto R, so that densities are positive everywhere: a bound is soft, a column of counts
is narrow heaps with something between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from discoformer.core.checks import DataError
from discoformer.priors.tables.column_maps import MonotoneMap, Pulled

__all__ = ["Hinge", "Johnson", "LogNormal", "SinhArcsinh", "Staircase", "log_softplus"]

_SMALL = -30.0  # below this logarithm, log(1 + e^t) is e^t and 1 - e^(-e^t) is e^t in double precision


@dataclass(frozen=True, eq=False)
class Johnson(MonotoneMap):
    """x = (sinh(a z + b) - sinh b) / (a cosh b), Johnson's unbounded system.

    Normal for small a; with b large it is close to the log-normal, with a soft end instead of a bound.

    Parameters
    ----------
    strength : a, (..., d), positive
    offset : b, (..., d); its sign is that of the skewness.
    """

    strength: Tensor
    offset: Tensor

    def __post_init__(self) -> None:
        _positive("strength", self.strength)

    def forward(self, z: Tensor) -> Tensor:
        a, b = self.strength.unsqueeze(-2), self.offset.unsqueeze(-2)
        return (torch.sinh(a * z + b) - b.sinh()) / (a * b.cosh())

    def pull(self, x: Tensor) -> Pulled:
        a, b = self.strength.unsqueeze(-2), self.offset.unsqueeze(-2)
        rate = a * b.cosh()
        inner = rate * x + b.sinh()
        square = inner.square()
        return Pulled(
            (torch.asinh(inner) - b) / a,
            b.cosh().log() - 0.5 * torch.log1p(square),
            -rate * inner / (1 + square),
        )


@dataclass(frozen=True, eq=False)
class SinhArcsinh(MonotoneMap):
    """x = sinh((asinh(z) + s) / t): skewness s and tails lighter (t > 1) or heavier (t < 1) than before.

    Parameters
    ----------
    skew : s, (..., d)
    tail : t, (..., d), positive
    """

    skew: Tensor
    tail: Tensor

    def __post_init__(self) -> None:
        _positive("tail", self.tail)

    def forward(self, z: Tensor) -> Tensor:
        return torch.sinh((torch.asinh(z) + self.skew.unsqueeze(-2)) / self.tail.unsqueeze(-2))

    def pull(self, x: Tensor) -> Pulled:
        s, t = self.skew.unsqueeze(-2), self.tail.unsqueeze(-2)
        angle = t * torch.asinh(x) - s
        squared = 1 + x.square()
        # log cosh without overflow
        log_cosh = angle.abs() + torch.log1p(torch.exp(-2 * angle.abs())) - math.log(2)
        bend = angle.tanh() * t * squared.rsqrt() - x / squared
        return Pulled(angle.sinh(), t.log() + log_cosh - 0.5 * squared.log(), bend)


@dataclass(frozen=True, eq=False)
class LogNormal(MonotoneMap):
    """Positive columns y = exp(a z) with a soft bound, x = e log(expm1(y / e)), which is y far above e.

    Back it is y = e log(1 + exp(x / e)).  Below zero log y falls like x / e: the score is about z / (a e).

    Parameters
    ----------
    strength : a, (..., d), positive
    softness : e, (..., d), positive
    """

    strength: Tensor
    softness: Tensor

    def __post_init__(self) -> None:
        _positive("strength", self.strength)
        _positive("softness", self.softness)

    def forward(self, z: Tensor) -> Tensor:
        return harden(self.strength.unsqueeze(-2) * z, self.softness.unsqueeze(-2))

    def pull(self, x: Tensor) -> Pulled:
        a, e = self.strength.unsqueeze(-2), self.softness.unsqueeze(-2)
        t = x / e
        log_y = e.log() + log_softplus(t)
        share = torch.exp(logsigmoid(t) - log_softplus(t))  # e d log y / dx
        return Pulled(log_y / a, logsigmoid(t) - log_y - a.log(), (torch.sigmoid(-t) - share) / e)


@dataclass(frozen=True, eq=False)
class Hinge(MonotoneMap):
    """Columns censored at a knot: slope one on one side, a small slope e on the other, by a hyperbola.

    With y = z - k and r = sqrt(y^2 + c^2), x = k + ((1 + e) y + (1 - e) r) / 2.  What lies left of the knot
    becomes a narrow heap at it, a spike at zero or a ceiling, about e wide.

    Parameters
    ----------
    knot : k, (..., d)
    slope : e, (..., d), in (0, 1]; one leaves the column as it is, but for a shift.
    round : c, (..., d), positive: how round the corner is.
    """

    knot: Tensor
    slope: Tensor
    round: Tensor

    def __post_init__(self) -> None:
        _positive("slope", self.slope)
        _positive("round", self.round)
        if bool((self.slope > 1).any()):
            raise DataError("slope of a Hinge must not be above one")

    def forward(self, z: Tensor) -> Tensor:
        k, e, c = (p.unsqueeze(-2) for p in (self.knot, self.slope, self.round))
        y = z - k
        return k + 0.5 * ((1 + e) * y + (1 - e) * (y.square() + c.square()).sqrt())

    def pull(self, x: Tensor) -> Pulled:
        k, e, c = (p.unsqueeze(-2) for p in (self.knot, self.slope, self.round))
        up, down = 0.5 * (1 + e), 0.5 * (1 - e)
        inner = x - k
        # The root of e y^2 - 2 up inner y + inner^2 - down^2 c^2 that lies on the hyperbola.
        y = (up * inner - down * (inner.square() + e * c.square()).sqrt()) / e
        r = (y.square() + c.square()).sqrt()
        slope = up + down * y / r  # dx / dy, between e and 1
        bend = -down * c.square() / r**3 / slope.square()
        return Pulled(y + k, -slope.log(), bend)


@dataclass(frozen=True, eq=False)
class Staircase(MonotoneMap):
    """Heaps on a lattice: rounding that leaves a little of what was between the lattice points.

    With (x - o) / s = k + t, k whole and t in [-1/2, 1/2], z lies in the same cell, at
    k + atan2(sin pi t, w cos pi t) / pi, a Moebius map of the circle.  So every lattice point keeps the mass
    of its cell, spread as a wrapped Cauchy density of half-width w s / pi.  Its score is at most about
    pi / (w s).

    Parameters
    ----------
    step, origin : s (positive) and o, (..., d): the lattice.
    width : w, (..., d), in (0, 1]; one leaves the column as it is.
    """

    step: Tensor
    origin: Tensor
    width: Tensor

    def __post_init__(self) -> None:
        _positive("step", self.step)
        _positive("width", self.width)
        if bool((self.width > 1).any()):
            raise DataError("width of a Staircase must not be above one")

    def forward(self, z: Tensor) -> Tensor:
        s, o, w = (p.unsqueeze(-2) for p in (self.step, self.origin, self.width))
        cell, angle = _cell((z - o) / s)
        return o + s * (cell + torch.atan2(w * angle.sin(), angle.cos()) / math.pi)

    def pull(self, x: Tensor) -> Pulled:
        s, o, w = (p.unsqueeze(-2) for p in (self.step, self.origin, self.width))
        cell, angle = _cell((x - o) / s)
        sine, cosine = angle.sin(), angle.cos()
        spread = (w * cosine).square() + sine.square()
        return Pulled(
            o + s * (cell + torch.atan2(sine, w * cosine) / math.pi),
            w.log() - spread.log(),
            -2 * math.pi / s * (1 - w.square()) * sine * cosine / spread,
        )


def log_softplus(t: Tensor) -> Tensor:
    """log log(1 + e^t), also where e^t is nothing beside one."""
    return torch.where(t < _SMALL, t, torch.log(-logsigmoid(-t.clamp_min(_SMALL))))


def harden(log_y: Tensor, softness: Tensor) -> Tensor:
    """e log(expm1(y / e)) from log y: the inverse of y = e log(1 + exp(x / e))."""
    log_ratio = log_y - softness.log()
    ratio = log_ratio.clamp_min(_SMALL).exp()
    return softness * torch.where(log_ratio < _SMALL, log_ratio, ratio + torch.log(-torch.expm1(-ratio)))


def _cell(position: Tensor) -> tuple[Tensor, Tensor]:
    """The lattice point next to a position, and pi times what is left."""
    cell = position.detach().round()
    return cell, math.pi * (position - cell)


def _positive(name: str, value: Tensor) -> None:
    if not bool((value > 0).all()):
        raise DataError(f"{name} must be positive")

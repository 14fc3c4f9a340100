"""A column made normal by its own distribution function: u = Phi^-1(F(x)), exactly invertible.

F is a mixture of M components, each a normal law seen through Wallace's transform of Student's t,

    z(t) = sign(t) sqrt(a log(1 + t^2 / nu)),  t = (x - mean) / scale,  a = nu ((8 nu + 1) / (8 nu + 3))^2,

so that Phi(z(t)) is Student's distribution function to a few thousandths, with tails of the same power, in
elementary functions alone.  It matters that F, its density F' and its inverse match exactly; whether F is
Student's or a close approximation does not.  Each tail is summed by itself, far out in logarithms, so the
map stays finite and increasing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from discoformer.core.checks import holds
from discoformer.core.fields import Density
from discoformer.core.transforms import ColumnMap

__all__ = ["NormalScores", "log_ndtr_inverse"]

_LOG_ROOT = 0.5 * math.log(2 * math.pi)
_CENTER = 1e-12  # squared distances over nu below which a component's slope is that at its center
_LEAST = 1e-290  # smaller probabilities are handled by their logarithms
_FARTHEST = 600.0  # log of squared distances over nu: squares of larger ones would not be finite
_ROUNDS = 80  # of safeguarded Newton steps; a handful are needed


@dataclass(frozen=True)
class NormalScores(ColumnMap):
    """The normal scores of one column under a mixture of M components.

    Attributes
    ----------
    log_weight, mean, scale, nu : (M,) each
    density : of the column, as it was fitted; None where no row need be left out

    Examples
    --------
    >>> free, one = torch.tensor(torch.inf, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    >>> margin = NormalScores(-free, free, 0 * one, 3 * one, 2 * one, 1e9 * one)
    >>> margin.forward(torch.tensor([1.0, 5.0], dtype=torch.float64)).round(decimals=6).tolist()
    [-1.0, 1.0]
    """

    log_weight: Tensor
    mean: Tensor
    scale: Tensor
    nu: Tensor
    density: Density | None = None

    def forward(self, x: Tensor) -> Tensor:
        own = self._at(x)
        t, _, ratio = own._stretch(x)
        return own._scores(t * (own._factor * ratio).sqrt())

    def inverse(self, u: Tensor) -> Tensor:
        """By Newton steps kept inside a bracket: the same quantile of every component holds that of all."""
        if self.mean.ndim > 1:  # a batch of maps: all points to the last round
            return self._newton(u)[0]
        x, left = torch.empty_like(u).flatten(), u.flatten()
        places, rounds = torch.arange(len(left), device=u.device), 8
        while len(places):  # those that are there need not wait for those that are not
            found, settled = self._newton(left, rounds)
            x[places] = found
            settled = settled | (rounds >= _ROUNDS)
            places, left, rounds = places[~settled], left[~settled], min(3 * rounds, _ROUNDS)
        return x.reshape(u.shape)

    def _newton(self, u: Tensor, rounds: int = _ROUNDS) -> tuple[Tensor, Tensor]:
        """Where the map is u (..., m), and which have settled: nothing but rounding moves them."""
        ends = self.mean + self.scale * self._back(u.unsqueeze(-1))
        low, high = ends.amin(-1), ends.amax(-1)
        x, tiny = 0.5 * (low + high), 4 * torch.finfo(u.dtype).eps
        for _ in range(rounds):
            value = self.forward(x)
            below = value < u
            low, high = torch.where(below, x, low), torch.where(below, high, x)
            slope = self.log_derivative(x, value)[0]
            step = x - (value - u) * (-slope).exp()
            inside = (step > low) & (step < high) & step.isfinite()
            new = torch.where(inside, step, 0.5 * (low + high))
            close = (value - u).abs() <= tiny * (1 + u.abs())
            settled = close | ((new - x).abs() <= tiny * x.abs())
            x = torch.where(close, x, new)
            if bool(settled.all()):
                break
        return x, settled

    def log_derivative(self, x: Tensor, u: Tensor | None = None) -> tuple[Tensor, Tensor]:
        own = self._at(x)
        z, slope, bend = own._standard(x)
        u = own._scores(z) if u is None else u
        terms = own.log_weight.exp() * (-0.5 * z.square()).exp() * slope  # of the density, unscaled
        density = terms.sum(-1)
        log_density, share = density.log(), terms / density.unsqueeze(-1)
        if holds(density < _LEAST) is not False:  # far out: by logarithms
            logs = own.log_weight - 0.5 * z.square() + slope.log()
            log_density = logs.logsumexp(-1)
            share = (logs - log_density.unsqueeze(-1)).exp()
        score = (share * (bend - z * slope)).sum(-1)  # the derivative of log_density
        log_derivative = log_density + 0.5 * u.square()
        return log_derivative, score + u * log_derivative.exp()

    def log_derivative_left_out(self, x: Tensor, u: Tensor, weights: Tensor | None) -> Tensor:
        if self.density is None:
            return super().log_derivative_left_out(x, u, weights)
        return self.density.left_out(x.unsqueeze(-1), weights) + 0.5 * u.square() + _LOG_ROOT

    def _standard(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """z of every component (..., M), its slope in x, and the derivative of that slope's logarithm.

        From z^2 = a log(1 + q), q = t^2 / nu: with r = log(1 + q) / q the slope of z is
        sqrt(a / nu r) / (1 + q) / scale.
        """
        t, q, ratio = self._stretch(x)
        beyond = 1 / (1 + q)
        root = (self._factor * ratio).sqrt()
        slope = root * beyond / (ratio * self.scale)
        bend = -((beyond - ratio) / (q * ratio) + 2 * beyond) * t / (self.nu * self.scale)
        return t * root, slope, bend

    def _stretch(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """t, q and r of every component (..., M); see `_standard`."""
        t = (x.unsqueeze(-1) - self.mean) / self.scale
        q = (t.square() / self.nu).clamp_min(_CENTER)
        return t, q, torch.log1p(q) / q

    def _at(self, x: Tensor) -> NormalScores:
        """The map in the precision of the answers: operations on two precisions take twice the time."""
        kind = torch.promote_types(x.dtype, self.mean.dtype)
        if kind == self.mean.dtype:
            return self
        log_weight, mean, scale, nu = (t.to(kind) for t in (self.log_weight, self.mean, self.scale, self.nu))
        return NormalScores(self.low, self.high, log_weight, mean, scale, nu, self.density)

    @property
    def _factor(self) -> Tensor:
        return ((8 * self.nu + 1) / (8 * self.nu + 3)).square()

    def _back(self, z: Tensor) -> Tensor:
        """t of z."""
        q = torch.expm1((z.square() / (self.nu * self._factor)).clamp_max(_FARTHEST))
        return z.sign() * (self.nu * q).sqrt()

    def _scores(self, z: Tensor) -> Tensor:
        """Phi^-1 of the mean of Phi(z) (..., M), from the tail that is the smaller."""
        half = 0.5 * self.log_weight.exp().to(z)
        half = half.mT if half.ndim > 1 else half.unsqueeze(-1)  # (..., M, 1), for sums as matrix products
        tail = torch.erfc(z.abs() * math.sqrt(0.5))  # twice that of every component; Phi itself would lose it
        below = z < 0
        rest = 2 - tail
        lower = (torch.where(below, tail, rest) @ half).squeeze(-1)
        upper = (torch.where(below, rest, tail) @ half).squeeze(-1)
        left = lower < upper
        tail = torch.where(left, lower, upper)
        score = torch.special.ndtri(tail.clamp_min(_LEAST))
        if holds(tail < _LEAST) is not False:
            outward = torch.where(left.unsqueeze(-1), z, -z)
            log_tail = (self.log_weight + _log_ndtr(outward)).logsumexp(-1)
            score = torch.where(tail < _LEAST, log_ndtr_inverse(log_tail.clamp_max(math.log(_LEAST))), score)
        return torch.where(left, score, -score)


def _log_ndtr(z: Tensor) -> Tensor:
    """log Phi(z), from functions that `torch.func.vmap` knows, as it does not know torch's own."""
    low = z < 0
    below, above = torch.where(low, z, -1.0), torch.where(low, 0.0, z)
    tail = torch.special.erfcx(-below * math.sqrt(0.5)).log() - 0.5 * below.square()
    return torch.where(low, tail, torch.erfc(-above * math.sqrt(0.5)).log()) - math.log(2)


def log_ndtr_inverse(log_share: Tensor) -> Tensor:
    """z with log Phi(z) = ``log_share``, far out in the tail: Newton steps from the leading term.

    >>> log_share = torch.special.log_ndtr(torch.tensor([-40.0, -60.0], dtype=torch.float64))
    >>> log_ndtr_inverse(log_share).round(decimals=9).tolist()
    [-40.0, -60.0]
    """
    z = -(-2 * log_share).sqrt()
    for _ in range(4):
        value = _log_ndtr(z)
        z = z - (value - log_share) * (value + 0.5 * z.square() + _LOG_ROOT).exp()
    return z

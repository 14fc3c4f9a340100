"""Margins of a few narrow heaps: columns with few values, rounded and dequantized.

A heap is a box with soft edges, a uniform number in (c - h, c + h) plus logistic noise of scale s.  With
p = (x - c + h) / s, q = (x - c - h) / s and L(t) = log(1 + e^t),

    F(x) = s / (2 h) (L(p) - L(q)),    f(x) = (1 - e^(-2 h / s)) / (2 h) sigmoid(p) sigmoid(-q),
    (log f)'(x) = (1 - sigmoid(p) - sigmoid(q)) / s,

so the score of a mixture of heaps is nowhere above the largest 1 / s.  With h near s a heap is a bump (a
value with narrow noise); with h half of the lattice's step it is a bin (a value with uniform noise).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.priors.tables.column_maps import MonotoneMap, Pulled
from discoformer.priors.tables.quantile_maps import log1mexp, pull_margin

__all__ = ["Atoms"]

# Points of the table of the inverse, from the edges of the heaps, in units of s.
_KNOTS = (0.0, 0.7, 1.4, 2.2, 3.0, 4.0, 5.0, 6.5, 8.0, 10.0, 14.0, 25.0)
_STEPS = 3  # of Newton's method after the table
_BLOCK = 2**15  # numbers in one intermediate (..., rows, d, K): a block in the cache is twice as fast
_TINY = 1e-250  # of F or 1 - F, below which logarithms are taken first


class _Margin(NamedTuple):
    """Four numbers for every point, in the shape of the points."""

    log_cdf: Tensor
    log_survival: Tensor
    log_density: Tensor
    score: Tensor


@dataclass(frozen=True, eq=False)
class Atoms(MonotoneMap):
    """Columns whose margin is a mixture of K heaps, where z is standard normal.

    Parameters
    ----------
    weights : (..., d, K), positive, normalized where they are used
    centers, half_widths, softness : c, h and s, (..., d, K), the latter two positive, h not far below s

    >>> one = torch.ones(1, 2)
    >>> coin = Atoms(one, torch.tensor([[-1.0, 1.0]]), 0.01 * one, 0.01 * one)
    >>> coin.forward(torch.tensor([[-1.0], [1.0]])).round(decimals=1).tolist()
    [[-1.0], [1.0]]
    """

    weights: Tensor
    centers: Tensor
    half_widths: Tensor
    softness: Tensor

    def __post_init__(self) -> None:
        parts = (self.weights, self.half_widths, self.softness)
        if any(part.shape != self.centers.shape for part in parts):
            raise DataError("weights, centers, half_widths and softness of Atoms need the same shape")
        if not all(bool((part > 0).all()) for part in parts):
            raise DataError("weights, half_widths and softness of Atoms must be positive")

    def pull(self, x: Tensor) -> Pulled:
        batch = math.prod(torch.broadcast_shapes(x.shape[:-2], self.centers.shape[:-2]))
        rows = max(1, _BLOCK // max(1, batch * self.centers.shape[-2] * self.centers.shape[-1]))
        blocks = [self._margin(block) for block in x.split(rows, -2)]
        return pull_margin(*(torch.cat(same, -2) for same in zip(*blocks, strict=True)))

    def forward(self, z: Tensor) -> Tensor:
        """By a table and Newton's method, to about a millionth of the narrowest heap."""
        table, known = self._table
        shape = torch.broadcast_shapes(z.shape[:-2], table.shape[:-2])
        wanted = z.expand(*shape, *z.shape[-2:])
        known, table = (part.expand(*shape, *part.shape[-2:]) for part in (known, table))
        above = torch.searchsorted(known.mT.contiguous(), wanted.mT.contiguous()).mT
        above = above.clamp(1, known.shape[-2] - 1)
        (low, z_low), (high, z_high) = (
            (table.gather(-2, index), known.gather(-2, index)) for index in (above - 1, above)
        )
        t = (wanted - z_low) / (z_high - z_low).clamp_min(1e-12)
        x = low + t * (high - low)
        # Outside of the table the bracket is open, and the tails are nearly straight.
        low, high = torch.where(t < 0, -torch.inf, low), torch.where(t > 1, torch.inf, high)
        for _ in range(_STEPS):
            latent, log_slope, _ = self.pull(x)
            error = latent - wanted
            low, high = torch.where(error < 0, x, low), torch.where(error > 0, x, high)
            newton = x - error * torch.exp(-log_slope)
            inside = (newton >= low) & (newton <= high)
            middle = torch.where((low + high).isfinite(), 0.5 * (low + high), x)
            x = torch.where(inside, newton, middle)
        return x

    @cached_property
    def _table(self) -> tuple[Tensor, Tensor]:
        """Points x (..., G, d) in order, and the z they come from."""
        offsets = torch.tensor(_KNOTS, dtype=self.centers.dtype)
        c, h, s = (p.unsqueeze(-1) for p in (self.centers, self.half_widths, self.softness))
        reach = h + s * offsets
        inner = h - torch.minimum(s * offsets, h)
        points = torch.cat([c - reach, c - inner, c + inner, c + reach], -1)  # (..., d, K, 4 knots)
        table = points.flatten(-2).sort(-1).values.mT
        return table, self.pull(table).latent

    def _margin(self, x: Tensor) -> _Margin:
        c, h, s = (p.unsqueeze(-3) for p in (self.centers, self.half_widths, self.softness))
        w = (self.weights / self.weights.sum(-1, keepdim=True)).unsqueeze(-3)
        centered = x.unsqueeze(-1) - c  # (..., n, d, K)
        p, q = (centered + h) / s, (centered - h) / s
        # log(1 + e^t) is max(t, 0) + log(1 + e^(-|t|)); both signs of both edges come from two exponentials.
        small_p, small_q = torch.exp(-p.abs()), torch.exp(-q.abs())
        even = torch.log1p(small_p) - torch.log1p(small_q)
        mass = w * s / (2 * h)
        cdf = (mass * (p.clamp_min(0) - q.clamp_min(0) + even)).sum(-1)
        survival = (mass * ((-q).clamp_min(0) - (-p).clamp_min(0) - even)).sum(-1)
        up = torch.where(p > 0, 1.0, small_p) / (1 + small_p)  # sigmoid(p)
        down = torch.where(q < 0, 1.0, small_q) / (1 + small_q)  # sigmoid(-q)
        parts = w / (2 * h) * -torch.expm1(-2 * h / s) * up * down
        density = parts.sum(-1)
        score = (parts * (down - up) / s).sum(-1) / density.clamp_min(_TINY)
        log_cdf, log_survival, log_density = (
            part.clamp_min(_TINY).log() for part in (cdf, survival, density)
        )
        near = _Margin(log_cdf, log_survival, log_density, score)
        left, right = cdf < _TINY, survival < _TINY
        if not bool((left | right).any()):
            return near
        # So far out, every heap is exponential: L(p) - L(q) is e^p (1 - e^(-2 h / s)) on the left.
        log_mass = mass.log() + log1mexp(2 * h / s)
        terms = log_mass + torch.where(left.unsqueeze(-1), p, -q)
        tail = terms.logsumexp(-1)
        far = (terms - s.log()).logsumexp(-1)
        rate = ((terms - s.log() - far.unsqueeze(-1)).exp() / s).sum(-1)
        return _Margin(
            torch.where(left, tail, log_cdf),
            torch.where(right, tail, log_survival),
            torch.where(left | right, far, log_density),
            torch.where(left, rate, torch.where(right, -rate, score)),
        )

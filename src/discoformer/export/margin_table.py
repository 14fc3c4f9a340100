"""A margin as a table: the values of `NormalScores` at knots, and quintic polynomials between them.

Runtimes have neither the inverse of the normal distribution function nor loops that look at values.  They
have comparisons, look-ups and products.  Between two knots the polynomial matches the map's value and first
two derivatives at both, so that log densities and scores are continuous.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from discoformer.columns.normal_scores import NormalScores
from discoformer.core.checks import DataError
from discoformer.core.transforms import ColumnMap

__all__ = ["MarginTable", "tabulate"]

_STEP = 0.1  # from knot to knot, in units of the length over which the map changes there
_WIDTH = 3.0  # distance from a component, in its scales, at which that length has grown by sqrt(2)
_REACH = 1e6  # how far the table reaches beyond the means, in units of their range plus the largest scale


@dataclass(frozen=True)
class MarginTable(ColumnMap):
    """An increasing map, given by its knots.

    Attributes
    ----------
    knots : (K,), increasing
    polynomials : (K - 1, 6), coefficients; the variable runs from 0 at a knot to 1 at the next
    """

    knots: Tensor
    polynomials: Tensor

    def forward(self, x: Tensor) -> Tensor:
        share, _, c = self._place(x)
        return c[0] + share * (c[1] + share * (c[2] + share * (c[3] + share * (c[4] + share * c[5]))))

    def inverse(self, u: Tensor) -> Tensor:
        raise DataError("a margin as a table cannot be turned around: it is for reading only")

    def log_derivative(self, x: Tensor, u: Tensor | None = None) -> tuple[Tensor, Tensor]:
        share, width, c = self._place(x)
        slope = c[1] + share * (2 * c[2] + share * (3 * c[3] + share * (4 * c[4] + share * 5 * c[5])))
        bend = 2 * c[2] + share * (6 * c[3] + share * (12 * c[4] + share * 20 * c[5]))
        return (slope / width).log(), bend / (slope * width)

    def _place(self, x: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """How far along its interval x is, from 0 to 1, the width of the interval, and its coefficients."""
        last = self.knots.shape[0] - 2
        index = (x.unsqueeze(-1) >= self.knots[1:-1]).long().sum(-1).clamp(0, last)
        low, high = self.knots[index], self.knots[index + 1]
        share = ((x - low) / (high - low)).clamp(0, 1)
        return share, high - low, [self.polynomials[:, k][index] for k in range(6)]


def tabulate(margin: NormalScores) -> MarginTable:
    """The table of a margin.

    >>> one = torch.ones(1, dtype=torch.float64)
    >>> margin = NormalScores(-torch.inf * one[0], torch.inf * one[0], 0 * one, 3 * one, 2 * one, 5 * one)
    >>> x = torch.linspace(-9, 12, 50, dtype=torch.float64)
    >>> bool(torch.allclose(tabulate(margin).forward(x), margin.forward(x), rtol=0, atol=1e-8))
    True
    """
    knots = _knots(margin)
    u = margin.forward(knots)
    log_slope, bend = margin.log_derivative(knots, u)
    width = knots.diff()
    slope, curve = log_slope.exp(), bend * log_slope.exp()
    first, second = slope[:-1] * width, 0.5 * curve[:-1] * width**2
    rise = u.diff() - first - second
    tilt = slope[1:] * width - first - 2 * second
    turn = curve[1:] * width**2 - 2 * second
    third = 10 * rise - 4 * tilt + 0.5 * turn
    fourth = -15 * rise + 7 * tilt - turn
    fifth = 6 * rise - 3 * tilt + 0.5 * turn
    polynomials = torch.stack([u[:-1], first, second, third, fourth, fifth], -1)
    return MarginTable(margin.low, margin.high, knots, polynomials)


def _knots(margin: NormalScores) -> Tensor:
    """From end to end in steps that suit the narrowest component nearby."""
    mean, scale = margin.mean.flatten().double(), margin.scale.flatten().double()
    spread = float((mean.max() - mean.min()) + scale.max())
    at, end = float(mean.min()) - _REACH * spread, float(mean.max()) + _REACH * spread
    knots = [at]
    while at < end:
        unit = (scale.square() + ((at - mean) / _WIDTH).square()).sqrt().min()
        at += _STEP * float(unit)
        knots.append(at)
    return torch.tensor(knots, dtype=torch.float64)

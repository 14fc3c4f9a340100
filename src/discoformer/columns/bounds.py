"""Columns that cannot leave an interval or a half-line: positive amounts, shares, rates.

A bounded column x is mapped to the whole line by a smooth increasing u(x), the density g of the mapped
sample is estimated, and f(x) = g(u(x)) prod_j u_j'(x_j) carries it back: no mass outside, exact Jacobian.

============  ==================================================================================
half-line     u = log(exp(z) - 1), z = (x - low) / s: a logarithm near the bound, straight far away.
              An exponential law of mean s becomes logistic.  The scale s is the one, among fixed
              multiples of the mean distance to the bound, that makes u most nearly normal (as in the
              Box-Cox family); a large s is the logarithm
interval      u = log((x - low) / (high - x)); a uniform law becomes logistic
============  ==================================================================================

Distances to the bounds are measured in the data's own units, so changing units changes nothing else.

Outside the bounds the log density is -inf, and the score, which has no meaning there, is zero.  Values
exactly on a bound (real data has exact zeros) would be mapped to infinity.  They stand for values too
small to be told from it, and are read, in sample and queries alike, at half the distance of the sample
point that is nearest to the bound.

Tables with gaps are scaled column by column, too (`fit_scaling`): by the spread of what is there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from discoformer.core.checks import DataError, column_names
from discoformer.core.transforms import ColumnMap, ColumnMaps

__all__ = [
    "Bound",
    "FREE",
    "HalfLine",
    "Interval",
    "Scaling",
    "fill_bounds",
    "fit_maps",
    "fit_scaling",
    "parse_bounds",
]

Bound = tuple[float, float]
FREE: Bound = (-math.inf, math.inf)
_SCALES = [4.0**k for k in range(-1, 11)]  # of a half-line, in mean distances to the bound


def parse_bounds(bounds: Any, dim: int, names: Sequence[str] | None = None) -> list[Bound]:
    """Bounds of every column from what a user writes.

    Parameters
    ----------
    bounds : None; one pair (low, high) for every column; a list of d pairs or None; or a mapping from
        column names or numbers to pairs.  None, -inf and inf in a pair leave that side open.
    dim : number of columns d
    names : column names

    >>> parse_bounds({"age": (0, None)}, 2, ["age", "height"])
    [(0.0, inf), (-inf, inf)]
    >>> parse_bounds((0, 1), 2)
    [(0.0, 1.0), (0.0, 1.0)]
    """
    if bounds is None:
        return [FREE] * dim
    if isinstance(bounds, Mapping):
        result = [FREE] * dim
        for column, pair in bounds.items():
            result[_position(column, dim, names)] = _pair(pair)
        return result
    try:
        entries = list(bounds)
    except TypeError:
        raise DataError(f"bounds are {bounds!r}: give pairs (low, high), by column") from None
    if len(entries) == 2 and any(_is_number(entry) for entry in entries):
        return [_pair(entries)] * dim
    if len(entries) != dim:
        raise DataError(f"{len(entries)} bounds for {dim} column(s): give one pair (low, high) or None each")
    return [FREE if entry is None else _pair(entry) for entry in entries]


def fill_bounds(given: Sequence[Bound], own: Sequence[Bound]) -> list[Bound]:
    """The bounds that were given and, of columns without, those that follow from their values.

    >>> fill_bounds([FREE, (0.0, 2.0)], [(0.0, math.inf), (0.0, 1.0)])
    [(0.0, inf), (0.0, 2.0)]
    """
    return [found if pair == FREE else pair for pair, found in zip(given, own, strict=True)]


def fit_maps(
    points: Tensor, weights: Tensor | None, bounds: Sequence[Bound], names: Sequence[str] | None = None
) -> ColumnMaps:
    """Maps of the bounded columns of a sample (..., n, d) to the line; weights (..., n) sum to one.

    >>> waiting = torch.rand(200, 1, dtype=torch.float64).log().neg()
    >>> maps = fit_maps(waiting, None, [(0.0, math.inf)])
    >>> torch.allclose(maps.denormalize(maps.normalize(waiting)), waiting)
    True
    """
    maps: dict[int, ColumnMap] = {}
    for column, (low, high) in enumerate(bounds):
        if (low, high) == FREE:
            continue
        x = points[..., column].detach()
        which = column_names([column], names)
        check_inside(x, which, low, high)
        if bool(((x == low) | (x == high)).all(-1).any()):
            raise DataError(f"{which} is on its bounds in every row: it has no density, leave it out")
        if math.isinf(low) or math.isinf(high):
            maps[column] = HalfLine.fit(x, weights, low, high)
        else:
            maps[column] = Interval.fit(x, low, high)
    return ColumnMaps(maps, points.shape[-1])


@dataclass(frozen=True)
class HalfLine(ColumnMap):
    """u = log(exp(z) - 1) of the distance z to one bound, in units of ``scale`` (..., 1)."""

    scale: Tensor
    nudge: Tensor
    rising: bool  # whether the distance grows with x: the bound is the low one

    @classmethod
    def fit(cls, x: Tensor, weights: Tensor | None, low: float, high: float) -> HalfLine:
        """Choose the scale for a column (..., n): the largest likelihood of a normal law of u."""
        share = torch.full_like(x, 1 / x.shape[-1]) if weights is None else weights.to(x)
        distance = x - low if math.isinf(high) else high - x
        unit = (share * distance).sum(-1, keepdim=True)
        one = cls(x.new_tensor(low), x.new_tensor(high), unit, _nudge(distance), math.isinf(high))
        fits = []
        for factor in _SCALES:
            candidate = replace(one, scale=unit * factor)
            u, (log_slope, _) = candidate.forward(x), candidate.log_derivative(x)
            mean = (share * u).sum(-1, keepdim=True)
            variance = (share * (u - mean).square()).sum(-1)
            fits.append((share * log_slope).sum(-1) - 0.5 * variance.log())
        best = torch.stack(fits).argmax(0)  # (...)
        return replace(one, scale=unit * torch.tensor(_SCALES).to(unit)[best].unsqueeze(-1))

    def forward(self, x: Tensor) -> Tensor:
        z = self._distance(x)
        u = z + self._rise(z).log()
        return u if self.rising else -u

    def inverse(self, u: Tensor) -> Tensor:
        distance = self.scale * functional.softplus(u if self.rising else -u)
        return self.low + distance if self.rising else self.high - distance

    def log_derivative(self, x: Tensor, u: Tensor | None = None) -> tuple[Tensor, Tensor]:
        z = self._distance(x)
        rise = self._rise(z)
        bend = torch.exp(-z) / (rise * self.scale)
        return -rise.log() - self.scale.log(), -bend if self.rising else bend

    def read_cdf(self, x: Tensor, inside: Tensor) -> Tensor:
        at_bound = _at_bound(self._from_bound(x), self.nudge)
        return torch.where(at_bound, 0.0 if self.rising else 1.0, inside)

    def _from_bound(self, x: Tensor) -> Tensor:
        return x - self.low if self.rising else self.high - x

    def _distance(self, x: Tensor) -> Tensor:
        distance = self._from_bound(x)
        return torch.where(_at_bound(distance, self.nudge), self.nudge, distance) / self.scale

    @staticmethod
    def _rise(z: Tensor) -> Tensor:
        """1 - exp(-z)."""
        return -torch.expm1(-z)


@dataclass(frozen=True)
class Interval(ColumnMap):
    """u = log((x - low) / (high - x))."""

    nudge_low: Tensor
    nudge_high: Tensor

    @classmethod
    def fit(cls, x: Tensor, low: float, high: float) -> Interval:
        """Where to read the values on the bounds, for a column (..., n)."""
        return cls(x.new_tensor(low), x.new_tensor(high), _nudge(x - low), _nudge(high - x))

    def forward(self, x: Tensor) -> Tensor:
        above, below = self._distances(x)
        return above.log() - below.log()

    def inverse(self, u: Tensor) -> Tensor:
        inside = self.low + (self.high - self.low) * torch.sigmoid(u)
        return torch.minimum(torch.maximum(inside, self.low), self.high)

    def log_derivative(self, x: Tensor, u: Tensor | None = None) -> tuple[Tensor, Tensor]:
        above, below = self._distances(x)
        log_slope = (self.high - self.low).log() - above.log() - below.log()
        return log_slope, 1 / below - 1 / above

    def read_cdf(self, x: Tensor, inside: Tensor) -> Tensor:
        at_low, at_high = _at_bound(x - self.low, self.nudge_low), _at_bound(self.high - x, self.nudge_high)
        return torch.where(at_low, 0.0, torch.where(at_high, 1.0, inside))

    def _distances(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """From the low bound and from the high one."""
        width = self.high - self.low
        above, below = x - self.low, self.high - x
        at_low, at_high = _at_bound(above, self.nudge_low), _at_bound(below, self.nudge_high)
        return (
            torch.where(at_low, self.nudge_low, torch.where(at_high, width - self.nudge_high, above)),
            torch.where(at_high, self.nudge_high, torch.where(at_low, width - self.nudge_low, below)),
        )


def check_inside(x: Tensor, which: str, low: float, high: float) -> None:
    """Raise `DataError` if a column (..., n) has values beyond its bounds."""
    wrong = ((x < low) | (x > high)).nonzero()
    if len(wrong):
        row = int(wrong[0, -1])
        value = float(x[tuple(wrong[0])])
        raise DataError(
            f"{which} has {value:g} at row {row}, outside its bounds ({low:g}, {high:g}), "
            f"{len(wrong)} such in all: widen the bounds or drop the rows"
        )


def _nudge(distance: Tensor) -> Tensor:
    """Half the smallest positive distance (..., n) to a bound, (..., 1)."""
    positive = torch.where(distance > 0, distance, torch.inf)
    return 0.5 * positive.amin(-1, keepdim=True)


def _at_bound(distance: Tensor, nudge: Tensor) -> Tensor:
    """On the bound, or so near that the slopes would overflow."""
    return distance <= 1e-140 * nudge.clamp_max(1)


def _position(column: Any, dim: int, names: Sequence[str] | None) -> int:
    labels = list(names or ())
    if column in labels and not isinstance(column, bool):
        return labels.index(column)
    numbered = not any(isinstance(label, Integral) for label in labels)  # else a number is a label
    if numbered and isinstance(column, Integral) and not isinstance(column, bool) and 0 <= int(column) < dim:
        return int(column)
    have = column_names(range(dim), names)
    raise DataError(f"bounds name column {column!r}, but the data has {have}")


def _is_number(value: object) -> bool:
    # Rows of an array have __float__ too, but are pairs.
    return hasattr(value, "__float__") and getattr(value, "ndim", 0) == 0


def _pair(pair: Any) -> Bound:
    try:
        low, high = pair
        low = -math.inf if low is None else float(low)
        high = math.inf if high is None else float(high)
    except (TypeError, ValueError):
        raise DataError(f"bounds {pair!r} are not a pair (low, high) of numbers or None") from None
    if not low < high:
        raise DataError(f"bounds ({low:g}, {high:g}): the first must be below the second")
    return low, high


@dataclass(frozen=True)
class Scaling(ColumnMap):
    """u = (x - center) / scale."""

    center: Tensor
    scale: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.center) / self.scale

    def inverse(self, u: Tensor) -> Tensor:
        return self.center + self.scale * u

    def log_derivative(self, x: Tensor, u: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return -self.scale.log().expand_as(x), torch.zeros_like(x)


def fit_scaling(points: Tensor, weights: Tensor | None, periods: Sequence[float]) -> ColumnMaps:
    """Maps of the first columns of points (n, d), NaN where there is a gap, to mean zero and variance one.

    A column with a period is a circle, which still begins at zero.

    >>> maps = fit_scaling(torch.tensor([[1.0], [torch.nan], [3.0]], dtype=torch.float64), None, [0.0])
    >>> maps.normalize(torch.tensor([[2.0], [4.0]], dtype=torch.float64)).tolist()
    [[0.0], [2.0]]
    """
    free = torch.tensor(torch.inf, dtype=points.dtype, device=points.device)
    maps: dict[int, ColumnMap] = {}
    for j, period in enumerate(periods):
        there = ~points[:, j].isnan()
        x = points[there, j]
        share = torch.full_like(x, 1 / len(x)) if weights is None else weights[there] / weights[there].sum()
        middle = 0.5 * (x.amin() + x.amax())  # guards the squares against overflow
        width = (x - middle).abs().amax()
        unit = (x - middle) / width
        mean = (share * unit).sum()
        spread = (share * (unit - mean).square()).sum().sqrt()
        center = torch.zeros_like(mean) if period else middle + width * mean
        maps[j] = Scaling(-free, free, center, width * spread)
    return ColumnMaps(maps, points.shape[-1])

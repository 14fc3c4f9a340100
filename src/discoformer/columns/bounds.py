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
exactly on a bound (everyday data has exact zeros) would be mapped to infinity.  They stand for values too
small to be told from it, and are read, in sample and queries alike, at half the distance of the sample
point that is nearest to the bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from discoformer.columns.support import Supported, support_of, verb
from discoformer.core.checks import DataError, column_names
from discoformer.core.fields import Estimate, Field, Method

__all__ = ["Bounded", "BoundedField", "HalfLine", "Interval", "everyday", "parse_bounds"]

Bound = tuple[float, float]
_FREE: Bound = (-math.inf, math.inf)
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
        return [_FREE] * dim
    if isinstance(bounds, Mapping):
        result = [_FREE] * dim
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
    return [_FREE if entry is None else _pair(entry) for entry in entries]


class Bounded(Method):
    """Fit a method to a sample whose columns have bounds.

    Parameters
    ----------
    method : any method
    bounds : as for `parse_bounds`
    names : column names for the messages

    Examples
    --------
    >>> from discoformer import KDE
    >>> waiting = torch.rand(200, 1, dtype=torch.float64).log().neg()
    >>> field = Bounded(KDE(), (0, None)).fit(waiting)
    >>> field.log_density(torch.tensor([[-1.0]], dtype=torch.float64)).tolist()
    [-inf]
    """

    def __init__(self, method: Method, bounds: Any, names: Sequence[str] | None = None) -> None:
        self.method = method
        self.bounds = bounds
        self.names = names

    def _fit(self, context: Tensor, weights: Tensor | None) -> BoundedField:
        bounds = parse_bounds(self.bounds, context.shape[-1], self.names)
        context = context.to(torch.float64)
        weights = None if weights is None else weights.to(torch.float64)
        maps: dict[int, ColumnMap] = {}
        for column, (low, high) in enumerate(bounds):
            if (low, high) == _FREE:
                continue
            x = context[..., column].detach()
            self._check_inside(x, column, low, high)
            if math.isinf(low) or math.isinf(high):
                maps[column] = HalfLine.fit(x, weights, low, high)
            else:
                maps[column] = Interval.fit(x, low, high)
        lines = to_line(context, maps).points
        return BoundedField(self.method._fit(lines, weights), maps)

    def for_few_rows(self) -> Bounded:
        """The same bounds around what the method uses instead."""
        return Bounded(self.method.for_few_rows(), self.bounds, self.names)

    def _check_inside(self, x: Tensor, column: int, low: float, high: float) -> None:
        wrong = ((x < low) | (x > high)).nonzero()
        which = column_names([column], self.names)
        if len(wrong):
            row = int(wrong[0, -1])
            value = float(x[tuple(wrong[0])])
            raise DataError(
                f"{which} has {value:g} at row {row}, outside its bounds ({low:g}, {high:g}), "
                f"{len(wrong)} such in all: widen the bounds or drop the rows"
            )
        if bool(((x == low) | (x == high)).all(-1).any()):
            raise DataError(f"{which} is on its bounds in every row: it has no density, leave it out")


def everyday(method: Method, bounds: Sequence[Bound], names: Sequence[str] | None = None) -> Method:
    """The method with what everyday data asks for: bounds, and support before and after their maps.

    Parts and their total are collinear before a logarithm, powers of one column after it.
    """

    if set(bounds) == {_FREE}:
        return Supported(method, names)

    def inside(kept: Sequence[int]) -> Method:
        own = [f"column {j}" if names is None else names[j] for j in kept]
        return Bounded(Supported(method, own), [bounds[j] for j in kept], own)

    return Supported(inside, names)


class OnLine(NamedTuple):
    """A column, or columns, mapped to the line.

    Attributes
    ----------
    points : u(x)
    log_slope : log u'(x)
    bend : derivative of log u' by x
    """

    points: Tensor
    log_slope: Tensor
    bend: Tensor


class ColumnMap(Protocol):
    """A smooth increasing map of a column to the line."""

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...

    def to_line(self, x: Tensor) -> OnLine:
        """Values (..., m) within the bounds, to the line."""
        ...

    def from_line(self, u: Tensor) -> Tensor:
        """The inverse."""
        ...


@dataclass(frozen=True)
class HalfLine:
    """u = log(exp(z) - 1) of the distance z to one bound, in units of ``scale`` (..., 1)."""

    low: float
    high: float
    scale: Tensor
    nudge: Tensor

    @classmethod
    def fit(cls, x: Tensor, weights: Tensor | None, low: float, high: float) -> HalfLine:
        """Choose the scale for a column (..., n): the largest likelihood of a normal law of u."""
        share = torch.full_like(x, 1 / x.shape[-1]) if weights is None else weights.to(x)
        distance = x - low if math.isinf(high) else high - x
        unit = (share * distance).sum(-1, keepdim=True)
        one = cls(low, high, unit, _nudge(distance))
        candidates = [replace(one, scale=unit * factor) for factor in _SCALES]
        fits = []
        for candidate in candidates:
            u, log_slope, _ = candidate.to_line(x)
            mean = (share * u).sum(-1, keepdim=True)
            variance = (share * (u - mean).square()).sum(-1)
            fits.append((share * log_slope).sum(-1) - 0.5 * variance.log())
        best = torch.stack(fits).argmax(0)  # (...)
        return replace(one, scale=unit * torch.tensor(_SCALES).to(unit)[best].unsqueeze(-1))

    @property
    def _side(self) -> float:
        return 1.0 if math.isinf(self.high) else -1.0

    def to_line(self, x: Tensor) -> OnLine:
        side = self._side
        distance = _inward(x - self.low if side > 0 else self.high - x, self.nudge)
        z = distance / self.scale
        rise = -torch.expm1(-z)  # 1 - exp(-z)
        return OnLine(
            side * (z + rise.log()),
            -rise.log() - self.scale.log(),
            -side * torch.exp(-z) / (rise * self.scale),
        )

    def from_line(self, u: Tensor) -> Tensor:
        side = self._side
        distance = self.scale * torch.nn.functional.softplus(side * u)
        return self.low + distance if side > 0 else self.high - distance


@dataclass(frozen=True)
class Interval:
    """u = log((x - low) / (high - x))."""

    low: float
    high: float
    nudge_low: Tensor
    nudge_high: Tensor

    @classmethod
    def fit(cls, x: Tensor, low: float, high: float) -> Interval:
        """Where to read the values on the bounds, for a column (..., n)."""
        return cls(low, high, _nudge(x - low), _nudge(high - x))

    def to_line(self, x: Tensor) -> OnLine:
        width = self.high - self.low
        above, below = x - self.low, self.high - x
        at_low, at_high = _at_bound(above, self.nudge_low), _at_bound(below, self.nudge_high)
        above = torch.where(at_low, self.nudge_low, torch.where(at_high, width - self.nudge_high, above))
        below = torch.where(at_high, self.nudge_high, torch.where(at_low, width - self.nudge_low, below))
        log_above, log_below = above.log(), below.log()
        return OnLine(log_above - log_below, math.log(width) - log_above - log_below, 1 / below - 1 / above)

    def from_line(self, u: Tensor) -> Tensor:
        inside = self.low + (self.high - self.low) * torch.sigmoid(u)
        return inside.clamp(self.low, self.high)


def _nudge(distance: Tensor) -> Tensor:
    """Half the smallest positive distance (..., n) to a bound, (..., 1)."""
    positive = torch.where(distance > 0, distance, torch.inf)
    return 0.5 * positive.amin(-1, keepdim=True)


def _at_bound(distance: Tensor, nudge: Tensor) -> Tensor:
    """On the bound, or so near that the slopes would overflow."""
    return distance <= 1e-140 * nudge.clamp_max(1)


def _inward(distance: Tensor, nudge: Tensor) -> Tensor:
    return torch.where(_at_bound(distance, nudge), nudge, distance)


def to_line(points: Tensor, maps: Mapping[int, ColumnMap]) -> OnLine:
    """Map some columns of points (..., m, d); the others stay as they are."""
    on_line = [
        maps[j].to_line(x) if j in maps else OnLine(x, torch.zeros_like(x), torch.zeros_like(x))
        for j, x in enumerate(points.unbind(-1))
    ]
    return OnLine(*(torch.stack(parts, -1) for parts in zip(*on_line, strict=True)))


class BoundedField(Field):
    """The field of a sample with bounds, from the field of the mapped sample."""

    def __init__(self, inner: Field, maps: Mapping[int, ColumnMap]) -> None:
        self.inner = inner
        self.maps = maps

    @property
    def dim(self) -> int:
        return self.inner.dim

    @property
    def support(self) -> list[int]:
        """Columns that the answers depend on."""
        return support_of(self.inner)

    @property
    def bounds(self) -> list[Bound]:
        """Low and high of every column."""
        return [(self.maps[j].low, self.maps[j].high) if j in self.maps else _FREE for j in range(self.dim)]

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        points = queries.to(torch.float64)
        low, high = torch.tensor(self.bounds, dtype=points.dtype, device=points.device).unbind(-1)
        beyond = (points < low) | (points > high)
        inside = self._from_line(torch.zeros_like(points))
        line, log_slope, bend = to_line(torch.where(beyond, inside, points), self.maps)
        log_density, score = self.inner._estimate(line)
        counts = torch.zeros(self.dim, dtype=torch.bool, device=points.device)
        counts[self.support] = True  # columns that the inner field left out have no say
        outside = (beyond & counts).any(-1)
        score = (score * log_slope.exp() + bend * counts).masked_fill(outside.unsqueeze(-1), 0.0)
        if log_density is not None:
            log_density = log_density + (log_slope * counts).sum(-1)
            log_density = log_density.masked_fill(outside, -torch.inf).to(queries.dtype)
        return Estimate(log_density, score.to(queries.dtype))

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n points within the bounds: (..., n, d)."""
        return self._from_line(verb(self.inner, "sample")(n, generator))

    def marginal(self, columns: Sequence[int]) -> BoundedField:
        """The field of some of the columns, in the order given."""
        inner = verb(self.inner, "marginal")(columns)
        return BoundedField(inner, _part(self.maps, columns))

    def conditional(self, columns: Sequence[int], values: Any) -> BoundedField:
        """The field of the other columns given ``values`` (..., k) of ``columns``."""
        row = torch.as_tensor(values, dtype=torch.float64)
        maps = _part(self.maps, columns)
        for j, column_map in maps.items():
            wrong = (row[..., j] < column_map.low) | (row[..., j] > column_map.high)
            if bool(wrong.any()):
                raise DataError(
                    f"column {columns[j]} cannot be given outside its bounds: it has no density there"
                )
        given = to_line(row.unsqueeze(-2), maps).points.squeeze(-2)
        rest = [c for c in self.support if c not in set(columns)]
        return BoundedField(verb(self.inner, "conditional")(columns, given), _part(self.maps, rest))

    def _from_line(self, line: Tensor) -> Tensor:
        columns = [self.maps[j].from_line(u) if j in self.maps else u for j, u in enumerate(line.unbind(-1))]
        return torch.stack(columns, -1)


def _part(maps: Mapping[int, ColumnMap], columns: Sequence[int]) -> dict[int, ColumnMap]:
    return {j: maps[c] for j, c in enumerate(columns) if c in maps}


def _position(column: Any, dim: int, names: Sequence[str] | None) -> int:
    if names is not None and column in list(names):
        return list(names).index(column)
    if isinstance(column, Integral) and not isinstance(column, bool) and 0 <= int(column) < dim:
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

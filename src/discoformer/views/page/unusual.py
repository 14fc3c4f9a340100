"""Which rows are unusual, in which column, and what was expected there.

The surprise of a cell is -log p(x_j | the other columns) = log f(x without j) - log f(x), in closed form, by
a fit that has not seen the row (see `folds`).  Its excess over the median of its column does not depend on
the column's unit: it says how many nats less likely the value is than usual in that column.  Under a density
with exponential tails, the excess of a cell is beyond e by chance with probability exp(-e).  So among n rows
of d columns, an excess beyond log(n d) + 2 is hardly chance: such rows look like errors.  If many rows of a
column are beyond the limit, the column has a long tail instead.  A value that carries mass of its own, such
as zero, is compared with others that do.  A missing value has no surprise.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.columns.kinds import ColumnKind
from discoformer.columns.split import kinds_of
from discoformer.core.checks import DataError
from discoformer.core.composed import on_support
from discoformer.core.fields import Density, PointDensity, as_density
from discoformer.detection.reasons import over_usual, surprises
from discoformer.views.page.folds import Folds

__all__ = [
    *("Expected", "Likely", "Unusual", "UnusualRow"),
    *("density_levels", "find_unusual", "read_levels"),
]

_BY_SURPRISE = 20  # rows listed because of one cell
_BY_DENSITY = 10  # rows listed because of their log density
_MARGIN = 2.0  # nats beyond what chance gives
_TAIL = 0.01  # a column with more than this share of rows beyond the limit has a long tail, not errors
_DRAWS = 8000
_GRID, _FINER, _ROUNDS = 257, 33, 2  # grid for quantiles, points between two of its places, refinements
_TABLE = 401  # quantiles of the log density at draws
_ROUNDING = 1e-9  # relative error of log densities
_QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class Expected:
    """What is expected of a column given the others: the median, and an interval with 90 % of the mass."""

    low: float
    median: float
    high: float


@dataclass(frozen=True)
class Likely:
    """What is expected of a category given the others: the likeliest code, and its probability."""

    code: int
    share: float


@dataclass(frozen=True)
class UnusualRow:
    """A row that stands out.

    Attributes
    ----------
    row : its number, from 0
    values : of all columns, NaN where one is missing
    log_density : log density of the row
    level : share of the fitted mass where the density is higher; None if the density cannot be drawn from,
        or if the row has gaps and so a density of fewer columns
    column : the column to blame, or None if the model has no conditionals
    excess : nats by which the value there is less likely than usual
    expected : what was expected there, given the other columns
    error : whether the row looks like an error, beyond what chance explains
    """

    row: int
    values: tuple[float, ...]
    log_density: float
    level: float | None
    column: int | None = None
    excess: float = 0.0
    expected: Expected | Likely | None = None
    error: bool = False


@dataclass(frozen=True)
class Unusual:
    """The rows that stand out, the most surprising first.

    Attributes
    ----------
    rows : at most thirty of them
    limit : excess beyond which a cell looks like an error
    errors : number of rows in the whole table that look like errors
    tails : columns with so many rows beyond the limit that they have a long tail
    levels : quantiles of the log density at draws of the model, or None
    """

    rows: Sequence[UnusualRow]
    limit: float
    errors: int
    tails: Sequence[int]
    levels: NDArray[np.float64] | None


@torch.no_grad()
def find_unusual(field: PointDensity, values: NDArray[np.float64], folds: Folds | None = None) -> Unusual:
    """The rows of a table (n, d) that stand out under a fitted density.

    Parameters
    ----------
    field : fitted to all rows, for log densities and levels
    values : (n, d)
    folds : fits to the columns of the support that have not seen their rows, for the surprise of cells;
        without them the field itself answers, which may have given an extreme row a component of its own

    Examples
    --------
    >>> from discoformer import load_model
    >>> from discoformer.views.page.folds import hold_out
    >>> x = np.random.default_rng(0).normal(size=(300, 2))
    >>> x[7, 1] = 40.0
    >>> network = load_model("default")
    >>> found = find_unusual(network.fit(x), x, hold_out(network, x))
    >>> found.errors, found.rows[0].row, found.rows[0].column
    (1, 7, 1)
    """
    log_density = field.log_density(values)
    limit = math.log(values.size) + _MARGIN
    if not isinstance(field, Density):
        order = np.argsort(log_density, kind="stable")[: _BY_SURPRISE + _BY_DENSITY]
        rows = [UnusualRow(int(r), tuple(values[r].tolist()), float(log_density[r]), None) for r in order]
        return Unusual(rows, limit, 0, [], None)
    levels = density_levels(field)
    level = read_levels(log_density, levels)
    part, columns = on_support(field)
    points, kinds = values[:, columns], [kinds_of(field)[c] for c in columns]
    whole = np.asarray(~np.isnan(points).any(1))
    fits = folds or Folds([part], np.zeros(len(values), dtype=np.int64), np.arange(len(values)))
    cells, found = torch.from_numpy(points), torch.from_numpy(fits.ask(_surprises, points))
    excess = over_usual(found, cells, found, cells, kinds, _median).nan_to_num(0.0, np.inf, -np.inf).numpy()
    beyond = excess > limit
    tails = beyond.mean(0) > max(_TAIL, 5 / len(values))
    errors = (beyond & ~tails).any(1)
    worst = excess.max(1)
    # log densities compare only between rows that have densities of the same columns
    comparable = whole.all() and not any(kind.atoms for kind in kinds)
    by_surprise = _BY_SURPRISE if comparable else _BY_SURPRISE + _BY_DENSITY
    chosen = dict.fromkeys(np.argsort(-worst, kind="stable")[:by_surprise].tolist())
    if comparable:
        chosen.update(dict.fromkeys(np.argsort(log_density, kind="stable")[:_BY_DENSITY].tolist()))
    rows = []
    for r in sorted(chosen, key=lambda r: (not errors[r], -worst[r])):
        counted = np.where(tails, -np.inf, excess[r]) if errors[r] else excess[r]
        place = int(counted.argmax())
        rows.append(
            UnusualRow(
                row=r,
                values=tuple(values[r].tolist()),
                log_density=float(log_density[r]),
                level=float(level[r]) if whole[r] else None,
                column=columns[place],
                excess=float(excess[r, place]),
                expected=_expected(
                    fits.fields[fits.fold[r]], points[r], place, kinds[place], points[:, place]
                ),
                error=bool(errors[r]),
            )
        )
    return Unusual(rows, limit, int(errors.sum()), [columns[j] for j in np.flatnonzero(tails)], levels)


def _surprises(field: PointDensity, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of every cell (n, d) under a density of all columns."""
    return surprises(as_density(field), torch.from_numpy(points)).numpy()


def _median(surprise: torch.Tensor) -> torch.Tensor:
    """Of every column (n, d), where a cell counts: the errors in a table do not move it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column in which none counts
        return torch.from_numpy(np.nanmedian(surprise.numpy(), axis=0))


def _expected(
    field: PointDensity,
    row: NDArray[np.float64],
    column: int,
    kind: ColumnKind,
    seen: NDArray[np.float64],
) -> Expected | Likely | None:
    """What a fit that has not seen the row expects in one column, given the row's other values.

    ``seen`` (n,) are all values of that column.
    """
    known = [c for c in np.flatnonzero(~np.isnan(row)).tolist() if c != column]
    alone = as_density(field).marginal([*known, column])
    try:
        alone = alone.conditional(list(range(len(known))), row[known]) if known else alone
        if kind.levels:
            codes = torch.arange(kind.levels, dtype=torch.float64).unsqueeze(-1)
            share = alone.log_density(codes).exp()
            return Likely(int(share.argmax()), float(share.max()))
        low, median, high = _quantiles(alone, kind, seen[~np.isnan(seen)])
    except DataError:  # cannot condition on a value beyond its bounds
        return None
    return Expected(low, median, high)


def _quantiles(alone: Density, kind: ColumnKind, seen: NDArray[np.float64]) -> list[float]:
    """Quantiles of one column to three digits or so, read off its distribution function on a grid.

    Exact quantiles of a blend of many parts take a second.  The grid is made of values (n,) of the column and
    some places beyond them, and is then refined around the quantiles.  On a circle it covers the circle.

    >>> from discoformer import KDE
    >>> law, seen = KDE(1.0).fit([[0.0], [1.0]]), np.array([0.0, 0.3, 1.0])
    >>> low, median, high = _quantiles(law, ColumnKind(), seen)
    >>> abs(median - 0.5) < 0.03, abs(low + high - 1.0) < 0.05
    (True, True)
    """
    shares = np.array(_QUANTILES)
    if kind.period:
        _, found = _first_beyond(alone, kind.origin + kind.period * np.arange(_GRID) / _GRID, shares)
        return [float(value) for value in found]
    first, last = float(seen.min()), float(seen.max())
    beyond = (last - first or 1.0) * 2.0 ** np.arange(-2, 6)
    values = np.quantile(seen, np.linspace(0, 1, _GRID), method="nearest")
    grid = np.concatenate([first - beyond, values, last + beyond])
    for _ in range(_ROUNDS):
        before, found = _first_beyond(alone, grid, shares)
        grid = np.append(np.linspace(before, found, _FINER).ravel(), found)
    if kind.step:  # the distribution function jumps only at lattice values
        found = kind.origin + kind.step * np.floor((found - kind.origin) / kind.step + 1e-6)
    return [float(value) for value in found]


def _first_beyond(
    alone: Density, grid: NDArray[np.float64], shares: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The last of the places (m,) below each quantile, and the first at or beyond it.

    Places are sorted by the distribution function, which on a circle may begin anywhere.
    """
    grid = np.unique(grid)
    upto = alone.cdf(torch.from_numpy(grid[:, None])).numpy().ravel()
    order = np.argsort(upto, kind="stable")
    place = np.searchsorted(upto[order], shares).clip(0, len(grid) - 1)
    return grid[order][(place - 1).clip(0)], grid[order][place]


def read_levels(log_density: NDArray[np.float64], table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Levels (m,) of points, from their log densities (m,) and a table made by `density_levels`.

    Log densities that differ only by rounding count as equal.

    >>> read_levels(np.array([-9.0, -1.0, 0.0]), np.array([-2.0, -1.0, -1.0])).tolist()
    [1.0, 0.0, 0.0]
    """
    places = np.linspace(0, 1, len(table))
    return np.asarray(1 - np.interp(log_density + _ROUNDING * (1 + np.abs(log_density)), table, places))


@torch.no_grad()
def density_levels(field: Density, draws: int = _DRAWS) -> NDArray[np.float64]:
    """Quantiles of the log density at draws, at evenly spaced shares: the table that levels are read from.

    >>> from discoformer import KDE
    >>> levels = density_levels(KDE(1.0).fit([[-0.5], [0.5]]))
    >>> len(levels), bool((np.diff(levels) >= 0).all())
    (401, True)
    """
    points = field.sample(draws, torch.Generator().manual_seed(0))
    points = points[points.isfinite().all(-1)]  # tails may be so heavy that a draw overflows
    log_density = field.log_density(points).cpu().numpy()
    return np.asarray(np.quantile(log_density, np.linspace(0, 1, _TABLE)))

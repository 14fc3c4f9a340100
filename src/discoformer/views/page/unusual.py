"""Which rows are unusual, in which column, and what was expected there.

The surprise of a cell is -log p(x_j | the other columns) = log f(x without j) - log f(x), in closed form, by
a fit that has not seen the row (see `folds`).  Its excess over the median of its column does not depend on
the column's unit: it says how many nats less likely the value is than what the column usually shows.  Under
a density with exponential tails a cell exceeds e by chance with probability exp(-e), so among n rows of d
columns one beyond log(n d) + 2 is not chance: such rows look like errors.  Where many rows of a column are
beyond, the column has a long tail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.core.checks import DataError
from discoformer.core.fields import Density, PointDensity, as_density
from discoformer.core.pushforward import on_support
from discoformer.views.page.folds import Folds

__all__ = ["Expected", "Unusual", "UnusualRow", "find_unusual", "surprises"]

_BY_SURPRISE = 20  # rows listed for a cell
_BY_DENSITY = 10  # and for the row as a whole
_MARGIN = 2.0  # nats beyond what chance gives
_TAIL = 0.01  # a column with more rows beyond than this share has a long tail, not errors
_DRAWS = 20_000
_TABLE = 401  # quantiles of the log density at draws
_QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class Expected:
    """What a column should show given the others: the median, and an interval that holds nine in ten."""

    low: float
    median: float
    high: float


@dataclass(frozen=True)
class UnusualRow:
    """A row that stands out.

    Attributes
    ----------
    row : its number from 0
    values : of all columns
    log_density : of the row
    level : share of the fitted density that is at least as likely, or None if it cannot be drawn from
    column : to blame, or None if the model has no conditionals
    excess : nats by which the value there is less likely than usual
    expected : there, given the other columns
    error : whether chance does not explain it
    """

    row: int
    values: tuple[float, ...]
    log_density: float
    level: float | None
    column: int | None = None
    excess: float = 0.0
    expected: Expected | None = None
    error: bool = False


@dataclass(frozen=True)
class Unusual:
    """The rows that stand out, the most surprising first.

    Attributes
    ----------
    rows : at most thirty of them
    limit : of the excess, beyond which a cell looks like an error
    errors : number of rows beyond it, in all of the table
    tails : columns with so many rows beyond the limit that they have a long tail
    levels : quantiles of the log density at draws of the model, or None
    """

    rows: Sequence[UnusualRow]
    limit: float
    errors: int
    tails: Sequence[int]
    levels: NDArray[np.float64] | None


@torch.no_grad()
def find_unusual(
    field: PointDensity, values: NDArray[np.float64], folds: Folds | None = None, seed: int = 0
) -> Unusual:
    """The rows of a table (n, d) that stand out under a fitted density.

    Parameters
    ----------
    field : of all rows, for log densities and levels
    values : (n, d)
    folds : fits of the columns of the support that have not seen their rows, for the surprise of cells;
        without them the field itself is asked, which may have given a wild row a component of its own
    seed : of the draws for the levels

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
    levels = _levels(field, seed)
    level = 1 - np.interp(log_density, levels, np.linspace(0, 1, _TABLE))
    part, columns = on_support(field)
    points = values[:, columns]
    fits = folds or Folds([part], np.zeros(len(values), dtype=np.int64), np.arange(len(values)))
    excess = fits.ask(surprises, points)
    excess -= np.median(excess, axis=0)
    beyond = excess > limit
    tails = beyond.mean(0) > max(_TAIL, 5 / len(values))
    errors = (beyond & ~tails).any(1)
    worst = excess.max(1)
    chosen = dict.fromkeys(np.argsort(-worst, kind="stable")[:_BY_SURPRISE].tolist())
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
                level=float(level[r]),
                column=columns[place],
                excess=float(excess[r, place]),
                expected=_expected(fits.fields[fits.fold[r]], points[r], place),
                error=bool(errors[r]),
            )
        )
    return Unusual(rows, limit, int(errors.sum()), [columns[j] for j in np.flatnonzero(tails)], levels)


def surprises(field: PointDensity, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """-log p(x_j | the others) of every cell (n, d) under a density of all columns.

    >>> from discoformer import KDE
    >>> surprises(KDE(1.0).fit([[-0.5, 0.0], [0.5, 0.0]]), np.zeros((1, 2))).round(3).tolist()
    [[1.044, 0.919]]
    """
    density = as_density(field)
    whole = density.log_density(points)
    columns = range(points.shape[1])
    if len(columns) == 1:
        return np.asarray(-whole)[:, None]
    rest = [[k for k in columns if k != j] for j in columns]
    return np.stack([density.marginal(others).log_density(points[:, others]) - whole for others in rest], 1)


def _expected(field: PointDensity, row: NDArray[np.float64], column: int) -> Expected | None:
    density, others = as_density(field), [c for c in range(len(row)) if c != column]
    try:
        alone = density.conditional(others, row[others]) if others else density
        low, median, high = alone.quantile(torch.tensor(_QUANTILES, dtype=torch.float64)).flatten().tolist()
    except DataError:  # a value beyond its bounds cannot be given
        return None
    return Expected(low, median, high)


def _levels(field: Density, seed: int) -> NDArray[np.float64]:
    """Quantiles of the log density at draws, at evenly spaced shares."""
    draws = field.sample(_DRAWS, torch.Generator().manual_seed(seed))
    log_density = field.log_density(draws).cpu().numpy()
    return np.asarray(np.quantile(log_density, np.linspace(0, 1, _TABLE)))

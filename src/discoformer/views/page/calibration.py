"""Calibration: whether the regions that a fit names hold as many new rows as it says.

The level of a row is the share of the fitted mass where the density is higher.  If the fit is right, levels
of new rows are uniform: the region that should hold 80 % of them does.  The same goes for every column alone,
by its distribution function.  Where values repeat, a row gets a random place among its equals.  All answers
come from fits that have not seen the rows (see `folds`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.columns.kinds import ColumnKind
from discoformer.columns.split import kinds_of
from discoformer.core.fields import Density, PointDensity
from discoformer.detection.levels import drawn_log_densities
from discoformer.views.page.folds import Folds

__all__ = ["Calibration", "calibrate"]

_PLACES = 101  # points on every curve
_DRAWS = 2000  # draws from the fit of every fold, for its levels
_FEWEST = 50  # complete rows needed where some rows have gaps
_CHANCE = 1.36  # times 1 / sqrt(n): Kolmogorov's band, which holds 95 % of the curves if the fit is right


@dataclass(frozen=True)
class Calibration:
    """What held-out rows say about a fit.

    Attributes
    ----------
    rows : number of rows with a level; rows with gaps have none
    shares : (k,), evenly spaced from 0 to 1
    inside : (k,), share of the rows in the region that should hold each of these shares
    margins : one curve (k,) per column, the share of its values below its quantiles; categories have none
    band : how far a curve may be off by chance
    """

    rows: int
    shares: NDArray[np.float64]
    inside: NDArray[np.float64]
    margins: NDArray[np.float64]
    band: float

    @property
    def gap(self) -> float:
        """Where the curve is farthest off: negative if fewer rows are inside than should be."""
        off = self.inside - self.shares
        return float(off[np.abs(off).argmax()])

    def held(self, share: float) -> float:
        """Share of the rows in the region that should hold ``share`` of them."""
        return float(np.interp(share, self.shares, self.inside))


def calibrate(folds: Folds, rows: NDArray[np.float64]) -> Calibration | None:
    """Calibration on the rows (n, d) that were cut into folds.

    None if the fits cannot be drawn from, or if too few rows are complete.

    >>> from discoformer import KDE
    >>> from discoformer.views.page.folds import hold_out
    >>> x = np.random.default_rng(0).normal(size=(400, 2))
    >>> found = calibrate(hold_out(KDE(), x), x)
    >>> found.rows, abs(found.gap) < found.band
    (400, True)
    """
    if not all(isinstance(field, Density) for field in folds.fields):
        return None
    asked = rows[folds.sample]
    part = Folds(folds.fields, folds.fold[folds.sample], np.arange(len(asked)))
    shares = np.linspace(0, 1, _PLACES)
    chance = np.random.default_rng(0).random((len(asked), 1 + rows.shape[1]))
    level, *columns = part.ask(_positions, np.column_stack([asked, chance])).T
    whole = int((~np.isnan(level)).sum())
    if whole < _FEWEST and whole < len(asked):
        return None
    curves = [_curve(u, shares) for u in columns if not np.isnan(u).all()]
    margins = np.stack(curves) if curves else np.empty((0, _PLACES))
    return Calibration(whole, shares, _curve(level, shares), margins, _CHANCE / math.sqrt(whole))


@torch.no_grad()
def _positions(field: PointDensity, given: NDArray[np.float64]) -> NDArray[np.float64]:
    """Levels of points (n, d), and their positions in every column: (n, 1 + d), NaN where there is none.

    ``given`` (n, d + 1 + d) holds the points, and uniform numbers that place equal values at random.
    """
    assert isinstance(field, Density)
    points, chance = given[:, : field.dim], given[:, field.dim :]
    drawn = drawn_log_densities(field, _DRAWS)
    at, whole = field.log_density(points), ~np.isnan(points).any(1)
    ends = [np.searchsorted(drawn, at, side) / _DRAWS for side in ("left", "right")]
    found = np.full(chance.shape, np.nan)
    found[whole, 0] = 1 - (ends[0] + chance[:, 0] * (ends[1] - ends[0]))[whole]
    for j, kind in enumerate(kinds_of(field)):
        there = ~np.isnan(points[:, j])
        if not kind.levels and there.any():
            found[there, j + 1] = _place(field.marginal([j]), points[there, j], kind, chance[there, j + 1])
    return found


def _place(
    alone: Density, x: NDArray[np.float64], kind: ColumnKind, chance: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The distribution function of one column at its values (n,); where it jumps, a random height."""
    upto = alone.cdf(torch.tensor(x[:, None])).numpy()
    if not kind.step and not kind.atoms:
        return np.asarray(upto)
    before = x - kind.step / 2 if kind.step else np.nextafter(x, -np.inf)
    return np.asarray(upto - chance * (upto - alone.cdf(torch.tensor(before[:, None])).numpy()))


def _curve(values: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of the values, NaN excepted, at or below each of the shares."""
    values = values[~np.isnan(values)]
    return np.searchsorted(np.sort(values), shares, side="right") / len(values)

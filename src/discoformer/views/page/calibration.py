"""Calibration: of the rows a fit has not seen, as many as it says should lie in the regions it names.

The level of a row is the share of the fitted density that is denser than it.  If the fit is right, levels of
new rows are uniform: the region that should hold 80 % of them does.  The same of every column alone, by its
distribution function.  All is asked of fits that have not seen the rows (see `folds`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.core.fields import Density, PointDensity
from discoformer.views.page.folds import Folds
from discoformer.views.page.unusual import density_levels

__all__ = ["Calibration", "calibrate"]

_PLACES = 101  # of the curves
_DRAWS = 4000  # of every fold, for its levels
_CHANCE = 1.36  # times 1 / sqrt(n): Kolmogorov's band, which holds 95 % of curves that are right


@dataclass(frozen=True)
class Calibration:
    """What held-out rows say about a fit.

    Attributes
    ----------
    rows : how many were asked
    shares : (k,), evenly spaced from 0 to 1
    inside : (k,), share of the rows in the region that should hold so many
    margins : (d, k), share of the values of a column below its quantile
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
    """Levels of the rows (n, d) that were cut into folds; None if the fits cannot be drawn from.

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
    curves = [_curve(u, shares) for u in part.ask(_positions, asked).T]
    return Calibration(len(asked), shares, curves[0], np.stack(curves[1:]), _CHANCE / math.sqrt(len(asked)))


@torch.no_grad()
def _positions(field: PointDensity, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Levels of points (n, d), and their places in every column: (n, 1 + d)."""
    assert isinstance(field, Density)
    table = density_levels(field, draws=_DRAWS)
    levels = 1 - np.interp(field.log_density(points), table, np.linspace(0, 1, len(table)))
    below = [field.marginal([j]).cdf(torch.tensor(points[:, [j]])).numpy() for j in range(points.shape[1])]
    return np.column_stack([levels, *below])


def _curve(values: NDArray[np.float64], shares: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of the values at or below each of the shares."""
    return np.searchsorted(np.sort(values), shares, side="right") / len(values)

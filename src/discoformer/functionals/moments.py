"""Means and covariances: in closed form where the density has them, else from draws.

Draws of a column are those of its margin.  So a column has the same mean and standard deviation in a density
and in its margins.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.columns.kinds import ColumnKind
from discoformer.columns.split import kinds_of
from discoformer.core.fields import Density
from discoformer.functionals.draws import draw

__all__ = ["column_moments", "covariance"]


@torch.no_grad()
def column_moments(density: Density) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation (d,) of every column, NaN for categories; on a circle of the directions.

    >>> from discoformer.baselines.kde import KDE
    >>> mean, std = column_moments(KDE(1.0).fit([[-1.0], [3.0]]))
    >>> mean.tolist(), (std**2).round(9).tolist()
    ([1.0], [5.0])
    """
    found = [_of_column(density, j, kind) for j, kind in enumerate(kinds_of(density))]
    mean, std = np.array(found).T
    return mean, std


@torch.no_grad()
def covariance(density: Density) -> NDArray[np.float64]:
    """Covariance (d, d), NaN for categories; the variances are those of `column_moments`, but on a circle.

    >>> from discoformer.baselines.kde import KDE
    >>> covariance(KDE(1.0).fit([[-1.0, 0.0], [1.0, 0.0]])).tolist()
    [[2.0, 0.0], [0.0, 1.0]]
    """
    known = density.moments()
    if known is not None:
        return np.asarray(known[1].cpu().numpy())
    points = draw(density).cpu().numpy()
    found = np.atleast_2d(np.cov(points, rowvar=False))
    kinds = kinds_of(density)
    _, std = column_moments(density)
    flat = np.array([kind.period == 0 for kind in kinds]) & np.isfinite(std)
    drawn = np.sqrt(found.diagonal())
    ratio = np.where(flat & (drawn > 0), std / np.where(drawn > 0, drawn, 1.0), 1.0)
    found = found * ratio[:, None] * ratio
    labels = [kind.levels > 0 for kind in kinds]
    found[labels], found[:, labels] = np.nan, np.nan
    return found


def _of_column(density: Density, column: int, kind: ColumnKind) -> tuple[float, float]:
    if kind.levels:
        return math.nan, math.nan
    if column not in density.support:  # left out as linear in others: it has no margin
        return _around(draw(density)[:, column].cpu(), kind)
    margin = density.marginal([column]) if density.dim > 1 else density
    known = None if kind.period else margin.moments()
    if known is None:
        return _around(draw(margin)[:, 0].cpu(), kind)
    return float(known[0]), float(known[1].sqrt())


def _around(draws: Tensor, kind: ColumnKind) -> tuple[float, float]:
    """Mean and standard deviation; on a circle those of the directions."""
    if not kind.period:
        return float(draws.mean()), float(draws.std(correction=0))
    turn = 2 * math.pi / kind.period
    angle = (draws - kind.origin) * turn
    east, north = float(angle.cos().mean()), float(angle.sin().mean())
    length = min(1.0, math.hypot(east, north))
    spread = math.sqrt(-2 * math.log(max(length, 1e-300))) / turn
    return kind.origin + math.atan2(north, east) / turn % kind.period, spread

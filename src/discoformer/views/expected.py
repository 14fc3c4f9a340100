"""What rows have in a column, against what was to be expected of them given the rest of the row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discoformer.core.checks import DataError, show_cell
from discoformer.detection.reasons import Reasons
from discoformer.views.panels import drawing
from discoformer.views.style import ACCENT, BAR, INK, MAX_POINTS, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_expected"]


def plot_expected(
    reasons: Reasons, column: Any, path: str | Path | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw the values of a column against the expected ones, with their intervals.

    Rows on the line are as expected; those beyond their interval stand out.

    Parameters
    ----------
    reasons : of the rows to draw: what `DiScoFormer.explain` says of them
    column : name of a column of numbers
    path : picture to write (png, pdf or svg); an existing one is replaced
    ax : where to draw

    Examples
    --------
    >>> from discoformer import DiScoFormer
    >>> x = np.random.default_rng(0).normal(size=(100, 2))
    >>> est = DiScoFormer(model="kde-scott").fit(x)
    >>> plot_expected(est.explain(x[:20]), "x1").get_ylabel()
    'x1'
    """
    columns = list(reasons.columns)
    if column not in columns:
        raise DataError(f"no column {show_cell(column)}: there are {', '.join(map(show_cell, columns))}")
    j = columns.index(column)
    rows = np.flatnonzero(np.isfinite(reasons.values[:, j]) & np.isfinite(reasons.low[:, j]))
    if not len(rows):
        raise DataError(f"column {show_cell(column)} has no intervals to draw: choose a column of numbers")
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), MAX_POINTS)).astype(np.int64)]
    value, expected, low, high = (
        part[rows, j] for part in (reasons.values, reasons.expected, reasons.low, reasons.high)
    )
    odd = (value < low) | (value > high)
    with drawing(ax, path) as place:
        axes = place.one((5.8, 5.0))
        fade = min(0.9, 60 / len(rows) + 0.15)
        axes.vlines(expected, low, high, color=BAR, linewidth=1.6, alpha=fade, zorder=1)
        ends = [min(expected.min(), value.min()), max(expected.max(), value.max())]
        axes.plot(ends, ends, color=MUTED, linewidth=1, zorder=2)
        axes.scatter(expected[~odd], value[~odd], s=12, color=INK, linewidth=0, alpha=fade, zorder=3)
        axes.scatter(expected[odd], value[odd], s=20, color=ACCENT, linewidth=0, zorder=4)
        name = str(column).replace("$", r"\$")
        inside = f"bars: {reasons.share:.0%} intervals; {int((~odd).sum())} of {len(rows)} rows inside"
        axes.set(xlabel=f"{name}, expected given the other columns", ylabel=name)
        axes.set_title(inside, loc="left", fontsize=8)
    return axes

"""Where a density is drawn: grids over the columns of a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["column_grid", "mesh", "note_hidden"]

_REACH = 5  # how far outliers must be from the middle 80% of a column to be cut off, in widths of it


def column_grid(values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Evenly spaced from a little below the smallest value to a little above the largest.

    Outliers would squeeze everything else.  So the grid stops short of them, if they are a single value on
    that side or at most one in a hundred.
    """
    ordered = np.sort(values)
    low, high = np.quantile(values, [0.1, 0.9])
    reach = _REACH * (high - low) if high > low else np.inf
    few = min(max(1, len(values) // 100), len(values) - 1)
    first = ordered[ordered >= min(ordered[few], low - reach)][0]
    last = ordered[ordered <= max(ordered[-1 - few], high + reach)][-1]
    margin = 0.12 * (last - first)
    return np.linspace(first - margin, last + margin, count)


def mesh(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """All points of a grid, (len(y) * len(x), 2)."""
    return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


def note_hidden(axes: Axes, sample: NDArray[np.float64], grids: Sequence[NDArray[np.float64]]) -> None:
    """Say above the panel how many rows lie beyond the grids of their columns."""
    hidden = np.zeros(len(sample), dtype=bool)
    for values, grid in zip(sample.T, grids, strict=False):
        hidden |= (values < grid[0]) | (values > grid[-1])
    if hidden.any():
        text = f"outside the picture: {hidden.sum()} of {len(sample)} rows"
        axes.set_title(text, loc="left", fontsize=8)

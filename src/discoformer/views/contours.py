"""Grids over the columns of a sample, and contours of a density that hold given shares of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discoformer.core.fields import PointDensity
from discoformer.views.style import colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "MASSES",
    "column_grid",
    "contour_levels",
    "explain_contours",
    "fill_contours",
    "mesh",
    "note_hidden",
]

_REACH = 5  # how far outliers must be from the middle 80% of a column to be cut off, in widths of it
MASSES = (0.95, 0.8, 0.65, 0.5, 0.35, 0.2, 0.05)  # shares of the sample inside the contours


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


def fill_contours(
    axes: Axes,
    field: PointDensity,
    at_sample: NDArray[np.float64],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Fill the contours that hold given shares of the sample, and return their levels."""
    log_density = field.log_density(mesh(x, y)).reshape(len(y), len(x))
    levels, masses = contour_levels(at_sample)
    highest = max(log_density.max(), levels[-1]) + 1
    axes.contourf(x, y, log_density, [*levels, highest], colors=[_share_colour(mass) for mass in masses])
    return levels


def explain_contours(figure: Figure, **place: Any) -> None:
    """Add a bar with the share of the sample inside each colour."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm, ListedColormap

    steps = range(len(MASSES) + 1)
    colours = ListedColormap([_share_colour(mass) for mass in MASSES])
    bar = figure.colorbar(ScalarMappable(BoundaryNorm(steps, len(MASSES)), colours), **place)
    bar.set_ticks(steps[:-1], labels=[f"{mass:.0%}" for mass in MASSES])
    bar.minorticks_off()
    bar.ax.tick_params(length=0)
    bar.set_label("share of the sample\ninside the contour")
    bar.outline.set_visible(False)


def contour_levels(at_sample: NDArray[np.float64]) -> tuple[NDArray[np.float64], list[float]]:
    """Increasing contour levels of the log density, and the shares of the sample they hold."""
    levels, first = np.unique(np.quantile(at_sample, [1 - mass for mass in MASSES]), return_index=True)
    return levels, [MASSES[i] for i in first]


def _share_colour(mass: float) -> tuple[float, float, float]:
    inside = MASSES.index(mass) / (len(MASSES) - 1)
    return colour(0.96 - 0.8 * inside, white=0.7 - 0.35 * inside)  # light enough for arrows

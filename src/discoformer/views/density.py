"""The density of one or two columns, with the sample and the score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discoformer.core.fields import PointDensity
from discoformer.views.contours import explain_contours, fill_contours
from discoformer.views.corner import draw_corner
from discoformer.views.grids import column_grid, mesh, note_hidden
from discoformer.views.panels import Panels, figure_of
from discoformer.views.style import ACCENT, CURVE, INK, thin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_density", "draw_line"]

_NINETY = 1.645  # standard deviations on either side


def draw_density(
    field: PointDensity, sample: NDArray[np.float64], names: Sequence[str], panels: Panels
) -> Axes | NDArray[np.object_]:
    """One column as a line, two as contours, more as a corner figure."""
    if field.dim > 2:
        return draw_corner(field, sample, names, panels)
    draw = draw_line if field.dim == 1 else _draw_contours
    return draw(field, sample, names, panels)


def draw_line(
    field: PointDensity,
    sample: NDArray[np.float64],
    names: Sequence[str],
    panels: Panels,
    band: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
) -> Axes:
    """Density of one column, with the sample as a rug and, given ``band``, a 90 % error band."""
    axes = panels.one((6.4, 4.0))
    grid = column_grid(sample[:, 0], 400)
    density = np.exp(field.log_density(grid[:, None]))
    note_hidden(axes, sample, [grid])
    axes.fill_between(grid, density, color=CURVE, alpha=0.12, linewidth=0)
    axes.plot(grid, density, color=CURVE, linewidth=2)
    rug, top = thin(sample)[:, 0], density.max()
    if band is not None:
        width = np.exp(_NINETY * band(grid[:, None]))
        axes.fill_between(grid, density / width, density * width, color=ACCENT, alpha=0.25, linewidth=0)
        axes.set_title("band: 90 % error bars", loc="right", fontsize=8)
        top = (density * width).max()
    fade = min(0.6, 60 / len(rug) + 0.08)
    axes.vlines(rug, -0.05 * top, -0.01 * top, color=INK, alpha=fade, linewidth=0.8)
    axes.set(xlabel=names[0], ylabel="density", xlim=(grid[0], grid[-1]), ylim=(-0.06 * top, 1.06 * top))
    return axes


def _draw_contours(
    field: PointDensity, sample: NDArray[np.float64], names: Sequence[str], panels: Panels
) -> Axes:
    """Density of two columns, with the sample and the score."""
    axes = panels.one((6.8, 5.4))
    x, y = column_grid(sample[:, 0], 120), column_grid(sample[:, 1], 120)
    shown = thin(sample)
    levels = fill_contours(axes, field, field.log_density(shown), x, y)
    axes.scatter(shown[:, 0], shown[:, 1], s=7, color=INK, linewidth=0, alpha=0.55)
    _draw_arrows(axes, field, x[6::9], y[6::9], levels[0])
    axes.set(xlabel=names[0], ylabel=names[1], xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    note_hidden(axes, sample, [x, y])
    explain_contours(figure_of(axes), ax=axes, pad=0.02)
    return axes


def _draw_arrows(
    axes: Axes, field: PointDensity, x: NDArray[np.float64], y: NDArray[np.float64], lowest: float
) -> None:
    """The score where the density is above the lowest contour.

    Columns differ in units, so the arrows show the gradient per width and height of the picture, which is
    perpendicular to the contours.  Lengths grow like its square root, so that short arrows stay visible.
    """
    points = mesh(x, y)
    log_density, score = field.estimate(points)
    inside = log_density >= lowest
    slope = score[inside] * [np.ptp(x), np.ptp(y)]
    length = np.linalg.norm(slope, axis=1, keepdims=True)
    arrows = slope / np.sqrt(np.where(length > 0, length, 1))
    longest = max(np.linalg.norm(arrows, axis=1).max(initial=0), 1e-300)
    axes.quiver(
        *points[inside].T, *arrows.T, color=INK, width=0.0032, scale=12 * longest, pivot="mid", zorder=3
    )

"""The density of one or two columns with the sample and the score; of more, every column and every pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discoformer.core.fields import Density, PointDensity
from discoformer.views.contours import MASSES, column_grid, explain_contours, fill_contours, mesh, note_hidden
from discoformer.views.panels import Panels, figure_of
from discoformer.views.style import ACCENT, BAR, CURVE, INK, MAX_COLUMNS, bin_count, thin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_corner", "draw_density", "draw_line"]

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


def draw_corner(
    field: PointDensity, sample: NDArray[np.float64], names: Sequence[str], panels: Panels
) -> NDArray[np.object_]:
    """The first columns on the diagonal, their pairs below it."""
    shown = thin(sample)
    count = min(len(names), MAX_COLUMNS)
    grid = panels.grid((1.9 * count + 1, 1.9 * count), count, count, sharex="col")
    whole = field.log_density(shown)
    order = np.argsort(-whole)  # unusual rows on top
    low = float(np.quantile(whole, 0.01))
    grids = [column_grid(sample[:, j], 60) for j in range(count)]
    note_hidden(grid[0, 0], sample, grids)
    points, pairs = None, False
    for i in range(count):
        for j in range(count):
            axes = grid[i, j]
            if j > i:
                axes.set_axis_off()
                continue
            if i == j:
                _draw_diagonal(axes, _marginal(field, [j]), shown[:, j], grids[j])
            elif (pair := _marginal(field, [j, i])) is not None:
                _draw_pair(axes, pair, shown[:, [j, i]], grids[j], grids[i])
                pairs = True
            else:
                points = axes.scatter(
                    shown[order, j], shown[order, i], c=whole[order], s=8, cmap="viridis", vmin=low
                )
                axes.set_ylim(grids[i][0], grids[i][-1])
            axes.locator_params(axis="x", nbins=4, prune="both")  # labels of neighbours do not touch
            if i == count - 1:
                axes.set_xlabel(names[j])
            if j == 0 and i > 0:
                axes.set_ylabel(names[i])
            if 0 < j < i:
                axes.tick_params(labelleft=False)
    figure = figure_of(grid[0, 0])
    figure.align_labels(grid.ravel().tolist())
    if pairs:  # the empty corner has room for the bar
        explain_contours(figure, cax=grid[0, -1].inset_axes((0.3, 0.0, 0.08, 1.0)))
    if points is not None:
        bar = figure.colorbar(points, ax=grid, shrink=0.6, pad=0.02, extend="min")
        bar.set_label("log density" + (f" (all {len(names)} columns)" if len(names) > count else ""))
        bar.outline.set_visible(False)
    return grid


def _draw_diagonal(
    axes: Axes, marginal: PointDensity | None, values: NDArray[np.float64], grid: NDArray[np.float64]
) -> None:
    """One column: a histogram, with the density over it if there is one."""
    seen = values[(values >= grid[0]) & (values <= grid[-1])]
    axes.hist(seen, bin_count(len(seen)), density=True, color=BAR, linewidth=0)
    if marginal is not None:
        fine = np.linspace(grid[0], grid[-1], 300)
        axes.plot(fine, np.exp(marginal.log_density(fine[:, None])), color=CURVE, linewidth=1.6)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlim(grid[0], grid[-1])


def _draw_pair(
    axes: Axes,
    field: PointDensity,
    sample: NDArray[np.float64],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
) -> None:
    """Two columns: contours that hold given shares of the sample, and the points outside them."""
    at_sample = field.log_density(sample)
    fill_contours(axes, field, at_sample, x, y)
    rest = at_sample < np.quantile(at_sample, 1 - MASSES[0])
    axes.scatter(sample[rest, 0], sample[rest, 1], s=5, color=INK, linewidth=0, alpha=0.6)
    axes.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))


def _marginal(field: PointDensity, columns: Sequence[int]) -> PointDensity | None:
    """The density of some columns, or None if the field has no marginals."""
    if len(columns) == field.dim:
        return field if list(columns) == list(range(field.dim)) else None
    return field.marginal(columns) if isinstance(field, Density) else None

"""Every column and every pair of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discoformer.core.fields import Density, PointDensity
from discoformer.views.contours import MASSES, explain_contours, fill_contours
from discoformer.views.grids import column_grid, note_hidden
from discoformer.views.panels import Panels, figure_of
from discoformer.views.style import BAR, CURVE, INK, MAX_COLUMNS, bin_count, thin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_corner"]


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

"""The regions of highest density that hold given shares of the mass, in one or two columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discoformer.core.checks import DataError
from discoformer.core.fields import Density, PointDensity, as_density
from discoformer.detection.levels import drawn_log_densities
from discoformer.views.contours import column_grid, mesh, note_hidden
from discoformer.views.panels import Panels
from discoformer.views.style import ACCENT, CURVE, INK, colour, thin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SHARES", "draw_levels", "region_edges"]

SHARES = (0.99, 0.9, 0.5)  # of the mass; the densest last
_APART = 1e-9  # edges differ, also where many draws have one density


def region_edges(density: Density) -> NDArray[np.float64]:
    """Log densities at the edges of the regions that hold `SHARES`, increasing; by draws.

    >>> from discoformer.baselines.kde import KDE
    >>> edges = region_edges(KDE(1.0).fit([[-1e-9], [1e-9]]))  # a normal law
    >>> out = np.sqrt(-2 * edges - np.log(2 * np.pi))  # as far as its quantiles
    >>> np.allclose(out, [2.576, 1.645, 0.674], atol=0.1)
    True
    """
    edges = np.quantile(drawn_log_densities(density), [1 - share for share in SHARES])
    return np.asarray(edges + _APART * np.arange(len(edges)))


def draw_levels(
    field: PointDensity, sample: NDArray[np.float64], names: Sequence[str], panels: Panels
) -> Axes:
    """Shaded regions, the densest the strongest; rows outside all of them stand out."""
    if field.dim > 2:
        raise DataError(
            "levels are drawn in one or two columns: choose them with --columns, or take est.marginal([...])"
        )
    axes = panels.one((6.4, 4.0) if field.dim == 1 else (6.4, 5.4))
    edges, shown = region_edges(as_density(field)), thin(sample)
    outside = field.log_density(shown) < edges[0]
    x = column_grid(sample[:, 0], 400 if field.dim == 1 else 160)
    if field.dim == 1:
        grids = [x]
        _shade_line(axes, field, x, edges)
        top = axes.get_ylim()[1]
        for rows, ink, strong in ((~outside, INK, _fade(shown)), (outside, ACCENT, 1.0)):
            axes.vlines(shown[rows, 0], -0.05 * top, -0.01 * top, color=ink, alpha=strong, linewidth=0.9)
        axes.set(ylabel="density", ylim=(-0.06 * top, top))
    else:
        y = column_grid(sample[:, 1], 160)
        grids = [x, y]
        log_density = field.log_density(mesh(x, y)).reshape(len(y), len(x))
        bands = [*edges, max(log_density.max(), edges[-1]) + 1]
        axes.contourf(x, y, log_density, bands, colors=[_strength(k) for k in range(len(SHARES))])
        axes.scatter(shown[~outside, 0], shown[~outside, 1], s=6, color=INK, linewidth=0, alpha=_fade(shown))
        axes.scatter(shown[outside, 0], shown[outside, 1], s=16, color=ACCENT, linewidth=0)
        axes.set(ylabel=names[1], ylim=(y[0], y[-1]))
    axes.set(xlabel=names[0], xlim=(x[0], x[-1]))
    note_hidden(axes, sample, grids)
    _explain(axes, f"{int(outside.sum())} of {len(shown)} rows outside")
    return axes


def _shade_line(axes: Axes, field: PointDensity, x: NDArray[np.float64], edges: NDArray[np.float64]) -> None:
    log_density = field.log_density(x[:, None])
    density = np.exp(log_density)
    for k, edge in enumerate(edges):
        inside = np.asarray(log_density >= edge)
        axes.fill_between(x, density, where=inside.tolist(), color=_strength(k), linewidth=0)
    axes.plot(x, density, color=CURVE, linewidth=1.5)
    axes.set_ylim(0, 1.06 * density.max())


def _explain(axes: Axes, told: str) -> None:
    """Which colour is which region."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    regions = [Patch(color=_strength(k), label=f"{share:.0%} of the mass") for k, share in enumerate(SHARES)]
    beyond = Line2D([], [], marker="o", linestyle="", color=ACCENT, markersize=4, label=told)
    axes.legend(handles=[*regions[::-1], beyond], fontsize=8, loc="best")


def _strength(k: int) -> tuple[float, float, float]:
    """The colour of a region, stronger for the denser ones."""
    return [colour(0.75, white=0.75), colour(0.5, white=0.5), colour(0.2, white=0.25)][k]


def _fade(shown: NDArray[np.float64]) -> float:
    return min(0.7, 80 / len(shown) + 0.12)

"""Pictures of a field: one call, one figure, whatever the dimension.

Colours are viridis throughout: ordered in lightness, so they survive colour blindness and grey prints.
Figures are made without pyplot, so no window, backend or global state is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discoformer.checks import DataError, check_points
from discoformer.extras import require
from discoformer.fields import Field
from discoformer.io import check_folder, replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["check_picture", "plot_density"]

SUFFIXES = (".png", ".pdf", ".svg")
MAX_POINTS = 2000  # points drawn; more only blacken the page
MAX_COLUMNS = 6  # panels of the pairs figure per side
MASSES = (0.95, 0.8, 0.65, 0.5, 0.35, 0.2, 0.05)  # shares of the sample inside the contours
INK = "#20303c"

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.edgecolor": "#8a949b",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "savefig.dpi": 150,
}


def check_picture(path: str | Path) -> str:
    """Format of a picture that can be written; call it before the work, not after.

    >>> check_picture("density.png")
    'png'
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise DataError(f"{path}: pictures end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    require("matplotlib", "plot", "drawing")
    check_folder(path)
    return suffix[1:]


def plot_density(
    field: Field,
    context: ArrayLike,
    columns: Sequence[str] | None = None,
    path: str | Path | None = None,
) -> Figure:
    """Draw the density of a field over the sample it was fitted to.

    One column: the density with the sample as a rug.  Two: filled contours that hold given shares of
    the sample, the sample, and the score as arrows.  More: scatter plots of all pairs of columns (the
    first six), coloured by the log density in all columns.

    Parameters
    ----------
    field : field over d columns
    context : (n, d), the sample
    columns : d names for the axes
    path : picture to write (png, pdf or svg); an existing one is replaced in one move

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from discoformer import KDE
    >>> sample = np.random.default_rng(0).normal(size=(100, 2))
    >>> len(plot_density(KDE().fit(sample), sample, ["a", "b"]).axes)
    2
    """
    require("matplotlib", "plot", "drawing")
    from matplotlib import rc_context

    sample = check_points(context, "context", dim=field.dim).numpy()
    names = list(columns) if columns is not None else [f"x{j}" for j in range(field.dim)]
    shown = sample[np.linspace(0, len(sample) - 1, min(len(sample), MAX_POINTS)).astype(int)]
    draw = {1: _draw_line, 2: _draw_contours}.get(field.dim, _draw_pairs)
    with rc_context(STYLE):
        figure = draw(field, shown, names)
        if path is not None:
            picture = check_picture(path)
            with replacing(path) as temporary:
                figure.savefig(temporary, format=picture)
    return figure


def _draw_line(field: Field, sample: NDArray[np.float64], names: Sequence[str]) -> Figure:
    """Density of one column, with the sample as a rug."""
    figure, axes = _figure(6.4, 4.0)
    grid = _grid(sample[:, 0], 400)
    density = np.exp(field.log_density(grid[:, None]))
    axes.fill_between(grid, density, color=_colour(0.45), alpha=0.25, linewidth=0)
    axes.plot(grid, density, color=_colour(0.3), linewidth=2)
    fade = min(0.6, 60 / len(sample) + 0.08)
    axes.vlines(
        sample[:, 0], -0.05 * density.max(), -0.01 * density.max(), color=INK, alpha=fade, linewidth=0.8
    )
    axes.set(xlabel=names[0], ylabel="density", ylim=(-0.06 * density.max(), 1.06 * density.max()))
    axes.margins(x=0)
    return figure


def _draw_contours(field: Field, sample: NDArray[np.float64], names: Sequence[str]) -> Figure:
    """Density of two columns, with the sample and the score."""
    figure, axes = _figure(6.8, 5.4)
    x, y = _grid(sample[:, 0], 120), _grid(sample[:, 1], 120)
    log_density = field.log_density(_mesh(x, y)).reshape(len(y), len(x))
    levels, masses = _levels(field.log_density(sample))
    colours = [_pale(1 - i / len(masses)) for i in range(len(masses))]
    filled = axes.contourf(
        x, y, log_density, [*levels, max(log_density.max(), levels[-1]) + 1], colors=colours
    )
    axes.scatter(sample[:, 0], sample[:, 1], s=7, color=INK, linewidth=0, alpha=0.55)
    _draw_arrows(axes, field, x[6::9], y[6::9], levels[0])
    axes.set(xlabel=names[0], ylabel=names[1], xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    bar = figure.colorbar(filled, ax=axes, pad=0.02, ticks=levels, spacing="uniform")
    bar.ax.set_yticklabels([f"{mass:.0%}" for mass in masses])
    bar.ax.tick_params(length=0)
    bar.set_label("share of the sample inside the contour")
    bar.outline.set_visible(False)
    return figure


def _draw_arrows(
    axes: Axes, field: Field, x: NDArray[np.float64], y: NDArray[np.float64], lowest: float
) -> None:
    """The score where the density is above the lowest contour.

    The axes have units of their own, so the arrows show the gradient per page width and height: they
    stand upright on the contours.  Lengths grow like the square root, to keep both ends readable.
    """
    points = _mesh(x, y)
    log_density, score = field.estimate(points)
    assert log_density is not None
    inside = log_density >= lowest
    slope = score[inside] * [np.ptp(x), np.ptp(y)]
    length = np.linalg.norm(slope, axis=1, keepdims=True)
    arrows = slope / np.sqrt(np.where(length > 0, length, 1))
    longest = max(np.linalg.norm(arrows, axis=1).max(initial=0), 1e-300)
    axes.quiver(
        *points[inside].T, *arrows.T, color=INK, width=0.0032, scale=12 * longest, pivot="mid", zorder=3
    )


def _draw_pairs(field: Field, sample: NDArray[np.float64], names: Sequence[str]) -> Figure:
    """All pairs of the first columns, coloured by the log density in all columns."""
    from matplotlib.figure import Figure

    count = min(len(names), MAX_COLUMNS)
    log_density = field.log_density(sample)
    order = np.argsort(-log_density)  # unusual rows on top
    low = float(np.quantile(log_density, 0.01))
    figure = Figure(figsize=(1.9 * count + 1, 1.9 * count), layout="constrained")
    panels = figure.subplots(count - 1, count - 1, sharex="col", sharey="row", squeeze=False)
    for i in range(count - 1):
        for j in range(count - 1):
            axes = panels[i, j]
            if j > i:
                axes.set_axis_off()
                continue
            points = axes.scatter(
                sample[order, j], sample[order, i + 1], c=log_density[order], s=10, cmap="viridis", vmin=low
            )
            if i == count - 2:
                axes.set_xlabel(names[j])
            if j == 0:
                axes.set_ylabel(names[i + 1])
    bar = figure.colorbar(points, ax=panels, shrink=0.6, pad=0.02, extend="min")
    bar.set_label("log density" + (f" (all {len(names)} columns)" if len(names) > count else ""))
    bar.outline.set_visible(False)
    return figure


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _colour(position: float) -> NDArray[np.float64]:
    from matplotlib import colormaps

    return np.array(colormaps["viridis"](position)[:3])


def _pale(position: float) -> NDArray[np.float64]:
    """Viridis mixed with white, so that ink on it can be read."""
    return 0.6 * _colour(position) + 0.4


def _grid(values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Evenly spaced from a little below the smallest value to a little above the largest."""
    margin = 0.12 * np.ptp(values)
    return np.linspace(values.min() - margin, values.max() + margin, count)


def _mesh(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """All points of a grid, (len(y) * len(x), 2)."""
    return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


def _levels(at_sample: NDArray[np.float64]) -> tuple[NDArray[np.float64], list[float]]:
    """Increasing contour levels of the log density, and the shares of the sample they hold."""
    levels, first = np.unique(np.quantile(at_sample, [1 - mass for mass in MASSES]), return_index=True)
    return levels, [MASSES[i] for i in first]

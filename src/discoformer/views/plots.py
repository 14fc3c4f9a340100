"""Pictures of a field: one call, one figure, whatever the dimension.

Colours are viridis throughout: ordered in lightness, so they survive colour blindness and grey prints.
Figures are made without pyplot, so no window, backend or global state is touched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discoformer.columns.support import on_support
from discoformer.core.checks import DataError, check_points
from discoformer.core.extras import require
from discoformer.core.fields import Field
from discoformer.core.files import check_folder, replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Drawing = Callable[[Field, NDArray[np.float64], Sequence[str]], Figure]

__all__ = ["VIEWS", "check_picture", "plot", "plot_corner", "plot_density", "plot_outliers"]

VIEWS = ("density", "corner", "outliers")
SUFFIXES = (".png", ".pdf", ".svg")
MAX_POINTS = 2000  # points drawn; more only blacken the page
MAX_COLUMNS = 6  # panels of the corner figure per side
UNUSUAL = 10  # rows marked as such
MASSES = (0.95, 0.8, 0.65, 0.5, 0.35, 0.2, 0.05)  # shares of the sample inside the contours
REACH = 5  # how far pictures go beyond the middle 80% of a column, in its width
INK = "#20303c"
ACCENT = "#d1495b"

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.edgecolor": "#8a949b",
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.formatter.limits": (-3, 5),
    "axes.formatter.use_mathtext": True,
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


def plot(
    field: Field,
    context: ArrayLike,
    columns: Sequence[str] | None = None,
    path: str | Path | None = None,
    *,
    view: str = "density",
) -> Figure:
    """Draw a field over the sample it was fitted to.

    Parameters
    ----------
    field : field over d columns; columns that were left out of the fit are left out of the picture
    context : (n, d), the sample
    columns : d names for the axes
    path : picture to write (png, pdf or svg); an existing one is replaced in one move
    view : "density" is `plot_density`, "corner" `plot_corner`, "outliers" `plot_outliers`

    Returns
    -------
    matplotlib.figure.Figure
    """
    if view not in VIEWS:
        raise DataError(f"view={view!r} is unknown: use one of {', '.join(VIEWS)}")
    require("matplotlib", "plot", "drawing")
    from matplotlib import rc_context

    picture = None if path is None else check_picture(path)
    names = list(columns) if columns is not None else [f"x{j}" for j in range(field.dim)]
    sample = check_points(context, "context", dim=field.dim).numpy()
    field, kept = on_support(field)
    draw: Drawing = {"corner": _draw_corner, "outliers": _draw_outliers}.get(view, _draw_density)
    with rc_context(STYLE):
        shown = [names[j].replace("$", r"\$") for j in kept]  # a name is no formula
        figure = draw(field, sample[:, kept], shown)
        if path is not None:
            with replacing(path) as temporary:
                figure.savefig(temporary, format=picture)
    return figure


def plot_density(
    field: Field,
    context: ArrayLike,
    columns: Sequence[str] | None = None,
    path: str | Path | None = None,
) -> Figure:
    """Draw the density of a field over the sample it was fitted to; parameters as for `plot`.

    One column: the density with the sample as a rug.  Two: filled contours that hold given shares of
    the sample, the sample, and the score as arrows.  More: `plot_corner`.

    Examples
    --------
    >>> from discoformer import KDE
    >>> sample = np.random.default_rng(0).normal(size=(100, 2))
    >>> len(plot_density(KDE().fit(sample), sample, ["a", "b"]).axes)
    2
    """
    return plot(field, context, columns, path, view="density")


def plot_corner(
    field: Field,
    context: ArrayLike,
    columns: Sequence[str] | None = None,
    path: str | Path | None = None,
) -> Figure:
    """Draw every column and every pair of columns (of the first six); parameters as for `plot`.

    Where the field has marginals, as the mixture models have: their densities on the diagonal and their
    contours below it.  Otherwise histograms, and the sample coloured by the log density in all columns.

    Examples
    --------
    >>> from discoformer import KDE
    >>> sample = np.random.default_rng(0).normal(size=(100, 3))
    >>> len(plot_corner(KDE().fit(sample), sample).axes)
    10
    """
    return plot(field, context, columns, path, view="corner")


def plot_outliers(
    field: Field,
    context: ArrayLike,
    columns: Sequence[str] | None = None,
    path: str | Path | None = None,
) -> Figure:
    """Draw which rows are unusual, and in which columns; parameters as for `plot`.

    Above the log density of all rows, the ten lowest marked.  Below the values of these ten rows, coloured
    by how far each is from the column's median, in units of its median absolute deviation.

    Examples
    --------
    >>> from discoformer import KDE
    >>> sample = np.random.default_rng(0).normal(size=(100, 3))
    >>> len(plot_outliers(KDE().fit(sample), sample).axes)
    3
    """
    return plot(field, context, columns, path, view="outliers")


def _draw_density(field: Field, sample: NDArray[np.float64], names: Sequence[str]) -> Figure:
    draw = {1: _draw_line, 2: _draw_contours}.get(field.dim, _draw_corner)
    return draw(field, sample, names)


def _draw_line(field: Field, sample: NDArray[np.float64], names: Sequence[str]) -> Figure:
    """Density of one column, with the sample as a rug."""
    figure, axes = _figure(6.4, 4.0)
    grid = _grid(sample[:, 0], 400)
    density = np.exp(field.log_density(grid[:, None]))
    _note_hidden(axes, sample, [grid])
    axes.fill_between(grid, density, color=_colour(0.45), alpha=0.25, linewidth=0)
    axes.plot(grid, density, color=_colour(0.3), linewidth=2)
    rug, top = _shown(sample)[:, 0], density.max()
    fade = min(0.6, 60 / len(rug) + 0.08)
    axes.vlines(rug, -0.05 * top, -0.01 * top, color=INK, alpha=fade, linewidth=0.8)
    axes.set(xlabel=names[0], ylabel="density", xlim=(grid[0], grid[-1]), ylim=(-0.06 * top, 1.06 * top))
    return figure


def _draw_contours(field: Field, sample: NDArray[np.float64], names: Sequence[str]) -> Figure:
    """Density of two columns, with the sample and the score."""
    figure, axes = _figure(6.8, 5.4)
    x, y = _grid(sample[:, 0], 120), _grid(sample[:, 1], 120)
    shown = _shown(sample)
    levels = _fill_contours(axes, field, field.log_density(shown), x, y)
    axes.scatter(shown[:, 0], shown[:, 1], s=7, color=INK, linewidth=0, alpha=0.55)
    _draw_arrows(axes, field, x[6::9], y[6::9], levels[0])
    axes.set(xlabel=names[0], ylabel=names[1], xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    _note_hidden(axes, sample, [x, y])
    _explain_contours(figure, ax=axes, pad=0.02)
    return figure


def _fill_contours(
    axes: Axes,
    field: Field,
    at_sample: NDArray[np.float64],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Contours at the levels that hold given shares of the sample, and these levels."""
    log_density = field.log_density(_mesh(x, y)).reshape(len(y), len(x))
    levels, masses = _levels(at_sample)
    highest = max(log_density.max(), levels[-1]) + 1
    axes.contourf(x, y, log_density, [*levels, highest], colors=[_share_colour(mass) for mass in masses])
    return levels


def _explain_contours(figure: Figure, **place: Any) -> None:
    """A bar that says which colour holds which share of the sample."""
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


def _draw_corner(field: Field, sample: NDArray[np.float64], names: Sequence[str]) -> Figure:
    """The first columns on the diagonal, their pairs below it."""
    from matplotlib.figure import Figure

    shown = _shown(sample)
    count = min(len(names), MAX_COLUMNS)
    figure = Figure(figsize=(1.9 * count + 1, 1.9 * count), layout="constrained")
    panels = figure.subplots(count, count, sharex="col", squeeze=False)
    whole = field.log_density(shown)
    order = np.argsort(-whole)  # unusual rows on top
    low = float(np.quantile(whole, 0.01))
    grids = [_grid(sample[:, j], 60) for j in range(count)]
    _note_hidden(panels[0, 0], sample, grids)
    points, pairs = None, False
    for i in range(count):
        for j in range(count):
            axes = panels[i, j]
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
            axes.locator_params(axis="x", nbins=4, prune="both")  # neighbours' labels do not meet
            if i == count - 1:
                axes.set_xlabel(names[j])
            if j == 0 and i > 0:
                axes.set_ylabel(names[i])
            if 0 < j < i:
                axes.tick_params(labelleft=False)
    figure.align_labels()
    if pairs:  # the corner has room for it
        _explain_contours(figure, cax=panels[0, -1].inset_axes((0.3, 0.0, 0.08, 1.0)))
    if points is not None:
        bar = figure.colorbar(points, ax=panels, shrink=0.6, pad=0.02, extend="min")
        bar.set_label("log density" + (f" (all {len(names)} columns)" if len(names) > count else ""))
        bar.outline.set_visible(False)
    return figure


def _draw_diagonal(
    axes: Axes, marginal: Field | None, values: NDArray[np.float64], grid: NDArray[np.float64]
) -> None:
    """One column: a histogram, with the density over it if there is one."""
    seen = values[(values >= grid[0]) & (values <= grid[-1])]
    axes.hist(seen, _bins(len(seen)), density=True, color=_pale(0.6), linewidth=0)
    if marginal is not None:
        fine = np.linspace(grid[0], grid[-1], 300)
        axes.plot(fine, np.exp(marginal.log_density(fine[:, None])), color=_colour(0.2), linewidth=1.6)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlim(grid[0], grid[-1])


def _draw_pair(
    axes: Axes, field: Field, sample: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.float64]
) -> None:
    """Two columns: contours that hold given shares of the sample, and the sample outside of them."""
    at_sample = field.log_density(sample)
    _fill_contours(axes, field, at_sample, x, y)
    rest = at_sample < np.quantile(at_sample, 1 - MASSES[0])
    axes.scatter(sample[rest, 0], sample[rest, 1], s=5, color=INK, linewidth=0, alpha=0.6)
    axes.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))


def _draw_outliers(field: Field, sample: NDArray[np.float64], names: Sequence[str]) -> Figure:
    """The log density of all rows, and the values of the most unusual ones."""
    from matplotlib.figure import Figure

    log_density = field.log_density(sample)
    rows = np.argsort(log_density, kind="stable")[: min(UNUSUAL, len(sample))]
    count = min(len(names), 2 * MAX_COLUMNS)
    lines = max(len(rows), 6)  # room for the label of the colour bar
    figure = Figure(figsize=(max(6.4, 0.9 * count + 2), 3.2 + 0.32 * lines), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=[2.4, 0.3 * lines + 0.4])

    bins = above.hist(log_density, _bins(4 * len(sample)), color=_pale(0.45), linewidth=0)
    height = float(np.max(bins[0]))
    above.vlines(log_density[rows], 0, 0.25 * height, color=ACCENT, linewidth=1.4)
    above.set(
        xlabel="log density", ylabel="rows", title=f"the {len(rows)} lowest of {len(sample)} are marked"
    )
    above.locator_params(axis="y", integer=True)  # rows

    middle = np.median(sample, axis=0)
    spread = 1.4826 * np.median(np.abs(sample - middle), axis=0)
    spread = np.where(spread > 0, spread, np.std(sample, axis=0))
    distance = ((sample[rows] - middle) / spread)[:, :count]
    image = below.imshow(distance, cmap="PuOr_r", vmin=-5, vmax=5, aspect="auto")
    light = image.to_rgba(distance)[..., :3] @ [0.299, 0.587, 0.114]
    for r, row in enumerate(rows):
        for c in range(count):
            ink = INK if light[r, c] > 0.5 else "white"
            below.text(c, r, f"{sample[row, c]:.4g}", ha="center", va="center", color=ink, fontsize=8)
    below.set_xticks(range(count), list(names[:count]))
    if count * max(map(len, names[:count])) > 50:  # side by side they would meet
        below.set_xticks(range(count), list(names[:count]), rotation=30, ha="right", rotation_mode="anchor")
    below.set_yticks(range(len(rows)), [f"row {row}" for row in rows])
    below.tick_params(length=0)
    below.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=below, pad=0.02, extend="both")
    bar.set_label("from the median, in\nrobust standard deviations")
    bar.outline.set_visible(False)
    return figure


def _marginal(field: Field, columns: Sequence[int]) -> Field | None:
    """The field of some columns, if this kind of field has marginals."""
    if len(columns) == field.dim:
        return field if list(columns) == list(range(field.dim)) else None
    marginal = getattr(field, "marginal", None)
    try:
        return None if marginal is None else marginal(columns)
    except DataError:  # a wrapped field without marginals
        return None


def _shown(sample: NDArray[np.float64]) -> NDArray[np.float64]:
    rows = np.linspace(0, len(sample) - 1, min(len(sample), MAX_POINTS)).astype(np.int64)
    return np.asarray(sample[rows])


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _colour(position: float, white: float = 0.0) -> tuple[float, float, float]:
    from matplotlib import colormaps

    red, green, blue, _ = colormaps["viridis"](position)
    return (
        white + (1 - white) * float(red),
        white + (1 - white) * float(green),
        white + (1 - white) * float(blue),
    )


def _pale(position: float) -> tuple[float, float, float]:
    """Viridis mixed with white, so that ink on it can be read."""
    return _colour(position, white=0.4)


def _share_colour(mass: float) -> tuple[float, float, float]:
    return _pale(1 - MASSES.index(mass) / len(MASSES))


def _bins(count: int) -> int:
    return min(40, max(8, math.isqrt(count)))


def _grid(values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Evenly spaced from a little below the smallest value to a little above the largest.

    Wild values would leave nothing else to see: the grid ends before them, if they are no more than one
    in a hundred, or one, on a side.
    """
    ordered = np.sort(values)
    low, high = np.quantile(values, [0.1, 0.9])
    reach = REACH * (high - low) if high > low else np.inf
    wild = min(max(1, len(values) // 100), len(values) - 1)
    first = ordered[ordered >= min(ordered[wild], low - reach)][0]
    last = ordered[ordered <= max(ordered[-1 - wild], high + reach)][-1]
    margin = 0.12 * (last - first)
    return np.linspace(first - margin, last + margin, count)


def _note_hidden(axes: Axes, sample: NDArray[np.float64], grids: Sequence[NDArray[np.float64]]) -> None:
    """Say how many rows are beyond the grids of the columns."""
    hidden = np.zeros(len(sample), dtype=bool)
    for values, grid in zip(sample.T, grids, strict=False):
        hidden |= (values < grid[0]) | (values > grid[-1])
    if hidden.any():
        text = f"outside the picture: {hidden.sum()} of {len(sample)} rows"
        axes.set_title(text, loc="left", fontsize=8)


def _mesh(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """All points of a grid, (len(y) * len(x), 2)."""
    return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


def _levels(at_sample: NDArray[np.float64]) -> tuple[NDArray[np.float64], list[float]]:
    """Increasing contour levels of the log density, and the shares of the sample they hold."""
    levels, first = np.unique(np.quantile(at_sample, [1 - mass for mass in MASSES]), return_index=True)
    return levels, [MASSES[i] for i in first]

"""Pictures of a field: one call, one picture, whatever the dimension.

Without ``path`` and ``ax`` the figure is pyplot's, which notebooks show by themselves and scripts by
`plt.show()`.  With ``path`` it only goes to a file: no window, backend or global state is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discoformer.columns.split import kinds_of
from discoformer.core.checks import DataError, check_points
from discoformer.core.composed import on_support
from discoformer.core.fields import Density, Field, PointDensity, as_density, as_point_density
from discoformer.detection.reasons import Words
from discoformer.views.density import draw_corner, draw_density, draw_line
from discoformer.views.levels import draw_levels
from discoformer.views.outliers import draw_outliers
from discoformer.views.panels import Panels, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    Drawing = Callable[[PointDensity, NDArray[np.float64], Sequence[str], Panels], Axes | NDArray[np.object_]]

Band = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Standard deviations (m,) of the log density at points (m, d)."""

__all__ = ["VIEWS", "Band", "plot", "plot_corner", "plot_density", "plot_levels", "plot_outliers"]

VIEWS = ("density", "corner", "outliers", "levels")


def plot(
    field: Field,
    context: ArrayLike,
    columns: Sequence[str] | None = None,
    path: str | Path | None = None,
    *,
    view: str = "density",
    ax: Axes | None = None,
    band: Band | None = None,
    words: Words | None = None,
) -> Axes | NDArray[np.object_]:
    """Draw a field over the sample it was fitted to.

    Parameters
    ----------
    field : field over d columns; columns left out of the fit are left out of the picture, and so are
        categories, except in the outlier view
    context : (n, d), the sample; rows with gaps are not drawn, except in the outlier view
    columns : d names for the axes
    path : picture to write (png, pdf or svg); an existing one is replaced
    view : "density" is `plot_density`, "corner" `plot_corner`, "outliers" `plot_outliers`, "levels"
        `plot_levels`
    ax : where to draw.  Pictures of several panels fill its place in the figure
    band : function that gives standard deviations of the log density at points (m, d), drawn as a 90 % band
        around the density of one column; such as ``lambda x: est.estimate(x, std=True).log_density_std``
    words : function that says what a number (column, value) stands for in the outlier view: labels, dates;
        ``est.explain(X).words`` is one.  By default numbers, in digits that tell those of a column apart

    Returns
    -------
    Axes, or an array of them for pictures of several panels

    Examples
    --------
    >>> from discoformer import KDE
    >>> sample = np.random.default_rng(0).normal(size=(100, 1))
    >>> plot(KDE().fit(sample), sample, ["age"]).get_xlabel()
    'age'
    """
    if view not in VIEWS:
        raise DataError(f"view={view!r} is unknown: use one of {', '.join(VIEWS)}")
    names = list(columns) if columns is not None else [f"x{j}" for j in range(field.dim)]
    field, kept = on_support(as_point_density(field))
    gaps = isinstance(field, Density) and field.gaps
    sample = check_points(context, "context", dim=len(names), gaps=gaps).numpy()
    if view != "outliers":
        field, kept, sample = _numbers(field, kept, sample)
    drawings: dict[str, Drawing] = {"corner": draw_corner, "levels": draw_levels}
    shown = [names[j].replace("$", r"\$") for j in kept]  # names are not formulas
    with drawing(ax, path) as place:
        if band is not None and view == "density" and field.dim == sample.shape[1] == 1:
            return draw_line(field, sample, shown, place, band)
        if view == "outliers":
            own = None if words is None else lambda j, value: words(kept[j], value)
            return draw_outliers(field, sample[:, kept], shown, place, own)
        return drawings.get(view, draw_density)(field, sample[:, kept], shown, place)


def _numbers(
    field: PointDensity, kept: list[int], sample: NDArray[np.float64]
) -> tuple[PointDensity, list[int], NDArray[np.float64]]:
    """The density of the columns of numbers, these columns, and the rows without gaps in them."""
    numbers = [place for place, kind in enumerate(kinds_of(field)) if kind.kind != "category"]
    if not numbers:
        raise DataError("no column of numbers to draw: `discoformer report` shows labels as well")
    if len(numbers) < field.dim:
        field, kept = as_density(field).marginal(numbers), [kept[place] for place in numbers]
    whole = sample[~np.isnan(sample[:, kept]).any(1)]
    if not len(whole):
        raise DataError("every row has a gap in the columns to draw: choose some with --columns")
    return field, kept, whole


def plot_density(
    field: Field,
    context: ArrayLike,
    columns: Sequence[str] | None = None,
    path: str | Path | None = None,
    *,
    ax: Axes | None = None,
) -> Axes | NDArray[np.object_]:
    """Draw the density of a field over the sample it was fitted to; parameters as for `plot`.

    One column: the density, with the sample as a rug.  Two: contours that hold given shares of the sample,
    the sample itself, and the score as arrows.  More: `plot_corner`.

    Examples
    --------
    >>> from discoformer import KDE
    >>> sample = np.random.default_rng(0).normal(size=(100, 2))
    >>> plot_density(KDE().fit(sample), sample, ["a", "b"]).get_ylabel()
    'b'
    """
    return plot(field, context, columns, path, view="density", ax=ax)


def plot_corner(
    field: Field,
    context: ArrayLike,
    columns: Sequence[str] | None = None,
    path: str | Path | None = None,
    *,
    ax: Axes | None = None,
) -> NDArray[np.object_]:
    """Draw every column and every pair of columns (of the first six); parameters as for `plot`.

    If the field has marginals, as mixtures do: their densities on the diagonal and their contours below.
    Otherwise: histograms, and the sample coloured by the log density in all columns.

    Examples
    --------
    >>> from discoformer import KDE
    >>> sample = np.random.default_rng(0).normal(size=(100, 3))
    >>> plot_corner(KDE().fit(sample), sample).shape
    (3, 3)
    """
    return np.asarray(plot(field, context, columns, path, view="corner", ax=ax))


def plot_levels(
    field: Field,
    context: ArrayLike,
    columns: Sequence[str] | None = None,
    path: str | Path | None = None,
    *,
    ax: Axes | None = None,
) -> Axes | NDArray[np.object_]:
    """Draw the regions of highest density that hold 50, 90 and 99 % of the mass; parameters as for `plot`.

    Of one or two columns; of more, take a margin of the field.  Rows of the sample outside all regions
    stand out.

    Examples
    --------
    >>> from discoformer import KDE
    >>> sample = np.random.default_rng(0).normal(size=(100, 2))
    >>> plot_levels(KDE().fit(sample), sample, ["a", "b"]).get_ylabel()
    'b'
    """
    return plot(field, context, columns, path, view="levels", ax=ax)


def plot_outliers(
    field: Field,
    context: ArrayLike,
    columns: Sequence[str] | None = None,
    path: str | Path | None = None,
    *,
    ax: Axes | None = None,
    words: Words | None = None,
) -> NDArray[np.object_]:
    """Draw which rows are unusual, and in which columns; parameters as for `plot`.

    Top: the log density of all rows, each by the fit without it, with the ten lowest marked.  Bottom: the
    values of these ten rows, each above what was expected given the row's other values, coloured by surprise
    (`discoformer.detection.reasons`).  For a field without conditional distributions, the colour is the
    distance from the median.

    Examples
    --------
    >>> from discoformer import KDE
    >>> sample = np.random.default_rng(0).normal(size=(100, 3))
    >>> above, below = plot_outliers(KDE().fit(sample), sample)
    >>> above.get_xlabel()
    'log density'
    """
    return np.asarray(plot(field, context, columns, path, view="outliers", ax=ax, words=words))

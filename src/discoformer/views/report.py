"""One page about a table: what is in it, how it is distributed, which rows are unusual.

The page is a single HTML string with its style and pictures inside: nothing is fetched when it is opened.
"""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discoformer import __version__
from discoformer.api.fitting import fit_sample
from discoformer.core.extras import require
from discoformer.core.fields import Method, PointDensity, as_point_density
from discoformer.data.files import Table, few_values
from discoformer.views.plots import plot
from discoformer.views.style import MAX_COLUMNS
from discoformer.views.summary import summarize

__all__ = ["make_report"]


def make_report(
    table: Table,
    *,
    model: str | Path | Method = "default",
    bounds: object = None,
    title: str = "data",
    progress: Callable[[Any], Iterable[Any]] = iter,
) -> str:
    """The page about a table, as HTML.

    Parameters
    ----------
    table : the data
    model, bounds : as for `discoformer.DiScoFormer`
    title : of the page
    progress : as for `discoformer.evaluation.held_out.held_out_log_likelihood`

    Examples
    --------
    >>> import numpy as np
    >>> sample = np.random.default_rng(0).normal(size=(40, 2))
    >>> make_report(Table(sample, ("a", "b")), model="kde-scott").startswith("<!doctype html>")
    True
    """
    for package in ("jinja2", "matplotlib"):
        require(package, "report", "a report")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = fit_sample(table.values, model, bounds=bounds, names=table.names)
        if note := few_values(table):
            warnings.warn(note, stacklevel=2)
    field = as_point_density(fitted.field)
    return _render(
        title=title,
        notes=[str(warning.message) for warning in caught],
        summary=summarize(table, fitted, progress),
        corner=_draw(field, table, "corner", MAX_COLUMNS),
        outliers=_draw(field, table, "outliers", 2 * MAX_COLUMNS),
        version=__version__,
    )


@dataclass(frozen=True)
class _Picture:
    """A picture for the page.

    Attributes
    ----------
    view : what it shows
    width : in pixels of a page, of which 96 are an inch: letters are as large as those of the page
    data : the PNG file in base64
    shown, columns : how many columns it can show, and how many the fit has
    """

    view: str
    width: int
    data: str
    shown: int
    columns: int


def _draw(field: PointDensity, table: Table, view: str, most: int) -> _Picture:
    figure = plot(field, table.values, [_shorten(name) for name in table.names], view=view)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=144)
    data = base64.b64encode(buffer.getvalue()).decode()
    return _Picture(view, round(96 * figure.get_figwidth()), data, most, len(field.support))


def _shorten(name: str, most: int = 18) -> str:
    """A name that fits under a panel: its beginning and end.

    >>> _shorten("temperature of the water at noon")
    'temperatu…r at noon'
    """
    return name if len(name) <= most else f"{name[: most // 2]}…{name[-(most // 2) :]}"


def _render(**values: Any) -> str:
    """Fill in the template; text is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("discoformer.views"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters.update(number="{:.4g}".format, fixed="{:.2f}".format, measured=_measured)
    return environment.get_template("report.html.j2").render(values) + "\n"


def _measured(value: tuple[float, float]) -> str:
    """A number with its error; three decimals unless it is huge.

    >>> _measured((-1.5, 0.25)), _measured((-2.5e16, 1.0))
    ('-1.500 ± 0.250', '-2.5e+16 ± 1')
    """
    return ("{:.3f} ± {:.3f}" if abs(value[0]) < 1e6 else "{:.3g} ± {:.3g}").format(*value)

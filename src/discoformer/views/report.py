"""One page about a table: what is odd in it, how it is distributed, what depends on what.

The page is a single HTML string with its style, its scripts and the fitted density inside: it answers in the
browser, and nothing is fetched when it is opened.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from discoformer import __version__
from discoformer.api.fitting import fit_sample
from discoformer.core.extras import require
from discoformer.core.fields import Method, as_point_density
from discoformer.data.files import Table, few_values
from discoformer.views.page.headline import headline
from discoformer.views.page.payload import MAX_ROWS, page_data
from discoformer.views.page.render import render_page
from discoformer.views.page.summary import summarize

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
    model, bounds : as for `discoformer.DiScoFormer`; live pictures need a mixture model, which the default is
    title : of the page
    progress : called with the list of folds, iterates over them; for a progress bar

    Examples
    --------
    >>> import numpy as np
    >>> sample = np.random.default_rng(0).normal(size=(40, 2))
    >>> make_report(Table(sample, ("a", "b")), model="default").startswith("<!doctype html>")
    True
    """
    require("jinja2", "report", "a report")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = fit_sample(table.values, model, weights=table.weights, bounds=bounds, names=table.names)
        if note := few_values(table):
            warnings.warn(note, stacklevel=2)
    field = as_point_density(fitted.field)
    summary = summarize(table, fitted, progress)
    return render_page(
        title=title,
        notes=list(dict.fromkeys(str(warning.message) for warning in caught)),
        summary=summary,
        points=headline(summary),
        data=page_data(table, field, fitted.bounds, summary),
        most_rows=MAX_ROWS,
        version=__version__,
    )

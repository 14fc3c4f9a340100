"""One page about a table: what is odd in it, how it is distributed, what depends on what.

The page is a single HTML string with its style, its scripts and the fitted density inside.  It answers in the
browser, and nothing is fetched when it is opened.
"""

from __future__ import annotations

import warnings
from pathlib import Path

from discoformer import __version__
from discoformer.api.fitting import fit_table
from discoformer.core.extras import require
from discoformer.core.fields import Method, as_point_density
from discoformer.core.progress import Advance, silent
from discoformer.core.threads import team
from discoformer.data.files import Table
from discoformer.views.page.headline import headline
from discoformer.views.page.payload import MAX_ROWS, page_data
from discoformer.views.page.render import render_page
from discoformer.views.page.summary import STEPS as SUMMARY_STEPS
from discoformer.views.page.summary import summarize

__all__ = ["STEPS", "make_report"]

STEPS = 1 + SUMMARY_STEPS


@team()
def make_report(
    table: Table,
    *,
    model: str | Path | Method = "default",
    bounds: object = None,
    title: str = "data",
    advance: Advance = silent,
) -> str:
    """The page about a table, as HTML.

    Parameters
    ----------
    table : the data; it may have gaps and, with a schema and a model that takes them, columns of every kind
    model, bounds : as for `discoformer.DiScoFormer`; live pictures need a mixture model, which the default is
    title : of the page
    advance : advances a progress bar of `STEPS` steps, and says what comes next

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
        advance(0, f"fitting {len(table.values):,} rows")
        fitted = fit_table(table, model, bounds)
    field = as_point_density(fitted.field)
    advance()
    summary = summarize(table, fitted, advance)
    advance(0, "writing")
    return render_page(
        title=title,
        notes=list(dict.fromkeys(str(warning.message) for warning in caught)),
        summary=summary,
        points=headline(summary),
        data=page_data(table, field, fitted.bounds, summary),
        most_rows=MAX_ROWS,
        version=__version__,
    )

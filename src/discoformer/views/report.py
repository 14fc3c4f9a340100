"""One page about a table: what is in it, how it is distributed, which rows are unusual.

The page is a single HTML string with its style and pictures inside: nothing is fetched when it is opened.
"""

from __future__ import annotations

import base64
import html
import io
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discoformer import __version__, functionals
from discoformer.api.estimate import answer
from discoformer.columns.bounds import Bounded, everyday, parse_bounds
from discoformer.columns.support import suited, support_of
from discoformer.core.checks import DataError
from discoformer.core.extras import require
from discoformer.core.fields import Field, Method
from discoformer.data.files import Table, few_values
from discoformer.evaluation.held_out import HeldOut, held_out_log_likelihood, make_method
from discoformer.methods import check_range, resolve
from discoformer.views.plots import MAX_COLUMNS, plot

__all__ = ["effective_dimension", "make_report"]

UNUSUAL = 10  # rows listed
FOLDS = 5
FEWEST = 4  # rows that can be held out in turn and leave a fit at least three
PEERS = {"kde-scott": "kernel density, Scott's rule", "kde-loo": "kernel density, leave-one-out bandwidth"}

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #20303c }
body { max-width: 72rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: break-word }
h1 { font-size: 1.6rem; margin-bottom: 0 } h2 { font-size: 1.15rem; margin-top: 2.2rem }
p { max-width: 60rem } p.picture { max-width: none }
p.small, footer { color: #5b6770; font-size: 0.85rem }
table { border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums }
th, td { padding: 0.25rem 0.5rem; text-align: right; white-space: nowrap }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 9rem }
thead { border-bottom: 1px solid #8a949b } tbody tr:nth-child(even) { background: #f4f6f7 }
div.wide { overflow-x: auto } img { max-width: 100%; height: auto }
p.note { border-left: 4px solid #d1495b; padding: 0.2rem 0.8rem; background: #fbf0f1 }
dl { display: grid; grid-template-columns: max-content auto; gap: 0.2rem 1.2rem } dd { margin: 0 }
"""


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
    >>> sample = np.random.default_rng(0).normal(size=(40, 2))
    >>> make_report(Table(sample, ("a", "b")), model="kde").startswith("<!doctype html>")
    True
    """
    require("matplotlib", "plot", "drawing")
    resolved = resolve(model)
    pairs = parse_bounds(bounds, table.values.shape[1], table.names)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        field = everyday(resolved.method, pairs, table.names).fit(table.values)
        kept = support_of(field)
        check_range(resolved, len(table.values), len(kept))
        if note := few_values(table):
            warnings.warn(note, stacklevel=2)
    log_density = answer(field, table.values).log_density
    if log_density is None:
        raise DataError(f"{type(field).__name__} estimates the score only: a report needs a density")
    part = Table(table.values[:, kept], tuple(table.names[j] for j in kept), table.named)
    method = suited(resolved.method, len(table.values), len(kept))
    source = Bounded(method, [pairs[j] for j in kept])

    rows, columns = table.values.shape
    sections = [
        f"<h1>{html.escape(title)}</h1>",
        f'<p class="small">{rows} rows, {columns} columns, model {html.escape(resolved.name)}</p>',
        *(f'<p class="note">{html.escape(str(w.message))}</p>' for w in caught),
        _section("Columns", _columns(table)),
        _section("In numbers", _numbers(part, source)),
        _section("Columns and their pairs", _picture(field, table, "corner", MAX_COLUMNS)),
        _section(
            "Unusual rows",
            _unusual(table, log_density) + _picture(field, table, "outliers", 2 * MAX_COLUMNS),
        ),
        _section("Is the model right for this table?", _comparison(part, source, resolved.name, progress)),
        f"<footer><p>discoformer {__version__}</p></footer>",
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style>"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n'
        + "\n".join(sections)
        + "\n</body></html>\n"
    )


def effective_dimension(values: NDArray[np.float64]) -> float:
    """How many directions share the variance of standardized columns (n, d): from one to d.

    The participation ratio (sum l)^2 / sum l^2 of the eigenvalues l of the correlation matrix.

    >>> x = np.random.default_rng(0).normal(size=(5000, 2))
    >>> round(effective_dimension(x), 1), round(effective_dimension(x[:, [0, 0]]), 1)
    (2.0, 1.0)
    """
    eigenvalues = np.linalg.eigvalsh(np.atleast_2d(np.corrcoef(values.T)))
    return float(eigenvalues.sum() ** 2 / (eigenvalues**2).sum())


def _measured(value: float, error: float) -> str:
    """A number with its error; three decimals unless it is huge.

    >>> _measured(-1.5, 0.25), _measured(-2.5e16, 1.0)
    ('-1.500 ± 0.250', '-2.5e+16 ± 1')
    """
    return f"{value:.3f} ± {error:.3f}" if abs(value) < 1e6 else f"{value:.3g} ± {error:.3g}"


def _section(title: str, content: str) -> str:
    return f"<section><h2>{html.escape(title)}</h2>\n{content}</section>"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are text, not HTML."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>\n'


def _columns(table: Table) -> str:
    rows = []
    for name, x in zip(table.names, table.values.T, strict=True):
        numbers = [
            x.min(),
            np.quantile(x, 0.25),
            np.median(x),
            np.quantile(x, 0.75),
            x.max(),
            x.mean(),
            x.std(),
        ]
        rows.append([name, *(f"{number:.4g}" for number in numbers), str(len(np.unique(x)))])
    header = [
        "column",
        "least",
        "1st quartile",
        "median",
        "3rd quartile",
        "largest",
        "mean",
        "sd",
        "distinct",
    ]
    return _table(header, rows)


def _numbers(part: Table, source: Method) -> str:
    """Entropy and effective dimension of the columns that carry a density."""
    rows = len(part.values)
    try:
        if rows < FEWEST:
            raise DataError(f"{rows} rows are too few")
        nats, error = functionals.entropy(part.values, source, folds=min(FOLDS, rows))
        entropy = f"{nats:.3f} ± {error:.3f} nats"
    except DataError as problem:  # a fold without a density, say
        entropy = f"not available: {problem}"
    dimension = f"{effective_dimension(part.values):.1f} of {part.values.shape[1]}"
    terms = {"entropy": entropy, "effective dimension": dimension}
    listed = "".join(f"<dt>{term}</dt><dd>{html.escape(value)}</dd>" for term, value in terms.items())
    return (
        f'<dl>{listed}</dl><p class="small">Entropy is the mean of minus the log density, in the units of '
        "the columns. The effective dimension says how many directions share the variance of the "
        "standardized columns.</p>"
    )


def _picture(field: Field, table: Table, view: str, most: int) -> str:
    """A picture that shows at most so many columns, in the size it was drawn for: letters as on the page."""
    figure = plot(field, table.values, [_short(name) for name in table.names], view=view)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=144)
    data = base64.b64encode(buffer.getvalue()).decode()
    width = round(96 * figure.get_figwidth())  # a page has 96 pixels an inch
    picture = f'<img alt="{view} of the table" width="{width}" src="data:image/png;base64,{data}">'
    columns = len(support_of(field))
    note = f'<p class="small">The first {most} of {columns} columns.</p>\n' if columns > most else ""
    return f'<p class="picture">{picture}</p>\n{note}'


def _short(name: str, most: int = 18) -> str:
    """A name that fits under a panel: beginning and end, which tell names apart.

    >>> _short("temperature of the water at noon")
    'temperatu…r at noon'
    """
    return name if len(name) <= most else f"{name[: most // 2]}…{name[-(most // 2) :]}"


def _unusual(table: Table, log_density: NDArray[np.float64]) -> str:
    """The rows of lowest density side by side, so that any number of columns fits on the page."""
    order = np.argsort(log_density, kind="stable")[:UNUSUAL]
    lines = [["log density", *(f"{log_density[i]:.2f}" for i in order)]]
    lines += [[name, *(f"{table.values[i, j]:.4g}" for i in order)] for j, name in enumerate(table.names)]
    return _table(["row, from 0", *map(str, order)], lines)


def _comparison(part: Table, source: Bounded, name: str, progress: Callable[[Any], Iterable[Any]]) -> str:
    """Held-out log-likelihood against kernel density; the same folds and bounds for all."""
    if len(part.values) < FEWEST:
        return f"<p>{len(part.values)} rows are too few to hold some out.</p>\n"
    results: dict[str, HeldOut] = {}
    failures = []
    methods = {
        f"this page's model ({name})": source,
        **{what: Bounded(make_method(key), source.bounds) for key, what in PEERS.items()},
    }
    folds = min(FOLDS, len(part.values))
    for label, method in methods.items():
        try:
            results[label] = held_out_log_likelihood(method, part.values, folds, progress=progress)
        except DataError as problem:
            failures.append(f"<p>{html.escape(f'{label}: {problem}')}</p>")
    ranked = sorted(results, key=lambda label: -results[label].mean)
    rows = []
    for label in ranked:
        mean = _measured(results[label].mean, results[label].standard_error)
        behind = _measured(*results[ranked[0]].minus(results[label]))
        rows.append([label, mean, "" if label == ranked[0] else behind])
    explanation = (
        f'<p class="small">Mean log density of rows that the fit has not seen, {folds} folds; higher is '
        "better. A difference of 0.1 means that rows are 10% more likely.</p>"
    )
    return (
        _table(["method", "log-likelihood per row", "behind the best"], rows)
        + "".join(failures)
        + explanation
    )

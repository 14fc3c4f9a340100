"""What the page's JavaScript is given: the density, the rows it shows, and the ranges to draw them in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discoformer.columns.bounds import Bound
from discoformer.core.checks import DataError
from discoformer.core.fields import PointDensity
from discoformer.data.files import Table
from discoformer.views.grids import column_grid
from discoformer.views.page.numbers import density_numbers, pack
from discoformer.views.page.summary import ColumnSummary, TableSummary
from discoformer.views.page.unusual import UnusualRow
from discoformer.views.style import bin_count

__all__ = ["MAX_ROWS", "explorer_data", "page_data"]

MAX_ROWS = 5000  # rows in the page
_BARS = 20  # gaps between few values that can be drawn
_SHOWN = 3  # columns in the corner to begin with
_CHECKED = 20  # rows at which the page checks itself against Python when it is opened


def page_data(
    table: Table, field: PointDensity, bounds: Sequence[Bound], summary: TableSummary
) -> dict[str, Any]:
    """All that the scripts of a report need, ready for JSON."""
    data = explorer_data(table, field, bounds, summary)
    data["unusual"] = [_row(row) for row in summary.unusual.rows]
    data["pairs"] = [[pair.first, pair.second, pair.nats, pair.correlation] for pair in summary.pairs]
    return data


def explorer_data(
    table: Table, field: PointDensity, bounds: Sequence[Bound], summary: TableSummary
) -> dict[str, Any]:
    """What the live corner needs: by itself it is what a widget is given.

    Parameters
    ----------
    table : the data
    field : fitted to it
    bounds : of its columns
    summary : of `discoformer.views.page.summary.summarize`
    """
    values = table.values
    rows = _shown_rows(len(values), summary)
    data: dict[str, Any] = {
        "columns": [
            _column(column, x, bound)
            for column, x, bound in zip(summary.columns, values.T, bounds, strict=True)
        ],
        "rows": {"total": len(values), "numbers": rows.tolist(), "values": pack(values[rows])},
        "start": _start(summary),
        "density": None,
        "why": "",
        "levels": None,
    }
    try:
        data["density"] = density_numbers(field)
    except DataError as problem:
        data["why"] = str(problem)
        return data
    checked = values[rows[:: max(1, len(rows) // _CHECKED)]]
    data["check"] = {"points": pack(checked), "log_density": pack(field.log_density(checked))}
    if summary.unusual.levels is not None:
        data["levels"] = pack(summary.unusual.levels)
    return data


def _shown_rows(count: int, summary: TableSummary) -> NDArray[np.int64]:
    """All rows, or the unusual ones and a random sample of the others."""
    if count <= MAX_ROWS:
        return np.arange(count)
    named = {row.row for row in summary.unusual.rows}
    named.update(row for column in summary.columns for row in column.kind.lone)
    drawn = np.random.default_rng(0).permutation(count).tolist()
    chosen = [*named, *(row for row in drawn if row not in named)][:MAX_ROWS]
    return np.sort(np.array(chosen, dtype=np.int64))


def _column(column: ColumnSummary, x: NDArray[np.float64], bound: Bound) -> dict[str, Any]:
    """A column's range, bounds and histogram; the bars count all rows, shown or not."""
    grid = column_grid(x, 2)
    low, high = max(grid[0], bound[0]), min(grid[-1], bound[1])
    if not high > low:
        low, high = low - 0.5, low + 0.5
    counts, edges = np.histogram(x, _bins(x, low, high, column.kind.kind))
    return {
        "name": column.name,
        "kind": column.kind.kind,
        "remarks": list(column.kind.remarks),
        "fitted": column.fitted,
        "low": float(low),
        "high": float(high),
        "bounds": [None if math.isinf(end) else end for end in bound],
        "median": column.median,
        "whole": column.kind.kind == "whole numbers",
        "counts": counts.tolist(),
        "edges": [float(edges[0]), float(edges[-1])],
        "beyond": int(len(x) - counts.sum()),
    }


def _bins(x: NDArray[np.float64], low: float, high: float, kind: str) -> NDArray[np.float64]:
    """Edges of the bars of a column; around whole numbers and around few values, never at them.

    >>> _bins(np.array([1.0, 2.0, 2.0, 4.0]), 0.2, 4.1, "whole numbers").tolist()
    [0.5, 1.5, 2.5, 3.5, 4.5]
    """
    count = bin_count(len(x))
    if kind == "whole numbers":
        first, last = math.ceil(low), math.floor(high)
        width = max(1.0, math.ceil((last - first + 1) / (2 * count)))
        return np.arange(first - 0.5, last + width + 0.49, width)
    if kind == "few values":
        seen = np.unique(x[(x >= low) & (x <= high)])
        gap = float(np.diff(seen).min()) if len(seen) > 1 else high - low
        if np.ptp(seen) <= _BARS * gap:
            width = gap / 4
            return np.arange(seen[0] - width / 2, seen[-1] + width, width)
    return np.linspace(low, high, count + 1)


def _start(summary: TableSummary) -> list[int]:
    """Columns to show first, in order: the pair that depends the most, the column with the oddest value."""
    fitted = [j for j, column in enumerate(summary.columns) if column.fitted]
    best = [j for pair in summary.pairs[:1] for j in (pair.first, pair.second)]
    odd = [row.column for row in summary.unusual.rows if row.column is not None]
    ties = [j for pair in summary.pairs[1:] for j in (pair.first, pair.second)]
    wanted = list(dict.fromkeys([*best, *odd[:1], *ties, *fitted]))
    count = min(_SHOWN, max(2, len(fitted) - 1), len(fitted))  # one to hold fixed, if there are three
    return wanted[:count]


def _row(row: UnusualRow) -> dict[str, Any]:
    expected = row.expected
    return {
        "row": row.row,
        "values": list(row.values),
        "column": row.column,
        "expected": None if expected is None else [expected.low, expected.median, expected.high],
    }

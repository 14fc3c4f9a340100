"""What the page's JavaScript gets: the density, the rows it shows, and the ranges to draw them in."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discoformer.columns.bounds import Bound
from discoformer.core.checks import DataError
from discoformer.core.fields import Density, PointDensity
from discoformer.data.files import Table
from discoformer.views.contours import column_grid
from discoformer.views.page.dependence import Pair, pair_information
from discoformer.views.page.kinds import DescribedColumn
from discoformer.views.page.numbers import density_numbers, pack
from discoformer.views.page.summary import ColumnStatistics, TableSummary, describe_columns
from discoformer.views.page.unusual import Expected, Likely, UnusualRow, density_levels
from discoformer.views.style import bin_count

__all__ = ["MAX_ROWS", "explorer_data", "page_data", "widget_data"]

MAX_ROWS = 5000  # rows in the page
_BARS = 20  # few values get a bar each if their range is at most this many of their smallest gaps
_SHOWN = 3  # columns in the corner at first
_CHECKED = 20  # rows at which the page checks itself against Python when it is opened


def page_data(
    table: Table, field: PointDensity, bounds: Sequence[Bound], summary: TableSummary
) -> dict[str, Any]:
    """All that the scripts of a report need, ready for JSON."""
    named = {row.row for row in summary.unusual.rows}
    named.update(row for column in summary.columns for row in column.kind.lone)
    odd = [row.column for row in summary.unusual.rows if row.column is not None]
    data = explorer_data(
        table,
        field,
        bounds,
        summary.columns,
        levels=summary.unusual.levels,
        start=_start(summary.columns, summary.pairs, odd[:1]),
        named=named,
    )
    data["unusual"] = [_row(row) for row in summary.unusual.rows]
    if (found := summary.calibration) is not None:
        data["calibration"] = {
            "shares": found.shares.tolist(),
            "inside": found.inside.tolist(),
            "margins": found.margins.round(4).tolist(),
            "band": found.band,
        }
    data["pairs"] = [[pair.first, pair.second, pair.nats, pair.correlation] for pair in summary.pairs]
    return data


def widget_data(table: Table, field: Density, bounds: Sequence[Bound]) -> dict[str, Any]:
    """What the live corner needs without a report around it; nothing is fitted for this."""
    columns = describe_columns(table, field.support)
    start = _start(columns, pair_information(field), [])
    return explorer_data(table, field, bounds, columns, levels=density_levels(field), start=start)


def explorer_data(
    table: Table,
    field: PointDensity,
    bounds: Sequence[Bound],
    columns: Sequence[ColumnStatistics],
    *,
    levels: NDArray[np.float64] | None,
    start: Sequence[int],
    named: Collection[int] = (),
) -> dict[str, Any]:
    """What the live corner needs.

    Parameters
    ----------
    table : the data
    field : fitted to it
    bounds : bounds of its columns
    columns : statistics of its columns
    levels : quantiles of the log density at draws, from `discoformer.views.page.unusual.density_levels`
    start : columns to show first
    named : rows that must be among those shown
    """
    values = table.values
    rows = _shown_rows(len(values), named)
    data: dict[str, Any] = {
        "columns": [
            _column(column, x, bound) for column, x, bound in zip(columns, values.T, bounds, strict=True)
        ],
        "rows": {"total": len(values), "numbers": rows.tolist(), "values": pack(values[rows])},
        "start": list(start),
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
    if levels is not None:
        data["levels"] = pack(levels)
    return data


def _shown_rows(count: int, named: Collection[int]) -> NDArray[np.int64]:
    """All rows or, if there are too many, the named ones and a random sample of the others."""
    if count <= MAX_ROWS:
        return np.arange(count)
    drawn = np.random.default_rng(0).permutation(count).tolist()
    chosen = [*named, *(row for row in drawn if row not in named)][:MAX_ROWS]
    return np.sort(np.array(chosen, dtype=np.int64))


def _column(column: ColumnStatistics, x: NDArray[np.float64], bound: Bound) -> dict[str, Any]:
    """A column's range, bounds and histogram; bars count all rows, shown or not."""
    schema, there = column.kind.schema, x[~np.isnan(x)]
    low, high = _range(column, there, bound)
    rest = there[~np.isin(there, schema.atoms)]
    counts, edges = np.histogram(rest, _bins(rest, low, high, column.kind))
    return {
        "name": column.name,
        "kind": column.kind.schema.kind,
        "remarks": list(column.kind.remarks),
        "fitted": column.fitted,
        "low": float(low),
        "high": float(high),
        "bounds": [None if math.isinf(end) else end for end in bound],
        "median": None if math.isnan(column.median) else column.median,
        "labels": list(column.kind.labels),
        "gaps": column.kind.gaps,
        "atoms": [[atom, int((there == atom).sum())] for atom in schema.atoms],
        "numbers": not column.kind.labels and (not schema.atoms or len(np.unique(rest)) > 1),
        "step": column.kind.schema.step,
        "origin": column.kind.schema.origin,
        "few": column.kind.few,
        "date": column.kind.date,
        "counts": counts.tolist(),
        "edges": [float(edges[0]), float(edges[-1])],
        "beyond": int(len(rest) - counts.sum()),
    }


def _range(column: ColumnStatistics, there: NDArray[np.float64], bound: Bound) -> tuple[float, float]:
    """What pictures of a column show: all labels, the whole circle, or all numbers but far outliers."""
    schema = column.kind.schema
    if column.kind.labels:
        return -0.5, len(column.kind.labels) - 0.5
    if schema.period:
        return schema.origin, schema.origin + schema.period
    if not len(there):
        return -0.5, 0.5
    grid = column_grid(there, 2)
    low, high = max(grid[0], bound[0]), min(grid[-1], bound[1])
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _bins(x: NDArray[np.float64], low: float, high: float, kind: DescribedColumn) -> NDArray[np.float64]:
    """Edges of the bars of a column; on a grid, or with few values, edges lie between values, never on them.

    >>> from discoformer.columns.schema_column import ColumnSchema
    >>> counts = DescribedColumn(ColumnSchema("a", "count", "whole numbers", step=1.0), [])
    >>> _bins(np.array([1.0, 2.0, 2.0, 4.0]), 0.2, 4.1, counts).tolist()
    [0.5, 1.5, 2.5, 3.5, 4.5]
    """
    if kind.labels:
        return np.arange(-0.5, len(kind.labels))
    count = bin_count(len(x))
    if kind.few and len(x):
        seen = np.unique(x[(x >= low) & (x <= high)])
        gap = float(np.diff(seen).min()) if len(seen) > 1 else high - low
        if np.ptp(seen) <= _BARS * gap:
            width = gap / 4
            return np.arange(seen[0] - width / 2, seen[-1] + width, width)
    step, origin = kind.schema.step, kind.schema.origin
    if step > 0 and not kind.schema.period:
        first, last = math.ceil((low - origin) / step), math.floor((high - origin) / step)
        width = max(1.0, math.ceil((last - first + 1) / (2 * count)))
        return origin + step * np.arange(first - 0.5, last + width + 0.49, width)
    return np.linspace(low, high, count + 1)


def _start(columns: Sequence[ColumnStatistics], pairs: Sequence[Pair], odd: Sequence[int]) -> list[int]:
    """Columns to show first: the most dependent pair, the column with the oddest value, then others."""
    fitted = [j for j, column in enumerate(columns) if column.fitted]
    best = [j for pair in pairs[:1] for j in (pair.first, pair.second)]
    ties = [j for pair in pairs[1:] for j in (pair.first, pair.second)]
    wanted = list(dict.fromkeys([*best, *odd, *ties, *fitted]))
    count = min(_SHOWN, max(2, len(fitted) - 1), len(fitted))  # of three columns, leave one to hold fixed
    return wanted[:count]


def _row(row: UnusualRow) -> dict[str, Any]:
    said = row.expected
    return {
        "row": row.row,
        "values": [None if math.isnan(value) else value for value in row.values],
        "column": row.column,
        "expected": [said.low, said.median, said.high] if isinstance(said, Expected) else None,
        "likely": [said.code, said.share] if isinstance(said, Likely) else None,
    }

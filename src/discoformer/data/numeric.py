"""The numeric part of a table that was read: what a density is fitted to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discoformer.columns.schema import ColumnSchema, Schema, infer_schema
from discoformer.columns.schema_cells import mixed_numbers
from discoformer.columns.schema_convert import number_column
from discoformer.columns.schema_rules import numbers_of
from discoformer.core.checks import DataError, show_cell
from discoformer.data.table import RawTable, Table, all_names

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_finite", "numeric_table", "query_table", "used_schema"]

_ADVICE = "turn it into numbers or leave it out with --columns"


def numeric_table(
    raw: RawTable,
    columns: Sequence[str] | None = None,
    types: Mapping[str, str] | None = None,
    exclude: Sequence[str] = (),
) -> Table:
    """Columns of finite floats, by the schema of the table."""
    schema = used_schema(raw, columns, types, exclude)
    label = raw.how.file
    values = np.column_stack([_floats(schema[name], raw.frame[name], label) for name in schema.numbers])
    table = Table(values, tuple(map(str, schema.numbers)), raw.named, schema)
    check_finite(table, label)
    return table


def used_schema(
    raw: RawTable,
    columns: Sequence[str] | None = None,
    types: Mapping[str, str] | None = None,
    exclude: Sequence[str] = (),
) -> Schema:
    """The schema of a table, with what a density of numbers uses of it.

    Identifiers, texts and categories are left out with a warning; asked for by name, they are refused.
    Truth values and the numbers 0 and 1 are numbers, and so are columns that are always the same number,
    which a fit refuses by its own rules.
    """
    label = raw.how.file
    for name in (*(columns or ()), *exclude, *(types or {})):
        if name not in raw.names:
            raise DataError(f"{label}: no column {show_cell(name)}, the file has {all_names(raw.names)}")
    inferred = infer_schema(raw.frame, types, exclude, columns, raw.units)
    schema = Schema(tuple(_used(column, raw.frame[column.name]) for column in inferred))
    for column in schema:
        if column.use == "refused" or (column.use == "left out" and columns is not None):
            raise DataError(f"{label}: {_complaint(column, raw.frame[column.name])}: {_ADVICE}")
    if not schema.numbers:
        raise DataError(
            f"{label}: no column of numbers is left of {all_names([str(column.name) for column in schema])}: "
            "see `discoformer describe`"
        )
    schema.warn()
    return schema


def query_table(raw: RawTable, context: Table) -> Table:
    """The columns of the sample ``context``, by name, in its order and in its units."""
    columns = []
    for name in context.names:
        known = context.schema[name] if context.schema is not None else ColumnSchema(name, "continuous", "")
        columns.append(_floats(known, raw.frame[name], raw.how.file))
    table = Table(np.column_stack(columns), context.names)
    check_finite(table, raw.how.file)
    return table


def _used(column: ColumnSchema, cells: pd.Series[Any]) -> ColumnSchema:
    """The column with the use that a density of numbers has for it."""
    if column.use == "number" or column.use == "refused" or column.reason == "asked for":
        return column if column.use != "code" else replace(column, use="left out")
    numeric = numbers_of(cells) is not None and cells.dtype.kind in "biuf" and cells.notna().any()
    if numeric and column.kind in ("boolean", "constant"):
        return replace(column, use="number")
    return replace(column, use="left out")


def _complaint(column: ColumnSchema, cells: pd.Series[Any]) -> str:
    """What is wrong with a column that is to be used."""
    name = show_cell(column.name)
    if column.use == "refused":
        return f"column {name} {column.reason}"
    if column.kind in ("category", "boolean"):
        return f"column {name} is a category ({column.reason}), of which there is no density"
    there = cells.notna().to_numpy()
    if not there.any():
        return f"column {name} has nothing in it"
    row = int(there.argmax())
    return f"column {name} holds text or dates, first at row {row} ({show_cell(cells.iloc[row])})"


def _floats(column: ColumnSchema, cells: pd.Series[Any], label: str) -> NDArray[np.float64]:
    try:
        return number_column(column, cells)
    except DataError:
        wrong = mixed_numbers(cells) if cells.dtype.kind in "OTU" else None
        if wrong is None:
            wrong = _complaint(replace(column, kind="text", use="left out"), cells)
            raise DataError(f"{label}: {wrong}: {_ADVICE}") from None
        raise DataError(f"{label}: column {show_cell(column.name)} {wrong}: {_ADVICE}") from None


def check_finite(table: Table, label: str) -> None:
    """Raise `DataError` at the first missing or infinite value, or if there is nothing at all."""
    if table.values.shape[1] == 0:
        raise DataError(f"{label}: the file has no columns of data")
    if table.values.shape[0] == 0:
        raise DataError(f"{label}: the file has no rows of data")
    bad = ~np.isfinite(table.values)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        what = "a missing" if np.isnan(table.values[row, column]) else "an infinite"
        raise DataError(
            f"{label}: column {show_cell(table.names[column])} has {what} value at row {row} "
            f"(counting from 0; {int(bad.sum())} in all): drop or fill such rows first"
        )

"""The columns of a table that was read, as numbers: what a density is fitted to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discoformer.columns.schema import ColumnSchema, Schema, infer_schema
from discoformer.columns.schema_cells import mixed_numbers
from discoformer.columns.schema_convert import number_column
from discoformer.core.checks import DataError, refuse_unknown, show_cell
from discoformer.data.table import RawTable, Table, all_names

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_finite", "numeric_table", "query_table", "used_schema"]

_ADVICE = "turn it into numbers or leave it out with --columns"


def numeric_table(
    raw: RawTable,
    columns: Sequence[str] | None = None,
    types: Mapping[str, str] | str | None = None,
    exclude: Sequence[str] = (),
    *,
    plain: bool = True,
    weights: str | None = None,
) -> Table:
    """Columns of numbers, by the schema of the table.

    Parameters
    ----------
    raw : what was read
    columns, types, exclude : as for `discoformer.columns.schema.infer_schema`
    plain : for a density of numbers alone: no categories, no gaps
    weights : the column that says how much each row counts; it is not fitted
    """
    label = raw.how.file
    share = None
    if weights is not None:
        exclude = [*exclude, weights]
        columns = columns if columns is None else [name for name in columns if name != weights]
        refuse_unknown([weights], raw.names, "the file has", f"{label}: ")
        share = _floats(ColumnSchema(weights, "continuous", ""), raw.frame[weights], label)
        check_finite(Table(share[:, None], (weights,)), label)
    schema = used_schema(raw, columns, types, exclude, plain=plain)
    values = np.column_stack([_floats(column, raw.frame[column.name], label) for column in schema.used])
    table = Table(values, tuple(str(c.name) for c in schema.used), raw.named, schema, raw, share)
    check_finite(table, label, gaps=not plain)
    return table


def used_schema(
    raw: RawTable,
    columns: Sequence[str] | None = None,
    types: Mapping[str, str] | str | None = None,
    exclude: Sequence[str] = (),
    *,
    plain: bool = True,
) -> Schema:
    """The schema of a table, with what a density, or a ``plain`` one of nothing but numbers, uses of it.

    Identifiers and texts are left out with a warning; asked for by name, they are refused.  Columns that
    are always the same number are numbers, which a fit refuses by its own rules.
    """
    label = raw.how.file
    asked = (*(columns or ()), *exclude, *(() if isinstance(types, str) else types or {}))
    refuse_unknown(asked, raw.names, "the file has", f"{label}: ")
    schema = infer_schema(raw.frame, types, exclude, columns, raw.units)
    schema = schema.plain() if plain else schema
    for column in schema:
        if column.use == "refused" or (column.use == "left out" and columns is not None):
            raise DataError(f"{label}: {_complaint(column, raw.frame[column.name])}: {_ADVICE}")
    if not schema.used:
        raise DataError(
            f"{label}: no column of numbers is left of {all_names([str(column.name) for column in schema])}: "
            "see `discoformer describe`"
        )
    schema.warn()
    return schema


def query_table(raw: RawTable, context: Table) -> Table:
    """The columns of the sample ``context``, by name, in its order and in its units."""
    known = [ColumnSchema(name, "continuous", "") for name in context.names]
    if context.schema is not None:
        known = list(context.schema.used)
    plain = context.schema is None or context.schema == context.schema.plain()
    columns = [_floats(column, raw.frame[column.name], raw.how.file) for column in known]
    table = Table(np.column_stack(columns), context.names, raw.named, context.schema, raw)
    check_finite(table, raw.how.file, gaps=not plain)
    return table


def _complaint(column: ColumnSchema, cells: pd.Series[Any]) -> str:
    """What is wrong with a column that should be used."""
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
        if column.use == "code":
            raise
        wrong = mixed_numbers(cells) if cells.dtype.kind in "OTU" else None
        if wrong is None:
            wrong = _complaint(replace(column, kind="text", use="left out"), cells)
            raise DataError(f"{label}: {wrong}: {_ADVICE}") from None
        raise DataError(f"{label}: column {show_cell(column.name)} {wrong}: {_ADVICE}") from None


def check_finite(table: Table, label: str, *, gaps: bool = False) -> None:
    """Raise `DataError` at the first infinite or, without ``gaps``, missing value, or if there is nothing."""
    if table.values.shape[1] == 0:
        raise DataError(f"{label}: the file has no columns of data")
    if table.values.shape[0] == 0:
        raise DataError(f"{label}: the file has no rows of data")
    bad = np.isinf(table.values) if gaps else ~np.isfinite(table.values)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        what = "a missing" if np.isnan(table.values[row, column]) else "an infinite"
        raise DataError(
            f"{label}: column {show_cell(table.names[column])} has {what} value at row {row} "
            f"(counting from 0; {int(bad.sum())} in all): drop or fill such rows first"
        )

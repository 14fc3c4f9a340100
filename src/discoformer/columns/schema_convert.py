"""From a frame, or a single written cell, to numbers by its schema, and back to the types it had."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discoformer.columns.schema import Schema
from discoformer.columns.schema_cells import EXACT
from discoformer.columns.schema_column import ColumnSchema
from discoformer.columns.schema_dates import DAYS, HOURS, SECONDS, TimeType, from_times, time_type, to_times
from discoformer.columns.schema_rules import numbers_of
from discoformer.core.checks import DataError, show_cell

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["cell_of", "from_numbers", "number_column", "number_of", "number_of_cell", "to_numbers"]

_UNITS: dict[Any, str] = {"time": HOURS, "duration": SECONDS}  # of types of times; other dates are days
_PER_HOUR = {HOURS: 1.0, SECONDS: 3600.0}
_ON_GRID = 1e-6  # steps: nearer values are on the grid but for rounding, and stay as they are


def to_numbers(frame: pd.DataFrame, schema: Schema) -> NDArray[np.float64]:
    """The used columns of a frame as numbers (n, D): categories as the places of their labels, NaN for gaps.

    >>> import pandas as pd
    >>> from discoformer.columns.schema import infer_schema
    >>> frame = pd.DataFrame({"size": [1.5, None, 2.25], "kind": ["b", "a", "b"]})
    >>> to_numbers(frame, infer_schema(frame)).tolist()
    [[1.5, 1.0], [nan, 0.0], [2.25, 1.0]]
    """
    parts = [number_column(column, frame[column.name]) for column in schema.used]
    return np.column_stack(parts) if parts else np.empty((len(frame), 0))


def number_column(column: ColumnSchema, cells: pd.Series[Any]) -> NDArray[np.float64]:
    """One column as numbers (n,): codes of labels, dates in the unit of the schema, NaN for gaps."""
    if column.use == "code":
        return _codes(column, cells)
    if bool(cells.isna().all()):
        return np.full(len(cells), np.nan)
    which = time_type(cells)
    if column.unit or which is not None:
        if _UNITS.get(which, DAYS) in (HOURS, SECONDS) and column.unit in (HOURS, SECONDS):
            # a time of the day is a span from midnight on, and few cells do not tell which
            return to_times(cells) * (_PER_HOUR[column.unit] / _PER_HOUR[_UNITS[which]])
        if which is None or _UNITS.get(which, DAYS) != column.unit:
            raise DataError(f"column {show_cell(column.name)} holds dates in one table and none in the other")
        return to_times(cells)
    values = numbers_of(cells)
    if values is None:
        raise DataError(f"column {show_cell(column.name)} holds text or dates: turn it into numbers")
    return values


def _codes(column: ColumnSchema, cells: pd.Series[Any]) -> NDArray[np.float64]:
    import pandas as pd

    labels = pd.Index(list(column.categories), dtype=object)
    codes = np.array(labels.get_indexer(pd.Index(cells.astype(object))), dtype=np.float64)
    gaps = cells.isna().to_numpy()
    unknown = (codes < 0) & ~gaps
    if unknown.any():
        row = int(unknown.argmax())
        cell = show_cell(cells.iloc[row])
        raise DataError(f"column {show_cell(column.name)} has {cell} at row {row}, which the sample has not")
    return np.where(gaps, np.nan, codes)


def from_numbers(values: NDArray[np.float64], schema: Schema) -> pd.DataFrame:
    """A frame of the types and the order of the schema, from the numbers (n, D) of its used columns.

    Whole numbers, grids, dates and decimals are rounded to; columns that are always the same come back;
    what the schema leaves out otherwise stays out.

    >>> import pandas as pd
    >>> from discoformer.columns.schema import infer_schema
    >>> frame = pd.DataFrame({"day": pd.to_datetime(["2026-01-31", "2026-02-28"]), "n": [3, 0]})
    >>> schema = infer_schema(frame)
    >>> from_numbers(to_numbers(frame, schema), schema).equals(frame)
    True
    """
    import pandas as pd

    columns: dict[Any, Any] = {}
    parts = iter(np.asarray(values, dtype=np.float64).T)
    rows = len(values)
    for column in schema:
        if column.use == "number":
            columns[column.name] = _typed(column, next(parts))
        elif column.use == "code":
            columns[column.name] = _labels(column, next(parts))
        elif column.kind == "constant" and column.categories and not column.gaps:
            columns[column.name] = pd.Series([column.categories[0]] * rows).astype(column.dtype)
    return pd.DataFrame(columns, columns=pd.Index(list(columns)), index=range(rows))


def _labels(column: ColumnSchema, numbers: NDArray[np.float64]) -> pd.Series[Any]:
    import pandas as pd

    codes = np.where(np.isnan(numbers), -1, numbers).astype(np.int64)
    labels = np.empty(len(column.categories) + 1, dtype=object)
    labels[:-1] = column.categories
    gap = np.nan if column.dtype == object or str(column.dtype) == "str" else None
    labels[-1] = gap
    found = pd.Series(labels[codes], dtype=object)
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biu" and (codes < 0).any():
        return found  # a type of numpy without room for gaps
    return found.astype(column.dtype)


def _typed(column: ColumnSchema, numbers: NDArray[np.float64]) -> pd.Series[Any]:
    import pandas as pd

    if column.unit:
        return pd.Series(from_times(numbers, column.dtype, _time_type(column), column.resolution))
    if column.step:
        places = (numbers - column.origin) / column.step
        nearest = np.rint(places)
        stays = (np.abs(places - nearest) < _ON_GRID) | np.isin(numbers, column.atoms)
        numbers = np.where(stays, numbers, column.origin + nearest * column.step)
    elif column.decimals >= 0:
        rounded = np.round(numbers, column.decimals)
        noise = 8 * np.finfo(np.float64).eps * np.maximum(np.abs(rounded), 1.0)
        numbers = np.where(np.abs(numbers - rounded) <= noise, numbers, rounded)
    dtype, gaps = column.dtype, np.isnan(numbers)
    extension = isinstance(dtype, pd.api.extensions.ExtensionDtype)
    if dtype.kind in "iu":
        ends = np.iinfo(np.dtype(getattr(dtype, "numpy_dtype", dtype)))
        whole = pd.Series(np.rint(np.clip(numbers, max(ends.min, -EXACT), min(ends.max, EXACT))))
        typed = whole.astype("Int64" if dtype.kind == "i" else "UInt64")  # of pandas: may have gaps
        return typed.astype(dtype) if extension or not gaps.any() else typed
    if dtype.kind == "b" and not gaps.any():
        return pd.Series(numbers > 0.5).astype(dtype)
    if dtype.kind != "f":
        return pd.Series(numbers)
    typed = pd.Series(numbers).astype(dtype)
    return typed.mask(gaps) if extension and gaps.any() else typed


def _time_type(column: ColumnSchema) -> TimeType:
    import pandas as pd

    if isinstance(column.dtype, pd.PeriodDtype):
        return "period"
    if column.unit == SECONDS:
        return "duration"
    if column.unit == HOURS:
        return "time"
    return "datetime" if column.dtype.kind == "M" else "date"


def cell_of(column: ColumnSchema | None, value: float) -> Any:
    """What a number of a column says: a label or a date; any other number is itself, not rounded.

    >>> cell_of(ColumnSchema("paid", "category", "", use="code", categories=("no", "yes")), 1.0)
    'yes'
    >>> cell_of(None, 0.5)
    0.5
    """
    if column is None or np.isnan(value):
        return float(value)
    if column.use == "code":
        return column.categories[int(value)]
    if column.unit:
        return from_numbers(np.array([[value]]), Schema((column,))).iloc[0, 0]
    return float(value)


def number_of_cell(column: ColumnSchema | None, name: Any, cell: Any) -> float:
    """The number that a cell of a frame is to a density: a label, a date, a number, or either as text.

    A number stands for itself also in a column of dates, in the unit of the schema.

    >>> paid = ColumnSchema("paid", "boolean", "", use="code", categories=(False, True))
    >>> number_of_cell(paid, "paid", True), number_of_cell(None, "age", 40)
    (1.0, 40.0)
    """
    if isinstance(cell, str):
        return number_of(column, name, cell)
    if column is not None and column.use == "code":
        if cell in column.categories:
            return float(column.categories.index(cell))
        return number_of(column, name, str(cell))
    if column is not None and column.unit and not isinstance(cell, Real):
        import pandas as pd

        return float(number_column(column, pd.Series([cell]))[0])
    try:
        return float(cell)
    except (TypeError, ValueError):
        raise DataError(f"{show_cell(cell)} is no number for {show_cell(name)}: give a number") from None


def number_of(column: ColumnSchema | None, name: Any, text: str) -> float:
    """The number that a written cell is to a density: `DataError` if it is no value of the column.

    >>> number_of(ColumnSchema("paid", "category", "", use="code", categories=("no", "yes")), "paid", "yes")
    1.0
    >>> number_of(None, "age", "40")
    40.0
    """
    if column is not None and column.use == "code":
        for code, label in enumerate(column.categories):
            if str(label) == text or str(label).lower() == text.lower():
                return float(code)
        labels = ", ".join(show_cell(label) for label in column.categories[:10])
        raise DataError(f"column {show_cell(name)} has no {show_cell(text)}: give one of {labels}")
    if column is not None and column.unit:
        import pandas as pd

        try:
            parsed = pd.to_timedelta(text) if column.dtype.kind == "m" else pd.to_datetime(text)
        except ValueError:
            raise DataError(f"{show_cell(text)} is no date for {show_cell(name)}: write 2026-01-31") from None
        return float(number_column(column, pd.Series([parsed]))[0])
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{show_cell(text)} is no number for {show_cell(name)}: write {name}=40") from None

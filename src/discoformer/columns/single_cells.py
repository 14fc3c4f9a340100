"""Single numbers of a density as the cells they stand for, and back: labels, dates, and numbers."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from discoformer.columns.schema import Schema
from discoformer.columns.schema_column import ColumnSchema
from discoformer.columns.schema_convert import from_numbers, number_column
from discoformer.core.checks import DataError, show_cell

__all__ = ["cell_of", "cell_words", "number_of", "number_of_cell"]


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


def cell_words(column: ColumnSchema | None, value: float) -> str:
    """The same for a sentence: numbers in few digits, dates without midnight.

    >>> cell_words(None, 1 / 3)
    '0.3333'
    """
    cell = cell_of(column, value)
    if isinstance(cell, float):
        return f"{cell:.4g}"
    return str(cell).removesuffix(" 00:00:00").removeprefix("0 days ")


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

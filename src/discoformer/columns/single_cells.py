"""Single numbers of a density as the cells they stand for, and back: labels, dates, and numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discoformer.columns.schema import Schema
from discoformer.columns.schema_column import ColumnSchema
from discoformer.columns.schema_convert import from_numbers, number_column
from discoformer.core.checks import DataError, show_cell

__all__ = ["CellWords", "cell_of", "cell_words", "digits_of", "number_of"]

_FEW = 4  # digits
_PLAIN = 1e7  # whole numbers below are written out


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


def cell_words(column: ColumnSchema | None, value: float, digits: int = _FEW) -> str:
    """The same for a sentence: numbers in so many digits, dates without midnight.

    >>> cell_words(None, 1 / 3), cell_words(None, 123456.0), cell_words(None, 1e-9 / 3)
    ('0.3333', '123456', '3.333e-10')
    """
    cell = cell_of(column, value)
    if isinstance(cell, float):
        whole = 10 ** (digits - 1) <= abs(cell) < _PLAIN
        return f"{cell:.0f}" if whole else f"{cell:.{digits}g}"
    return str(cell).removesuffix(" 00:00:00").removeprefix("0 days ")


def digits_of(values: NDArray[np.float64]) -> int:
    """Digits that tell values (n,) of a column apart: by its spread, and a hundredth of that.

    >>> x = np.random.default_rng(0).normal(size=100)
    >>> digits_of(x), digits_of(123456 + x), digits_of(123456 + 1e4 * x)
    (4, 8, 4)
    """
    there = values[np.isfinite(values)]
    if not len(there):
        return _FEW
    middle = float(np.median(there))
    spread = 1.4826 * float(np.median(np.abs(there - middle))) or float(there.std())
    if not spread > 0 or middle == 0:
        return _FEW
    return min(max(_FEW, math.ceil(math.log10(abs(middle) / spread)) + 2), 15)


@dataclass(frozen=True)
class CellWords:
    """What numbers of the columns of a table are called: labels, dates, and numbers in enough digits.

    Attributes
    ----------
    columns : d of them; None for plain numbers
    digits : d numbers of digits
    """

    columns: Sequence[ColumnSchema] | None
    digits: Sequence[int]

    @classmethod
    def of(cls, values: NDArray[np.float64], columns: Sequence[ColumnSchema] | None = None) -> CellWords:
        """For a table (n, d).

        >>> CellWords.of(np.array([[123456.25], [123457.5], [123458.0]]))(0, 123456.25)
        '123456.25'
        """
        return cls(columns, [digits_of(column) for column in values.T])

    def __call__(self, column: int, value: float) -> str:
        return cell_words(None if self.columns is None else self.columns[column], value, self.digits[column])


def number_of(column: ColumnSchema | None, name: str, text: str) -> float:
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

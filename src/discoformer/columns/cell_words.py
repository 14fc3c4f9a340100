"""What a number of a column is called in a sentence: labels, dates, and numbers in enough digits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discoformer.columns.schema import ColumnSchema
from discoformer.columns.schema_convert import cell_of

__all__ = ["CellWords", "cell_words", "digits_of"]

_FEW = 4  # digits
_PLAIN = 1e7  # whole numbers below are written out


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

"""Two tables: what was read, with the types it had; and columns of numbers, ready to be fitted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discoformer.columns.bounds import FREE, Bound
from discoformer.columns.kinds import CONTINUOUS, ColumnKind
from discoformer.columns.schema import Schema
from discoformer.columns.schema_cells import CellFormat
from discoformer.core.checks import DataError, column_names, show_cell

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["How", "RawTable", "Table", "all_names", "generated_names", "refuse_twice"]


@dataclass(frozen=True)
class How:
    """What was read, and how; as text it is one line.

    >>> print(How("data.csv", "csv", 150, 4, "utf-8", ";", ",", "in line 1"))
    data.csv: csv, utf-8, separator ';', decimal ',', names in line 1, 150 rows, 4 columns
    """

    file: str
    format: str
    rows: int
    columns: int
    encoding: str = ""
    separator: str = ""
    decimal: str = ""
    header: str = ""
    further: tuple[str, ...] = ()

    def __str__(self) -> str:
        separator = "spaces" if self.separator == r"\s+" else repr(self.separator)
        parts = [
            self.format,
            self.encoding,
            f"separator {separator}" if self.separator else "",
            f"decimal {self.decimal!r}" if self.decimal else "",
            f"names {self.header}" if self.header else "",
            *self.further,
            f"{self.rows} rows",
            f"{self.columns} columns",
        ]
        return f"{self.file}: {', '.join(filter(None, parts))}"


@dataclass(frozen=True)
class RawTable:
    """A table as it was read.

    Attributes
    ----------
    frame : (n, d), every column with a type of its own; gaps are what pandas has for them
    how : what was read, and how
    named : whether the names of the columns come from the file
    formats : how cells were written, by column name, where that was not plain
    sources : files and their rows, if there was more than one
    """

    frame: pd.DataFrame
    how: How
    named: bool = True
    formats: Mapping[str, CellFormat] = field(default_factory=dict)
    sources: tuple[tuple[str, int], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(map(str, self.frame.columns))

    @property
    def units(self) -> dict[str, str]:
        """Signs of currency or per cent, by column name."""
        return {name: style.unit for name, style in self.formats.items() if style.unit}


@dataclass(frozen=True)
class Table:
    """Columns of numbers with names.

    Attributes
    ----------
    values : (n, d), float64; NaN for gaps, categories as the places of their labels
    names : d column names; ``x0, x1, ...`` where the file has none
    named : whether the names come from the file
    schema : what the columns of the file are, if it was asked
    raw : the table as it was read, columns that are not used included
    weights : (n,), how much each row counts, or None
    """

    values: NDArray[np.float64]
    names: tuple[str, ...]
    named: bool = True
    schema: Schema | None = field(default=None, compare=False, repr=False)
    raw: RawTable | None = field(default=None, compare=False, repr=False)
    weights: NDArray[np.float64] | None = None

    @property
    def kinds(self) -> list[ColumnKind]:
        """What the columns are to a density."""
        return [CONTINUOUS] * len(self.names) if self.schema is None else self.schema.kinds

    @property
    def bounds(self) -> list[Bound]:
        """Where the values leave no doubt that the columns end."""
        return [FREE] * len(self.names) if self.schema is None else self.schema.bounds

    def select(self, columns: Sequence[int]) -> Table:
        """Some of the columns, in the order given."""
        schema = None
        if self.schema is not None:
            used = self.schema.used
            schema = Schema(tuple(used[j] for j in columns))
        names = tuple(self.names[j] for j in columns)
        return Table(self.values[:, list(columns)], names, self.named, schema, self.raw, self.weights)

    def like(self, other: Table) -> Table:
        """The same columns as ``other``, in its order: by name where both have names, else by position.

        >>> ab = Table(np.array([[1.0, 2.0]]), ("a", "b"))
        >>> Table(np.array([[4.0, 3.0]]), ("b", "a")).like(ab).values.tolist()
        [[3.0, 4.0]]
        >>> Table(np.array([[4.0]]), ("a",)).like(ab)
        Traceback (most recent call last):
            ...
        discoformer.DataError: the queries have 1 column(s) ('a'), but the data has 2 ('a', 'b'): \
give the same columns or pick them with --columns
        """
        same_names = sorted(self.names) == sorted(other.names)
        by_position = len(self.names) == len(other.names) and not (self.named and other.named)
        if not (same_names or by_position):
            raise DataError(
                f"the queries have {len(self.names)} column(s) ({all_names(self.names)}), but the data has "
                f"{len(other.names)} ({all_names(other.names)}): give the same columns or pick them with "
                "--columns"
            )
        if not same_names:
            raw = self.raw
            if raw is not None and len(raw.names) == len(other.names):
                raw = replace(raw, frame=raw.frame.set_axis(list(other.names), axis=1))
            return Table(self.values, other.names, other.named, raw=raw)
        order = [self.names.index(name) for name in other.names]
        return Table(self.values[:, order], other.names, other.named, raw=self.raw)


def all_names(names: Sequence[str]) -> str:
    """Names for a message, at most eight of them.

    >>> all_names(["a", "b"])
    "'a', 'b'"
    """
    return column_names(range(len(names)), names)


def refuse_twice(names: Sequence[str], label: str) -> None:
    """Raise `DataError` if two columns of a file have the same name; empty ones do not count.

    >>> refuse_twice(["a", "b", "a"], "data.csv")
    Traceback (most recent call last):
        ...
    discoformer.DataError: data.csv: two columns 'a': rename one of them
    """
    twice = [name for name, count in Counter(names).items() if count > 1 and name]
    if twice:
        raise DataError(f"{label}: two columns {show_cell(twice[0])}: rename one of them")


def generated_names(count: int) -> tuple[str, ...]:
    """Names where there are none.

    >>> generated_names(2)
    ('x0', 'x1')
    """
    return tuple(f"x{j}" for j in range(count))

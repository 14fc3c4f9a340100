"""Tables of numbers from files of any kind, and to csv, tsv, npy and parquet files in one move."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from discoformer.columns.kinds import CONTINUOUS
from discoformer.columns.support import divide
from discoformer.core.atomic_files import check_folder, replacing
from discoformer.core.checks import DataError, column_names, refuse_unknown
from discoformer.core.extras import require
from discoformer.core.transforms import SupportWarning
from discoformer.data.arrays import read_array
from discoformer.data.numeric import check_finite, numeric_table, query_table
from discoformer.data.packed import open_content
from discoformer.data.reading import read_raw
from discoformer.data.table import RawTable, Table, all_names, generated_names
from discoformer.data.writer import table_writer

__all__ = [
    "FORMATS",
    "Table",
    "check_output",
    "columns_to_drop",
    "few_values",
    "read_queries",
    "read_sample",
    "read_table",
    "refuse_dependent",
    "refuse_few_rows",
    "refuse_without_density",
    "save_table",
    "write_table",
]

FORMATS = (".csv", ".tsv", ".npy", ".parquet")  # that are written
FEW_VALUES = 10  # a column with fewer distinct values than this gets a note


Paths = str | Path | Sequence[str | Path]


def read_table(
    path: Paths | RawTable,
    columns: Sequence[str] | None = None,
    *,
    by_position: bool = False,
    types: Mapping[str, str] | str | None = None,
    exclude: Sequence[str] = (),
    plain: bool = True,
    weights: str | None = None,
) -> Table:
    """Read a file as a table of numbers.

    Dates become days since 1970-01-01; identifiers and texts are left out with a warning that names them.
    See `discoformer.data.reading` for the files, and `discoformer.columns.schema` for what a column is.

    Parameters
    ----------
    path : the file, several of them, ``-`` for standard input; or what was read of it already.
    columns : names to keep, in this order; all by default.
    by_position : give all columns of a file without names that are not ``columns``, for `Table.like`.
    types : kinds of columns, where they should not be inferred, as in ``{"age": "count"}``.
    exclude : names to leave out.
    plain : numbers alone: categories are left out, gaps refused.
    weights : name of the column that says how much each row counts.

    Raises
    ------
    DataError
        No such file, an empty or broken file, an unknown column, text among the numbers of a column, a
        missing or infinite value.  The message names the column, the row (counting from 0) and the value.
    """
    if not isinstance(path, RawTable):
        if _is_npy(path) and find_spec("pandas") is None:
            return _plain(Path(str(path)), columns)
        path = read_raw(path)
    if by_position and not path.named and columns is not None and not set(columns) <= set(path.names):
        columns = None
    return numeric_table(path, columns, types, exclude, plain=plain, weights=weights)


def _is_npy(path: Paths | RawTable) -> bool:
    return isinstance(path, str | Path) and Path(path).suffix.lower() == ".npy"


def _plain(path: Path, columns: Sequence[str] | None) -> Table:
    """An npy file of plain numbers, read without pandas."""
    values = read_array(open_content(path)).astype(np.float64)
    table = Table(values, generated_names(values.shape[1]), named=False)
    if columns is not None:
        refuse_unknown(columns, table.names, "the file has", f"{path}: ")
        values = values[:, [table.names.index(name) for name in columns]]
        table = Table(values, tuple(columns), named=False)
    check_finite(table, str(path))
    return table


def read_sample(
    path: Paths | RawTable,
    columns: Sequence[str] | None = None,
    *,
    drop_dependent: bool = False,
    **options: Any,
) -> Table:
    """Read a table to fit, with the options of `read_table`.

    Fewer rows than columns + 1 are refused, and so are columns that are constant or linear in the columns
    before them: there is no density.  With ``drop_dependent`` two rows are enough, and the fit leaves out
    such columns, as `discoformer.DiScoFormer` does.
    """
    table = read_table(path, columns, **options)
    refuse_without_density(path, table, drop_dependent=drop_dependent)
    return table


def refuse_without_density(path: Paths | RawTable, table: Table, *, drop_dependent: bool) -> None:
    """Raise `DataError` if a sample has too few rows, or columns without a density of their own."""
    label = path.how.file if isinstance(path, RawTable) else str(path)
    refuse_few_rows(label, len(table.values), table.names, drop_dependent=drop_dependent)
    if not drop_dependent:
        refuse_dependent(label, columns_to_drop(table), table.names)


def read_queries(path: Paths | RawTable, context: Table, columns: Sequence[str] | None = None) -> Table:
    """Read points to answer at: the columns of the sample ``context``, in its order and units.

    Columns are found by name where both files have names, and the others are not looked at; else by
    position.
    """
    if isinstance(path, RawTable) or not (_is_npy(path) and find_spec("pandas") is None):
        raw = path if isinstance(path, RawTable) else read_raw(path)
        if raw.named and context.named and set(context.names) <= set(raw.names):
            return query_table(raw, context)
        return read_table(raw, columns, by_position=True).like(context)
    return read_table(path, columns, by_position=True).like(context)


def refuse_few_rows(path: str | Path, rows: int, names: Sequence[str], *, drop_dependent: bool) -> None:
    """Raise `DataError` if there are fewer rows than columns + 1, or with ``drop_dependent`` than two."""
    dim = len(names)
    if rows < 2 or (rows <= dim and not drop_dependent):
        way = ", or add --drop-dependent to estimate all the same" if rows > 1 else ""
        raise DataError(
            f"{path}: {rows} row(s) in {dim} column(s) ({all_names(names)}) are too few for a density: "
            f"give at least {dim + 1} rows or fewer columns with --columns{way}"
        )


def refuse_dependent(path: str | Path, dependent: Sequence[int], names: Sequence[str]) -> None:
    """Raise `DataError` that names the dependent columns, if there are any."""
    if dependent:
        which = column_names(dependent, names)
        which, it = (f"{which} is", "it") if len(dependent) == 1 else (f"{which} are", "them")
        raise DataError(
            f"{path}: no density, since {which} constant or linear in the columns before: "
            f"leave {it} out with --exclude, or add --drop-dependent to estimate the other columns"
        )


def columns_to_drop(table: Table) -> list[int]:
    """Columns that a fit leaves out: constant, or linear in the columns before them.

    >>> rows = np.array([[1.0, 2.0, 7.0], [2.0, 4.0, 7.0], [3.0, 6.0, 7.0], [5.0, 10.0, 7.0]])
    >>> columns_to_drop(Table(rows, ("a", "b", "c")))
    [1, 2]
    """
    numbers = [j for j, kind in enumerate(table.kinds) if kind.kind != "category"]
    whole = table.values[:, numbers]
    whole = whole[~np.isnan(whole).any(1)]
    if len(whole) < 2 or not numbers:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        kept = divide(torch.as_tensor(whole), None, [table.names[j] for j in numbers]).kept
    return [j for place, j in enumerate(numbers) if place not in set(kept)]


def few_values(table: Table) -> str | None:
    """A note that names the columns that are taken as continuous, but have few distinct values.

    >>> coin = np.array([[0.0, 0.1], [1.0, 0.2], [1.0, 0.3], [0.0, 0.4]])
    >>> few_values(Table(coin, ("coin", "x")))
    "'coin' has fewer than 10 distinct values and no density: an estimate puts spikes on them"
    """
    counts = [len(np.unique(column[~np.isnan(column)])) for column in table.values.T]
    few = [
        j
        for j, count in enumerate(counts)
        if table.kinds[j] == CONTINUOUS and 1 < count < min(FEW_VALUES, len(table.values))
    ]
    if not few:
        return None
    have = "has" if len(few) == 1 else "have"
    return (
        f"{column_names(few, table.names)} {have} fewer than {FEW_VALUES} distinct values and no density: "
        "an estimate puts spikes on them"
    )


def write_table(table: Table, path: str | Path) -> None:
    """Write a table in the format of the suffix; an existing file is replaced in one move or not at all.

    An npy file holds the values only, in the order of the columns.
    """
    path = Path(path)
    suffix = check_output(path)
    with replacing(path) as temporary:
        save_table(table, temporary, suffix)


def save_table(table: Table, path: Path, suffix: str) -> None:
    """Write a table in the format of ``suffix`` whatever ``path`` ends in: what to do inside `replacing`."""
    with table_writer(path, suffix, table.names, len(table.values)) as write:
        write(table.values)


def check_output(path: str | Path) -> str:
    """Suffix of an output file that can be written; call it before the work, not after.

    >>> check_output("densities.csv"), check_output("-")
    ('.csv', '.csv')
    >>> check_output("densities.xlsx")
    Traceback (most recent call last):
        ...
    discoformer.DataError: densities.xlsx: unknown format '.xlsx', use .csv, .tsv, .npy or .parquet
    """
    path = Path(path)
    if str(path) == "-":
        require("pandas", "cli", "writing .csv")
        return ".csv"
    suffix = _suffix(path)
    check_folder(path)
    return suffix


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        what = f"unknown format {suffix!r}" if suffix else "no suffix to tell the format"
        raise DataError(f"{path}: {what}, use {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if suffix != ".npy":
        require("pandas", "cli", f"writing {suffix}")
    if suffix == ".parquet":
        require("pyarrow", "cli", "writing .parquet")
    return suffix

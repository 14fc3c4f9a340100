"""Tables of numbers in csv, tsv, npy and parquet files: read with clear errors, written in one move."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.columns.support import divide
from discoformer.core.checks import DataError, column_names
from discoformer.core.extras import require
from discoformer.core.files import check_folder, replacing
from discoformer.core.transforms import SupportWarning
from discoformer.data.writer import table_writer

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "FORMATS",
    "Table",
    "check_output",
    "columns_to_drop",
    "few_values",
    "read_sample",
    "read_table",
    "refuse_dependent",
    "refuse_few_rows",
    "save_table",
    "write_table",
]

FORMATS = (".csv", ".tsv", ".npy", ".parquet")
FEW_VALUES = 10  # a column with fewer distinct values than this gets a note
# What stands for a missing number, as pandas reads it; "Na" may be sodium.
MISSING = {
    "",
    "NA",
    "N/A",
    "n/a",
    "#N/A",
    "#NA",
    "<NA>",
    "NaN",
    "nan",
    "-NaN",
    "-nan",
    "NULL",
    "null",
    "None",
}


@dataclass(frozen=True)
class Table:
    """Columns of finite floats with names.

    Attributes
    ----------
    values : (n, d), float64
    names : d column names; ``x0, x1, ...`` where the file has none
    named : whether the names come from the file
    """

    values: NDArray[np.float64]
    names: tuple[str, ...]
    named: bool = True

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
                f"the queries have {len(self.names)} column(s) ({_all(self.names)}), but the data has "
                f"{len(other.names)} ({_all(other.names)}): give the same columns or pick them with --columns"
            )
        if not same_names:
            return Table(self.values, other.names, other.named)
        order = [self.names.index(name) for name in other.names]
        return Table(self.values[:, order], other.names, other.named)


def read_table(path: str | Path, columns: Sequence[str] | None = None, *, by_position: bool = False) -> Table:
    """Read a csv, tsv, npy or parquet file as a table of finite floats.

    A text file whose first line has nothing but numbers and gaps has no header; its columns, like those of
    an npy file, are called x0, x1, ...  But a first line 0, 1, 2, ... over rows that are not all whole
    numbers holds names, as pandas writes them where there are none.  Semicolons, tabs or bars separate
    columns where the first line has no comma.  A first column without a name under a header holds row
    labels and is left out, with a warning unless it is text or counts the rows; last columns without a
    name or a value are left out as well.

    Parameters
    ----------
    path : the file; its suffix tells the format.
    columns : names to keep, in this order; all by default.
    by_position : give all columns of a file without names that are not ``columns``, for `Table.like`.

    Raises
    ------
    DataError
        No such file, an empty file, an unknown column, text or a missing or infinite value in a column.
        The message names the column, the row (counting from 0) and the value.
    """
    path = Path(path)
    if not path.exists():
        raise DataError(f"{path}: no such file")
    if path.is_dir():
        raise DataError(f"{path}: a folder, not a file")
    suffix = _suffix(path)
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty")
    if suffix == ".npy":
        array, named = _read_npy(path), False
        names = _generated(array.shape[1])
    else:
        frame, named = _read_frame(path, suffix)
        names = tuple(map(str, frame.columns))
    if by_position and not named and columns is not None and not set(columns) <= set(names):
        columns = None
    positions = _positions(names, columns, path)
    if suffix == ".npy":
        values = array[:, positions].astype(np.float64)
    else:
        kept = [_floats(frame.iloc[:, j], path) for j in positions]
        values = np.column_stack(kept) if kept else np.empty((len(frame), 0))
    table = Table(values, names if columns is None else tuple(columns), named)
    _check_finite(table, path)
    return table


def read_sample(
    path: str | Path, columns: Sequence[str] | None = None, *, drop_dependent: bool = False
) -> Table:
    """Read a table that is to be fitted.

    Refused are fewer rows than columns + 1, and columns that are constant or linear in the columns before
    them: there is no density.  With ``drop_dependent`` all that is asked for is two rows, and it is left
    to the fit, as `discoformer.DiScoFormer` does, to leave out such columns.
    """
    table = read_table(path, columns)
    refuse_few_rows(path, len(table.values), table.names, drop_dependent=drop_dependent)
    if not drop_dependent:
        refuse_dependent(path, columns_to_drop(table), table.names)
    return table


def refuse_few_rows(path: str | Path, rows: int, names: Sequence[str], *, drop_dependent: bool) -> None:
    """Raise `DataError` if there are fewer rows than columns + 1, or with ``drop_dependent`` than two."""
    dim = len(names)
    if rows < 2 or (rows <= dim and not drop_dependent):
        way = ", or add --drop-dependent to estimate all the same" if rows > 1 else ""
        raise DataError(
            f"{path}: {rows} row(s) in {dim} column(s) ({_all(names)}) are too few for a density: "
            f"give at least {dim + 1} rows or fewer columns with --columns{way}"
        )


def refuse_dependent(path: str | Path, dependent: Sequence[int], names: Sequence[str]) -> None:
    """Raise `DataError` that names the dependent columns, if there are any."""
    if dependent:
        which = column_names(dependent, names)
        which, it = (f"{which} is", "it") if len(dependent) == 1 else (f"{which} are", "them")
        raise DataError(
            f"{path}: no density, since {which} constant or linear in the columns before: "
            f"drop {it} with --columns, or add --drop-dependent to estimate the other columns"
        )


def columns_to_drop(table: Table) -> list[int]:
    """Columns that a fit leaves out: constant, or linear in the columns before them.

    >>> rows = np.array([[1.0, 2.0, 7.0], [2.0, 4.0, 7.0], [3.0, 6.0, 7.0], [5.0, 10.0, 7.0]])
    >>> columns_to_drop(Table(rows, ("a", "b", "c")))
    [1, 2]
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        kept = divide(torch.as_tensor(table.values), None, table.names).kept
    return [j for j in range(len(table.names)) if j not in set(kept)]


def few_values(table: Table) -> str | None:
    """A note that names the columns with few distinct values, if there are any.

    >>> coin = np.array([[0.0, 0.1], [1.0, 0.2], [1.0, 0.3], [0.0, 0.4]])
    >>> few_values(Table(coin, ("coin", "x")))
    "'coin' has fewer than 10 distinct values and no density: an estimate puts spikes on them"
    """
    counts = [len(np.unique(column)) for column in table.values.T]
    few = [j for j, count in enumerate(counts) if 1 < count < min(FEW_VALUES, len(table.values))]
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

    >>> check_output("densities.csv")
    '.csv'
    >>> check_output("densities.xlsx")
    Traceback (most recent call last):
        ...
    discoformer.DataError: densities.xlsx: unknown format '.xlsx', use .csv, .tsv, .npy or .parquet
    """
    path = Path(path)
    suffix = _suffix(path)
    check_folder(path)
    return suffix


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        what = f"unknown format {suffix!r}" if suffix else "no suffix to tell the format"
        raise DataError(f"{path}: {what}, use {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if suffix != ".npy":
        require("pandas", "cli", f"reading and writing {suffix}")
    if suffix == ".parquet":
        require("pyarrow", "cli", "reading and writing .parquet")
    return suffix


def _separator(suffix: str) -> str:
    return "\t" if suffix == ".tsv" else ","


def _all(names: Sequence[str]) -> str:
    return column_names(range(len(names)), names)


def _generated(count: int) -> tuple[str, ...]:
    return tuple(f"x{j}" for j in range(count))


def _read_npy(path: Path) -> NDArray[np.generic]:
    """An npy file as (n, d); a vector is one column."""
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DataError(f"{path}: not an npy file of numbers") from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        raise DataError(f"{path}: not an npy file of real numbers")
    if array.ndim not in (1, 2):
        raise DataError(f"{path}: has shape {array.shape}, expected (rows, columns)")
    return array[:, None] if array.ndim == 1 else array


def _read_frame(path: Path, suffix: str) -> tuple[pd.DataFrame, bool]:
    """A csv, tsv or parquet file, and whether it names its columns."""
    import pandas as pd

    try:
        with path.open("rb") as file:
            if file.read(4).startswith((b"\x1f\x8b", b"PK\x03\x04")):  # gzip, zip
                raise DataError(f"{path}: compressed, unpack it first")
        if suffix == ".parquet":
            return pd.read_parquet(path), True
        return _read_text(path, _separator(suffix))
    except DataError:
        raise
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text, save it as UTF-8") from error
    except pd.errors.ParserWarning as warning:
        raise DataError(f"{path}: the rows have more fields than the header, name every column") from warning
    except pd.errors.EmptyDataError as error:
        raise DataError(f"{path}: the file has nothing but empty lines") from error
    except (ValueError, OSError) as error:  # the parsers' own errors are ValueErrors
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        reason = reason.removeprefix("Error tokenizing data. C error: ")
        raise DataError(f"{path}: cannot be read as {suffix[1:]}: {reason}") from error


def _read_text(path: Path, separator: str) -> tuple[pd.DataFrame, bool]:
    import pandas as pd

    first = pd.read_csv(
        path, sep=separator, header=None, nrows=1, dtype=str, keep_default_na=False, encoding="utf-8-sig"
    )
    cells = [str(cell).strip() for cell in first.iloc[0]]
    for other in ";\t|":
        if len(cells) == 1 and other in cells[0]:
            return _read_text(path, other)
    named = not all(cell in MISSING or _is_number(cell) for cell in cells)
    counted = len(cells) > 1 and _counts_columns(cells)
    frame = _parse(path, separator, header=named or counted)
    if counted:
        named = cells[0] == "" or not _is_whole(frame)
        if cells[0] != "":
            what = "the names of the columns" if named else "a row of data"
            warnings.warn(f"{path}: the first line, 0 to {len(cells) - 1}, is read as {what}", stacklevel=2)
        if not named:
            frame = _parse(path, separator, header=False)
    names = [str(name).strip() for name in frame.columns] if named else _generated(frame.shape[1])
    frame.columns = pd.Index(names)
    while len(cells) > 1 and cells[-1] == "" and frame.iloc[:, -1].isna().all():  # lines end in a separator
        cells.pop()
        frame = frame.iloc[:, :-1]
    if named and cells[0] == "":
        if not _is_index(frame.iloc[:, 0]):
            warnings.warn(
                f"{path}: the first column has no name and is left out as row labels: name it to use it",
                stacklevel=2,
            )
        frame = frame.iloc[:, 1:]
    return frame, named


def _parse(path: Path, separator: str, *, header: bool) -> pd.DataFrame:
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # fields beyond the header would be lost
        return pd.read_csv(
            path,
            sep=separator,
            header=0 if header else None,
            index_col=False,
            encoding="utf-8-sig",
            low_memory=False,
        )


def _counts_columns(cells: Sequence[str]) -> bool:
    """Whether a line is 0, 1, 2, ..., perhaps after an empty cell over row labels: what pandas writes.

    >>> _counts_columns(["", "0", "1"]), _counts_columns(["0", "1.0"])
    (True, False)
    """
    numbers = cells[1:] if cells[0] == "" else cells
    return list(numbers) == [str(j) for j in range(len(numbers))]


def _is_whole(frame: pd.DataFrame) -> bool:
    import pandas as pd

    return all(pd.api.types.is_integer_dtype(kind) for kind in frame.dtypes)


def _is_index(column: pd.Series[Any]) -> bool:
    """Whether a column cannot be data: text, nothing at all, or the numbers of the rows."""
    import pandas as pd

    if column.isna().all() or not pd.api.types.is_numeric_dtype(column):
        return True
    return any(np.array_equal(column, np.arange(len(column)) + start) for start in (0, 1))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _positions(names: Sequence[str], columns: Sequence[str] | None, path: Path) -> list[int]:
    if columns is None:
        return list(range(len(names)))
    unknown = [name for name in columns if name not in names]
    if unknown:
        have = _all(names)
        raise DataError(f"{path}: no column {unknown[0]!r}, the file has {have}")
    if len(set(columns)) < len(columns):
        raise DataError(f"the same column is asked for twice: {_all(columns)}")
    return [list(names).index(name) for name in columns]


def _floats(column: pd.Series[Any], path: Path) -> NDArray[np.float64]:
    """A column as floats, missing values as NaN; text is an error."""
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce")
    # Dates would become nanoseconds without a word.
    text = column.notna() if column.dtype.kind in "mM" else numbers.isna() & column.notna()
    if text.any():
        row = int(text.to_numpy().argmax())
        cell = str(column.iloc[row])
        if re.fullmatch(r"[-+.\deE]*\d[,;\s][-+.,;\s\deE]*", cell):
            advice = (
                "separate columns by commas, semicolons, tabs or bars and write decimals with a point, "
                "not a comma"
            )
        else:
            advice = "turn it into numbers or leave it out with --columns"
        raise DataError(
            f"{path}: column {column.name!r} holds text or dates, first at row {row} ({cell!r}): {advice}"
        )
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan)


def _check_finite(table: Table, path: Path) -> None:
    if table.values.shape[1] == 0:
        raise DataError(f"{path}: the file has no columns of data")
    if table.values.shape[0] == 0:
        raise DataError(f"{path}: the file has no rows of data")
    bad = ~np.isfinite(table.values)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        what = "a missing" if np.isnan(table.values[row, column]) else "an infinite"
        raise DataError(
            f"{path}: column {table.names[column]!r} has {what} value at row {row} (counting from 0; "
            f"{int(bad.sum())} in all): drop or fill such rows first"
        )

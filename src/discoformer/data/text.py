"""Tables in text files, read by pandas in the dialect that their first lines show."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import dropwhile
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from discoformer.columns.schema_cells import CODE_DIGITS, are_codes, whole_numbers
from discoformer.core.checks import DataError
from discoformer.core.extras import require
from discoformer.data.cells import convert_text
from discoformer.data.dialect import LINES, SPACES, Dialect, find_dialect
from discoformer.data.limits import check_size
from discoformer.data.packed import Content
from discoformer.data.table import How, RawTable, generated_names

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_text"]

_FALLBACKS = {"utf-8": "cp1252", "utf-8-sig": "cp1252", "cp1252": "latin-1"}


def read_text(content: Content) -> RawTable:
    """A table from text: csv, tsv, or whatever separates its columns.

    A first line that has nothing but numbers, dates and gaps is a row of data; the columns are then called
    x0, x1, ...  But a first line 0, 1, 2, ... over rows that are not all whole numbers holds names, as
    pandas writes them where there are none.  A first column without a name under a header holds row labels
    and is left out, with a warning unless it is text or counts the rows; last columns without a name or a
    value are left out as well.

    >>> table = read_text(Content("data.csv", ".csv", data=b"size;price\\n1,5;1.200 EUR\\n2,0;980 EUR\\n"))
    >>> table.frame.to_numpy().tolist()
    [[1.5, 1200.0], [2.0, 980.0]]
    >>> str(table.how)
    "data.csv: csv, utf-8, separator ';', decimal ',', names in line 1, 2 rows, 2 columns"
    """
    require("pandas", "cli", f"reading {content.suffix or 'text'}")
    import pandas as pd

    dialect = find_dialect(content)
    try:
        while True:
            try:
                return _read(content, dialect)
            except UnicodeDecodeError:  # further on than the first lines
                dialect = replace(dialect, encoding=_FALLBACKS[dialect.encoding])
    except DataError:
        raise
    except pd.errors.ParserWarning as warning:
        raise DataError(
            f"{content.label}: the rows have more fields than the header, name every column"
        ) from warning
    except (
        ValueError,
        OSError,
        KeyError,
        MemoryError,
        csv.Error,
    ) as error:  # the parsers' own errors are ValueErrors
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        reason = reason.removeprefix("Error tokenizing data. C error: ")
        raise DataError(
            f"{content.label}: cannot be read as {content.suffix[1:] or 'csv'}: {reason}; mend that line"
        ) from error


def _read(content: Content, dialect: Dialect) -> RawTable:
    frame = _parse(content, dialect, header=dialect.names is not False)
    check_size(content.label, *frame.shape)
    named = bool(dialect.names)
    if dialect.names is None:
        named = dialect.cells[0] == "" or not _is_whole(frame)
        if dialect.cells[0] != "":
            what = "the names of the columns" if named else "a row of data"
            last = len(dialect.cells) - 1
            text = f"{content.label}: the first line, 0 to {last}, is read as {what}"
            warnings.warn(text, stacklevel=2)
        if not named:
            frame = _parse(content, dialect, header=False)
    frame = _with_late_codes(frame, content, dialect, header=named)
    frame = _with_whole_numbers(frame, content, dialect, header=named)
    _refuse_short_lines(content, dialect, frame)
    frame = _with_names(frame, dialect, named, content.label)
    frame, formats = convert_text(frame, dialect.decimal)
    how = How(
        content.label,
        "tsv" if dialect.separator == "\t" else "csv",
        *frame.shape,
        dialect.encoding,
        dialect.separator if len(dialect.cells) > 1 else "",
        dialect.decimal,
        "in line 1" if named else "none",
        (f"packed as {content.packing[1:]}",) if content.packing else (),
    )
    return RawTable(frame, how, named, formats)


def _with_late_codes(
    frame: pd.DataFrame, content: Content, dialect: Dialect, *, header: bool
) -> pd.DataFrame:
    """The frame with text for columns of codes whose first zero in front is beyond the first lines."""
    if len(frame) < LINES:
        return frame
    lost = [name for name in frame.columns if _shorter(frame[name])]
    again = _parse(content, dialect, header=header, usecols=lost, dtype=str) if lost else frame
    return frame.assign(
        **{name: again[name] for name in lost if are_codes(again[name].dropna().unique().tolist())}
    )


def _shorter(column: pd.Series[Any]) -> bool:
    """Whether whole numbers have not all as many digits as the largest, which has as many as a code."""
    if column.dtype.kind == "f" and column.isna().any():
        column = whole_numbers(column)
    if column.dtype.kind not in "iu":
        return False
    low, high = int(column.min()), int(column.max())
    return low >= 0 and len(str(high)) >= max(CODE_DIGITS, len(str(low)) + 1)


def _with_whole_numbers(
    frame: pd.DataFrame, content: Content, dialect: Dialect, *, header: bool
) -> pd.DataFrame:
    """The frame with whole numbers where pandas took floats because of gaps; 31.0 is none."""
    lost = [name for name in frame.columns if frame[name].dtype.kind == "f" and frame[name].isna().any()]
    lost = [name for name in lost if bool((frame[name].dropna() % 1 == 0).all())]
    if not lost:
        return frame
    again = _parse(content, dialect, header=header, usecols=lost, dtype_backend="numpy_nullable")
    return frame.assign(**{name: again[name] for name in lost if again[name].dtype.kind in "iu"})


def _parse(content: Content, dialect: Dialect, *, header: bool, **options: Any) -> pd.DataFrame:
    import pandas as pd

    names = [str(j) for j in range(len(dialect.cells))]
    # pandas 2 is off by a last digit unless it is asked; later ones complain if they are
    exact: Any = {"float_precision": "round_trip"} if pd.__version__.startswith("2.") else {}
    with warnings.catch_warnings(), _open(content, dialect) as file:
        warnings.simplefilter("error", pd.errors.ParserWarning)  # fields beyond the header would be lost
        frame: pd.DataFrame = pd.read_csv(
            file,
            sep=dialect.separator,
            decimal=dialect.decimal,
            header=0 if header and not dialect.marked else None,
            names=names,
            index_col=False,
            encoding=dialect.encoding,
            **exact,
            skipinitialspace=True,
            low_memory=False,
            **{"dtype": dict.fromkeys((str(j) for j in dialect.codes), str), **options},
        )
    return frame


def _open(content: Content, dialect: Dialect) -> IO[Any]:
    """The file; without its comments if it has some."""
    if not dialect.comments:
        return content.open()
    return io.StringIO("\n".join(_lines(content, dialect)))


def _lines(content: Content, dialect: Dialect) -> Iterator[str]:
    """Lines without their ends, one at a time, without comments."""
    with io.TextIOWrapper(content.open(), dialect.encoding) as file:
        lines: Iterator[str] = (line.rstrip("\n") for line in file)
        if dialect.marked:
            lines = dropwhile(lambda line: not line.strip() or line.lstrip().startswith("#"), lines)
        for line in lines:
            if not (dialect.comments and dialect.is_comment(line)):
                yield line


def _refuse_short_lines(content: Content, dialect: Dialect, frame: pd.DataFrame) -> None:
    """Raise `DataError` at a line with fewer fields than the first; pandas fills them up in silence."""
    last = frame.iloc[:, -1].isna()
    if not last.any() or (last.all() and dialect.cells[-1] == ""):
        return
    expected = len(dialect.cells)
    lines = _lines(content, dialect)
    if dialect.separator == SPACES:
        numbered: Iterator[tuple[int, Sequence[str]]] = enumerate((line.split() for line in lines), start=1)
    else:
        reader = csv.reader(lines, delimiter=dialect.separator, skipinitialspace=True)
        numbered = ((reader.line_num, row) for row in reader)
    for number, row in numbered:
        if 0 < len(row) < expected and not (len(row) == 1 and not row[0].strip()):
            raise DataError(
                f"{content.label}: line {number} has {len(row)} field(s), the first line has {expected}: "
                "fill up the line, or leave its cells empty between the separators"
            )


def _with_names(frame: pd.DataFrame, dialect: Dialect, named: bool, label: str) -> pd.DataFrame:
    import pandas as pd

    cells = list(dialect.cells)
    names = [cell or f"Unnamed: {j}" for j, cell in enumerate(cells)]
    frame.columns = pd.Index(names if named else generated_names(frame.shape[1]))
    while len(cells) > 1 and cells[-1] == "" and frame.iloc[:, -1].isna().all():  # lines end in a separator
        cells.pop()
        frame = frame.iloc[:, :-1]
    if named and cells[0] == "" and len(cells) > 1:
        if not _is_index(frame.iloc[:, 0]):
            warnings.warn(
                f"{label}: the first column has no name and is left out as row labels: name it to use it",
                stacklevel=2,
            )
        frame = frame.iloc[:, 1:]
    return frame


def _is_whole(frame: pd.DataFrame) -> bool:
    import pandas as pd

    return all(pd.api.types.is_integer_dtype(kind) for kind in frame.dtypes)


def _is_index(column: pd.Series[Any]) -> bool:
    """Whether a column cannot be data: text, nothing at all, or the numbers of the rows."""
    import pandas as pd

    if column.isna().all() or not pd.api.types.is_numeric_dtype(column):
        return True
    return any(np.array_equal(column, np.arange(len(column)) + start) for start in (0, 1))

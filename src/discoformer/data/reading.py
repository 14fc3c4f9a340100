"""Any file with a table in it: which reader it needs, several files as one, standard input, queries."""

from __future__ import annotations

from collections.abc import Sequence
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

from discoformer.core.checks import DataError, show_cell
from discoformer.data.arrays import read_npy, read_npz
from discoformer.data.arrow import read_arrow
from discoformer.data.databases import DATABASES, read_database
from discoformer.data.limits import check_size
from discoformer.data.packed import Content, open_content
from discoformer.data.records import read_json
from discoformer.data.sheets import read_sheet
from discoformer.data.table import How, RawTable, all_names
from discoformer.data.text import read_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["expand_paths", "read_raw"]

# By what the file begins with, where the suffix says nothing.
_MAGIC = {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"\x93NUMPY": ".npy", b"FEA1": ".feather"}
_SHEETS = (".xlsx", ".ods")
_TEXT = (".csv", ".tsv", ".tab", ".txt", ".dat", ".data", ".asc", ".psv", ".ssv")
_OLD = {
    ".xls": ".xlsx",
    ".xlsb": ".xlsx",
    ".xlsm": ".xlsx",
    ".sav": ".csv",
    ".dta": ".csv",
    ".sas7bdat": ".csv",
}


def read_raw(
    paths: str | Path | Sequence[str | Path], query: str | None = None, sheet: str | None = None
) -> RawTable:
    """Read a table with the types that it has.

    Parameters
    ----------
    paths : a file, ``-`` for standard input, a pattern such as ``part-*.csv``, or several of these, which
        must have the same columns and are put together in the order of their names
    query : what to read of a SQLite or DuckDB database
    sheet : of a workbook; the first that holds numbers by default

    Raises
    ------
    DataError
        No such file; a file that is empty, broken, too large, or no table.  The message is one line that
        names the file and what to do.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "one.csv").write_text("day;share\\n31.01.2026;12,5 %\\n")
    ...     _ = Path(folder, "two.csv").write_text("day;share\\n01.02.2026;7 %\\n")
    ...     table = read_raw(f"{folder}/*.csv")
    >>> table.frame.dtypes.map(str).tolist(), table.frame.share.tolist()
    (['datetime64[us]', 'float64'], [12.5, 7.0])
    >>> [rows for _, rows in table.sources]
    [1, 1]
    """
    files = expand_paths(paths)
    tables = [_read_one(path, query, sheet) for path in files]
    if len(tables) == 1:
        return tables[0]
    return _together(tables)


def expand_paths(paths: str | Path | Sequence[str | Path]) -> list[Path]:
    """Files by their names or patterns; a name that exists is no pattern, whatever signs are in it."""
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    files: list[Path] = []
    for path in given:
        if any(sign in str(path) for sign in "*?[") and not Path(path).exists():
            found = sorted(glob(str(path), recursive=True))
            if not found:
                raise DataError(f"{path}: no file fits this pattern")
            files += map(Path, found)
        else:
            files.append(Path(path))
    if not files:
        raise DataError("no file to read")
    return files


def _read_one(path: Path, query: str | None, sheet: str | None) -> RawTable:
    if sheet is not None and path.suffix.lower() not in _SHEETS:
        raise DataError(f"{path}: --sheet is for workbooks ({', '.join(_SHEETS)}): leave it out")
    if path.suffix.lower() in DATABASES:
        return read_database(path, query)
    if query is not None:
        have = ", ".join(DATABASES)
        raise DataError(
            f"{path}: --query is for databases ({have}): read other files whole, and pick --columns"
        )
    content = open_content(path)
    suffix = _suffix(content)
    if suffix == ".npy":
        table = read_npy(content)
    elif suffix == ".npz":
        table = read_npz(content)
    elif suffix in (".parquet", ".pq"):
        table = read_arrow(content, "parquet")
    elif suffix in (".feather", ".arrow", ".ipc"):
        table = read_arrow(content, suffix[1:])
    elif suffix in _SHEETS:
        table = read_sheet(content, sheet)
    elif suffix in (".json", ".jsonl", ".ndjson"):
        table = read_json(content)
    else:
        table = read_text(content)
    if table.frame.shape[1] == 0:
        raise DataError(f"{content.label}: the file has no columns of data")
    if len(table.frame) == 0:
        raise DataError(f"{content.label}: the file has no rows of data")
    return table


def _suffix(content: Content) -> str:
    """The format: by the suffix, or by the first bytes where that says nothing."""
    if content.suffix in _OLD:
        raise DataError(f"{content.label}: cannot be read, save it as {_OLD[content.suffix]}")
    head = content.head(512)
    known = (".npy", ".npz", ".parquet", ".pq", ".feather", ".arrow", ".ipc", *_SHEETS, *_TEXT)
    if content.suffix in (*known, ".json", ".jsonl", ".ndjson"):
        return content.suffix
    for magic, suffix in _MAGIC.items():
        if head.startswith(magic):
            return suffix
    if head.startswith(b"PK\x03\x04"):
        raise DataError(
            f"{content.label}: a zip file of unknown kind: give it the suffix .xlsx, .ods, .npz or .zip"
        )
    if head.lstrip()[:1] in (b"{", b"["):
        return ".json"
    return ".csv"


def _together(tables: Sequence[RawTable]) -> RawTable:
    """Tables of the same columns, one below the other; the order of the first."""
    import pandas as pd

    first = tables[0]
    frames: list[pd.DataFrame] = []
    for table in tables:
        same = sorted(table.names) == sorted(first.names)
        if not same and not (table.named and first.named) and len(table.names) == len(first.names):
            frames.append(table.frame.set_axis(first.frame.columns, axis=1))
        elif same:
            frames.append(table.frame[list(first.frame.columns)])
        else:
            raise DataError(
                f"{table.how.file}: has columns {all_names(table.names)}, but {first.how.file} has "
                f"{all_names(first.names)}: files that are read together need the same"
            )
    check_size("all files together", sum(map(len, frames)), len(first.names))
    frame = pd.concat(frames, ignore_index=True)
    for name in frame.columns:
        kinds = {part[name].dtype.kind for part in frames if part[name].notna().any()}
        if frame[name].dtype == object and len(kinds) > 1:
            odd = next(t for t in tables if t.frame[name].dtype.kind != first.frame[name].dtype.kind)
            raise DataError(
                f"{odd.how.file}: column {show_cell(name)} is {odd.frame[name].dtype}, "
                f"but {first.frame[name].dtype} in {first.how.file}: read together files that have the same"
            )
    sources = tuple((table.how.file, len(table.frame)) for table in tables)
    how = How(f"{len(tables)} files from {sources[0][0]} to {sources[-1][0]}", first.how.format, *frame.shape)
    formats = {name: style for table in reversed(tables) for name, style in table.formats.items()}
    return RawTable(frame, how, first.named, formats, sources)

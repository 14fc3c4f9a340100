"""Tables from databases: SQLite, and DuckDB where it is installed; opened for reading only."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from discoformer.columns.schema_cells import whole_numbers
from discoformer.core.checks import DataError, show_cell
from discoformer.core.extras import require
from discoformer.data.cells import convert_text
from discoformer.data.limits import CELLS_MOST, check_size
from discoformer.data.table import How, RawTable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DATABASES", "read_database"]

DATABASES = (".db", ".sqlite", ".sqlite3", ".duckdb", ".ddb")
_SQLITE = b"SQLite format 3\x00"
_STEP = 100_000  # rows at a time


def read_database(path: Path, query: str | None) -> RawTable:
    """The rows that a query gives; without one, the only table of the database."""
    if not path.exists():
        raise DataError(f"{path}: no such file")
    require("pandas", "cli", "reading databases")
    with path.open("rb") as file:
        is_sqlite = file.read(len(_SQLITE)) == _SQLITE
    return _read_sqlite(path, query) if is_sqlite else _read_duckdb(path, query)


def _read_sqlite(path: Path, query: str | None) -> RawTable:
    import pandas as pd

    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)) as connection:
            if query is None:
                tables = connection.execute("select name from sqlite_master where type in ('table', 'view')")
                query = _only_table(path, [name for (name,) in tables if not name.startswith("sqlite_")])
            pieces: list[pd.DataFrame] = []
            rows = 0
            found = connection.execute(query)
            if found.description is None:
                raise DataError(f"{path}: the query gives no table: begin it with select")
            names = [column[0] for column in found.description]
            while piece := found.fetchmany(_STEP):
                rows += len(piece)
                check_size(str(path), rows, len(names))
                pieces.append(pd.DataFrame(piece, columns=names, dtype=object))
    except sqlite3.Error as error:
        raise DataError(f"{path}: the query failed: {_reason(error)}") from error
    if not pieces:
        raise DataError(f"{path}: the query gives no rows")
    frame = pd.concat(pieces, ignore_index=True)
    columns = [_typed(frame.iloc[:, place]) for place in range(frame.shape[1])]
    return _table(path, "sqlite", pd.concat(columns, axis=1))


def _read_duckdb(path: Path, query: str | None) -> RawTable:
    require("duckdb", "tables", "reading DuckDB databases")
    import duckdb

    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            if query is None:
                names = connection.execute("select table_name from information_schema.tables").fetchall()
                query = _only_table(path, [name for (name,) in names])
            # One row more than there may be, so that a large answer is refused rather than fetched.
            found = connection.sql(query)
            if found is None:
                raise DataError(f"{path}: the query gives no table: begin it with select")
            check_size(str(path), 0, len(found.columns))
            most = CELLS_MOST // max(len(found.columns), 1)
            frame = found.limit(most + 1).df()
            whole = [str(kind).endswith("INT") or str(kind) == "INTEGER" for kind in found.types]
    except duckdb.Error as error:
        raise DataError(f"{path}: the query failed, or it is no database: {_reason(error)}") from error
    check_size(str(path), *frame.shape)
    for name in frame.columns[whole]:
        frame[name] = whole_numbers(frame[name]) if frame[name].dtype.kind == "f" else frame[name]
    return _table(path, "duckdb", frame)


def _typed(cells: pd.Series[Any]) -> pd.Series[Any]:
    """A column of objects in the type that they have; whole numbers with gaps stay whole."""
    import pandas as pd

    what = pd.api.types.infer_dtype(cells, skipna=True)
    if what == "integer" and cells.isna().any():
        return cells.astype("Int64")
    return cells.astype("float64") if what in ("floating", "mixed-integer-float") else cells.infer_objects()


def _only_table(path: Path, names: list[str]) -> str:
    if len(names) != 1:
        have = ", ".join(map(show_cell, names[:8])) or "none"
        raise DataError(f'{path}: name what to read with --query "select ... from ...", its tables: {have}')
    name = names[0].replace('"', '""')
    return f'select * from "{name}"'


def _reason(error: Exception) -> str:
    text = str(error.__cause__ or error).strip()
    return " ".join(text.split())[:200] or type(error).__name__


def _table(path: Path, form: str, frame: Any) -> RawTable:
    names = [str(name) for name in frame.columns]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(f"{path}: two columns {show_cell(twice[0])}: name one of them otherwise with `as`")
    frame.columns = names
    frame, formats = convert_text(frame)
    return RawTable(
        frame, How(str(path), form, len(frame), len(names), further=("by a query",)), formats=formats
    )

"""Tables in workbooks: xlsx and ods, the first sheet that holds numbers."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal

from discoformer.columns.schema_cells import is_number, whole_numbers
from discoformer.core.checks import DataError, one_line, show_cell
from discoformer.core.extras import require
from discoformer.data.cells import convert_text
from discoformer.data.limits import check_size
from discoformer.data.packed import Content, check_zip
from discoformer.data.table import How, RawTable, generated_names, refuse_twice

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_sheet"]

_ENGINES: dict[str, Literal["openpyxl", "odf"]] = {".xlsx": "openpyxl", ".ods": "odf"}


def read_sheet(content: Content, sheet: str | None = None) -> RawTable:
    """A sheet of a workbook; by default the first that holds numbers, or else the first that is not empty.

    Empty rows and columns around the table are left out, and titles above it, with a warning.  Names are in
    the first row, unless that has numbers only.
    """
    engine = _ENGINES[content.suffix]
    require("pandas", "cli", f"reading {content.suffix}")
    require(engine, "tables", f"reading {content.suffix}")
    import pandas as pd

    check_zip(content)
    broken = one_line(f"{content.label}: not a {content.suffix[1:]} file, or a broken one")
    with broken, content.open() as file, pd.ExcelFile(file, engine=engine) as book:
        sheets = list(map(str, book.sheet_names))
        if sheet is not None and sheet not in sheets:
            have = ", ".join(map(show_cell, sheets[:8]))
            raise DataError(f"{content.label}: no sheet {show_cell(sheet)}, it has {have}")
        found: dict[str, pd.DataFrame] = {}
        for name in sheets if sheet is None else [sheet]:
            cells = pd.read_excel(book, sheet_name=name, header=None)
            cells = cells.dropna(how="all").dropna(how="all", axis=1)
            if cells.size:
                found[name] = cells
                if _holds_numbers(cells):
                    break
    if not found:
        raise DataError(f"{content.label}: the file has nothing in it")
    name = next((name for name, cells in found.items() if _holds_numbers(cells)), next(iter(found)))
    cells = _without_title(found[name], content.label)
    row = int(cells.index[0]) + 1
    check_size(content.label, *cells.shape)
    cells = cells.reset_index(drop=True)
    first = cells.iloc[0].tolist()
    named = any(isinstance(cell, str) and not is_number(cell) for cell in first)
    names = _names(first, content.label) if named else generated_names(len(first))
    frame = (cells.iloc[1:] if named else cells).reset_index(drop=True)
    frame.columns = pd.Index(names)
    frame, formats = convert_text(_inferred(frame))
    further = (f"sheet {show_cell(name)}" + (f" of {len(sheets)}" if len(sheets) > 1 else ""),)
    how = How(
        content.label,
        content.suffix[1:],
        *frame.shape,
        header=f"in row {row}" if named else "none",
        further=further,
    )
    return RawTable(frame, how, named, formats)


def _holds_numbers(cells: pd.DataFrame) -> bool:
    """Whether there is anything but text below the first row: a cover sheet has nothing else."""
    return any(not isinstance(cell, str) and cell == cell for cell in cells.iloc[1:].to_numpy().flat)


def _without_title(cells: pd.DataFrame, label: str) -> pd.DataFrame:
    """The cells without the rows above the table that have a single text each; warns of them."""
    alone = (cells.notna().sum(axis=1) == 1).to_numpy()
    title = int(alone.argmin()) if not alone.all() else 0
    texts = [cell for cell in cells.iloc[:title].to_numpy().flat if cell == cell]
    if not title or not all(isinstance(cell, str) for cell in texts):
        return cells
    what = show_cell(texts[0])
    warnings.warn(f"{label}: left out {title} row(s) above the names of the columns ({what})", stacklevel=2)
    return cells.iloc[title:].dropna(how="all", axis=1)


def _names(cells: list[Any], label: str) -> list[str]:
    names = [f"Unnamed: {j}" if cell != cell else str(cell).strip() for j, cell in enumerate(cells)]
    refuse_twice(names, label)
    return names


def _inferred(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns of one type where their cells have one; the row of names had made them objects."""
    frame = frame.infer_objects()
    for name in frame.columns:
        if frame[name].dtype.kind == "f":  # a sheet does not tell 31 from 31.0, and gaps make floats of both
            frame[name] = whole_numbers(frame[name])
    return frame

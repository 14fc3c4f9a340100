"""Tables in workbooks: xlsx and ods, the first sheet that has something in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from discoformer.columns.schema_cells import is_number, whole_numbers
from discoformer.core.checks import DataError, one_line, show_cell
from discoformer.core.extras import require
from discoformer.data.cells import convert_text
from discoformer.data.limits import check_size
from discoformer.data.packed import Content, check_zip
from discoformer.data.table import How, RawTable, generated_names

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_sheet"]

_ENGINES: dict[str, Literal["openpyxl", "odf"]] = {".xlsx": "openpyxl", ".ods": "odf"}


def read_sheet(content: Content) -> RawTable:
    """The first sheet of a workbook that is not empty.

    Empty rows and columns around the table are left out.  Names are in the first row, unless that has
    numbers only.
    """
    engine = _ENGINES[content.suffix]
    require("pandas", "cli", f"reading {content.suffix}")
    require(engine, "tables", f"reading {content.suffix}")
    import pandas as pd

    check_zip(content)
    broken = one_line(f"{content.label}: not a {content.suffix[1:]} file, or a broken one")
    with broken, content.open() as file, pd.ExcelFile(file, engine=engine) as book:
        sheets = list(map(str, book.sheet_names))
        for sheet in sheets:
            cells = pd.read_excel(book, sheet_name=sheet, header=None)
            cells = cells.dropna(how="all").dropna(how="all", axis=1)
            if cells.size:
                break
    if not cells.size:
        raise DataError(f"{content.label}: the file has nothing in it")
    check_size(content.label, *cells.shape)
    cells = cells.reset_index(drop=True)
    first = cells.iloc[0].tolist()
    named = not all(_is_data(cell) for cell in first)
    names = _names(first, content.label) if named else generated_names(len(first))
    frame = (cells.iloc[1:] if named else cells).reset_index(drop=True)
    frame.columns = pd.Index(names)
    frame, formats = convert_text(_inferred(frame))
    further = (f"sheet {show_cell(sheet)}" + (f" of {len(sheets)}" if len(sheets) > 1 else ""),)
    how = How(
        content.label,
        content.suffix[1:],
        *frame.shape,
        header="in row 1" if named else "none",
        further=further,
    )
    return RawTable(frame, how, named, formats)


def _is_data(cell: Any) -> bool:
    return not isinstance(cell, str) or is_number(cell)


def _names(cells: list[Any], label: str) -> list[str]:
    names = [f"Unnamed: {j}" if cell != cell else str(cell).strip() for j, cell in enumerate(cells)]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(f"{label}: two columns {show_cell(twice[0])}: rename one of them")
    return names


def _inferred(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns of one type where their cells have one; the row of names had made them objects."""
    frame = frame.infer_objects()
    for name in frame.columns:
        if frame[name].dtype.kind == "f":  # a sheet does not tell 31 from 31.0, and gaps make floats of both
            frame[name] = whole_numbers(frame[name])
    return frame

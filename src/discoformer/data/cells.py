"""Cells that came as text: numbers with signs, dates and times, a column at a time, all of it or nothing."""

from __future__ import annotations

import re
import warnings
from collections.abc import Hashable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from discoformer.columns.schema_cells import CellFormat, parse_numbers
from discoformer.core.checks import show_cell

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["convert_text", "is_date"]

# Day before month with points and dashes; with slashes whichever fits all cells, the month first if both do.
_DAYS = (
    *("%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d.%m.%y", "%d-%m-%Y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y"),
)
_MONTH = re.compile(r"(?:19|20)\d{2}-(?:0[1-9]|1[0-2])")
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_ISO = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}(?::?\d{2}(?::?\d{2}(?:[.,]\d+)?)?)?(?: ?(?:Z|[-+]\d{2}:?\d{2}))?)?"
)
_OTHER = re.compile(
    r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}.{0,15}|\d{1,2}[- ][A-Za-z]{3,9}[- ]\d{4}.{0,15}|[A-Za-z]{3,9} \d.{6,20}"
)
_CLOCK = re.compile(r"\d{1,3}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?")
# Spans of time are times of the day if none reaches a day, they are spread over half of it at least, some
# are in the evening, and the name does not say otherwise.
_DAY, _SPREAD, _EVENING = 86_400.0, 43_200.0, 64_800.0
_SPAN_NAME = re.compile(
    r"duration|elapsed|took|spent|length|runtime|span|dauer|durée|total|sum", re.IGNORECASE
)
_PROBED = 50  # cells of a column of text that are looked at for a warning


def is_date(cell: str) -> bool:
    """Whether a cell is a date in one of the usual ways.

    >>> is_date("2026-01-31"), is_date("31.01.2026 12:30"), is_date("1.5"), is_date("May")
    (True, True, False, False)
    """
    cell = cell.strip()
    return _ISO.fullmatch(cell) is not None or bool(_formats(cell))


def convert_text(
    frame: pd.DataFrame, decimal: str = ".", *, numbers: bool = True
) -> tuple[pd.DataFrame, dict[str, CellFormat]]:
    """A frame with numbers and dates for the columns of text that hold them; and how those were written.

    >>> import pandas as pd
    >>> frame, formats = convert_text(pd.DataFrame({"a": ["5 %", "7.5 %"], "b": ["31.01.2026", None]}))
    >>> frame.a.tolist(), str(frame.b[0]), formats["b"].date
    ([5.0, 7.5], '2026-01-31 00:00:00', '%d.%m.%Y')
    """
    import pandas as pd

    columns: dict[int, Any] = {}
    formats: dict[str, CellFormat] = {}
    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place]
        if not (column.dtype == object or isinstance(column.dtype, pd.StringDtype)):
            continue
        if pd.api.types.infer_dtype(column, skipna=True) == "string":
            column = column.str.strip()
            columns[place] = column = column.mask(column == "")
        elif not all(isinstance(cell, Hashable) for cell in column):  # lists and the like
            continue
        parsed = parse_numbers(column, decimal) if numbers else None
        parsed = parsed or _parse_times(column)
        if parsed is not None:
            columns[place], formats[str(name)] = parsed
    if not columns:
        return frame, formats
    parts = [columns.get(place, frame.iloc[:, place]) for place in range(frame.shape[1])]
    converted = pd.concat(parts, axis=1)
    converted.columns = frame.columns
    return converted, formats


def _parse_times(column: pd.Series[Any]) -> tuple[pd.Series[Any], CellFormat] | None:
    """Dates or spans of time, if all cells are; None otherwise."""

    texts = column.dropna().unique().tolist()
    if not texts or not all(isinstance(text, str) for text in texts):
        return None
    if all(map(_CLOCK.fullmatch, texts)):
        return _parse_clock(column, texts)
    if all(map(_MONTH.fullmatch, texts)):
        return _look_up(column, _to_dates(texts, "%Y-%m")), CellFormat(date="%Y-%m")
    if all(map(_ISO.fullmatch, texts)):
        try:
            dates = _to_dates(texts, "ISO8601")
        except ValueError:  # offsets that differ, or a 31st of June
            _warn_of_dates(column, texts)
            return None
        return _look_up(column, dates), CellFormat(date="ISO8601")
    fits: list[tuple[str, pd.Series[Any]]] = []
    for form in _formats(texts[0]):
        with suppress(ValueError):
            fits.append((form, _to_dates(texts, form)))
    if not fits:
        _warn_of_dates(column, texts)
        return None
    if len(fits) > 1:
        text = (
            f"column {show_cell(column.name)}: dates such as {show_cell(texts[0])} are read as {fits[0][0]}"
        )
        warnings.warn(text, stacklevel=2)
    return _look_up(column, fits[0][1]), CellFormat(date=fits[0][0])


def _parse_clock(column: pd.Series[Any], texts: list[str]) -> tuple[pd.Series[Any], CellFormat]:
    """Spans of time, or times of the day."""
    import pandas as pd

    spans = pd.to_timedelta([text if text.count(":") == 2 else f"{text}:00" for text in texts])
    style = CellFormat(date="%H:%M" if all(text.count(":") == 1 for text in texts) else "%H:%M:%S")
    if not _are_times_of_day(str(column.name), spans.total_seconds()):
        return _look_up(column, pd.Series(spans, index=texts)), style
    times = _look_up(column, pd.Series((pd.Timestamp(0) + spans).time, index=texts, dtype=object))
    return times.where(column.notna(), None), style


def _are_times_of_day(name: str, seconds: pd.Index[float]) -> bool:
    low, high = float(seconds.min()), float(seconds.max())
    inside = high < _DAY and high >= _EVENING and high - low >= _SPREAD
    return inside and _SPAN_NAME.search(name) is None


def _warn_of_dates(column: pd.Series[Any], texts: list[str]) -> None:
    """Say so if cells are dates, each by itself, that no one format fits."""
    if all(map(is_date, texts[:_PROBED])):
        shown = ", ".join(map(show_cell, texts[:3]))
        what = f"dates such as {shown} stay text, since no one way to write them fits all: write them alike"
        warnings.warn(f"column {show_cell(column.name)}: {what}", stacklevel=2)


def _formats(cell: str) -> list[str]:
    """Formats that one cell is in."""
    if not _OTHER.fullmatch(cell):
        return []
    fits = []
    for form in (day + time for day in _DAYS for time in _TIMES):
        try:
            datetime.strptime(cell, form)
        except ValueError:
            continue
        fits.append(form)
    return fits


def _to_dates(texts: list[str], form: str) -> pd.Series[Any]:
    import pandas as pd

    return pd.Series(pd.to_datetime(texts, format=form), index=texts)


def _look_up(column: pd.Series[Any], values: pd.Series[Any]) -> pd.Series[Any]:
    found = values.reindex(column.to_numpy(dtype=object))
    return found.set_axis(column.index)

"""How a table was written, so that others are written alike: separator, decimal sign, dates, units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from discoformer.columns.schema_cells import CellFormat
from discoformer.columns.schema_rules import decimals_of
from discoformer.data.table import RawTable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PLAIN", "TextStyle", "style_of"]

CLOCKS = ("%H:%M", "%H:%M:%S")  # formats of times of the day and of spans of time


@dataclass(frozen=True)
class TextStyle:
    """Signs of a text table, and how the cells of its columns are written where that is not plain.

    With ``neutral`` nothing in it is a formula to a spreadsheet.
    """

    separator: str = ","
    decimal: str = "."
    formats: Mapping[str, CellFormat] = field(default_factory=dict)
    neutral: bool = False

    def written(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame with text in the columns that have a format of their own.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"price": [1234.5, None], "day": pd.to_datetime(["2026-01-31", None])})
        >>> euros = CellFormat(decimal=",", thousands=".", unit=" €")
        >>> style = TextStyle(";", ",", {"price": euros, "day": CellFormat(date="%d.%m.%Y")})
        >>> style.written(frame).iloc[0].tolist()
        ['1.234,5 €', '31.01.2026']
        """
        changed = {}
        for name, style in self.formats.items():
            if name not in frame.columns:
                continue
            column = frame[name]
            if column.dtype.kind == "M" and style.date not in ("", "ISO8601"):
                changed[name] = column.dt.strftime(style.date)
            elif column.dtype.kind == "m":
                changed[name] = column.map(partial(_clock, form=style.date), na_action="ignore")
            elif column.dtype == object and style.date in CLOCKS:
                changed[name] = column.map(
                    lambda time, form=style.date: time.strftime(form), na_action="ignore"
                )
            elif column.dtype.kind in "iuf" and (style.unit or style.thousands or style.brackets):
                changed[name] = _with_units(column, style)
        return frame.assign(**changed) if changed else frame


PLAIN = TextStyle()


def style_of(raw: RawTable | None, suffix: str = ".csv") -> TextStyle:
    """The style of a table that was read; plain if that was no text.

    >>> style_of(None, ".tsv").separator
    '\\t'
    """
    how = None if raw is None else raw.how
    decimal = how.decimal if how is not None and how.decimal == "," else "."
    separator = how.separator if how is not None and len(how.separator) == 1 else ""
    separator = "\t" if suffix == ".tsv" else separator
    if not separator or separator in (decimal, " "):
        separator = ";" if decimal == "," else ","
    return TextStyle(separator, decimal, {} if raw is None else raw.formats)


def _clock(span: Any, form: str) -> str:
    """A span of time as hours, minutes and perhaps seconds, the hours beyond a day if there are."""
    sign, seconds = ("-", -span) if span.total_seconds() < 0 else ("", span)
    minutes, second = divmod(seconds.total_seconds(), 60)
    hours, minute = divmod(int(minutes), 60)
    text = f"{sign}{hours:02d}:{minute:02d}"
    return text if form == CLOCKS[0] else f"{text}:{second:02.0f}"


def _with_units(column: pd.Series[Any], style: CellFormat) -> pd.Series[Any]:
    there = column[column.notna()].to_numpy(dtype=np.float64)
    decimals = decimals_of(there)
    decimals = max(decimals, style.decimals) if decimals >= 0 else decimals

    def cell(number: float) -> str:
        text = f"{abs(number):,.{decimals}f}" if decimals >= 0 else f"{abs(number):,}"
        whole, _, rest = text.partition(".")
        text = whole.replace(",", style.thousands) + (style.decimal + rest if rest else "")
        text = style.unit + text if style.unit_first else text + style.unit
        if number < 0:
            return f"({text})" if style.brackets else f"-{text}"
        return text

    return column.astype(object).map(cell, na_action="ignore")

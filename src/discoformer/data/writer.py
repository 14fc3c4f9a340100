"""Tables written piece by piece: csv, tsv, npy, parquet; text in the style of the table that was read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import NDArray

from discoformer.columns.schema_cells import CellFormat
from discoformer.columns.schema_rules import decimals_of
from discoformer.core.atomic_files import replacing
from discoformer.core.checks import DataError, show_cell
from discoformer.data.table import RawTable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PLAIN", "TextStyle", "neutral", "output_writer", "style_of", "table_writer"]

Write = Callable[[Any], None]  # takes numbers (k, d) or a frame
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


def neutral(names: Sequence[str]) -> list[str]:
    """Names with an apostrophe before what a spreadsheet would take for a formula.

    Some of them drop invisible characters first, and know the wide signs of East Asian keyboards.

    >>> neutral(["=1+1", "size", "@sum", "\\ufeff=1+1", "\\uff1d1"])
    ["'=1+1", 'size', "'@sum", "'\\ufeff=1+1", "'\uff1d1"]
    """
    return [f"'{name}" if _is_formula(name) else name for name in names]


def _is_formula(text: str) -> bool:
    seen = (character for character in text if character.isprintable() and not character.isspace())
    return next(seen, "") in tuple("=+-@\uff1d\uff0b\uff0d\uff20")


@contextmanager
def output_writer(path: Path, names: Sequence[str], rows: int, style: TextStyle = PLAIN) -> Iterator[Write]:
    """The same to a file that takes its place when all is written, or as csv to standard output (``-``).

    >>> with output_writer(Path("-"), ["a", "b"], rows=1) as write:
    ...     write(np.zeros((1, 2)))
    a,b
    0.0,0.0
    """
    if str(path) == "-":
        with _text_writer(sys.stdout, names, style) as write:
            yield write
        return
    suffix = path.suffix.lower()
    with replacing(path) as temporary, table_writer(temporary, suffix, names, rows, style) as write:
        yield write


@contextmanager
def table_writer(
    path: Path, suffix: str, names: Sequence[str], rows: int, style: TextStyle = PLAIN
) -> Iterator[Write]:
    """A function that appends rows to a new table in the format of ``suffix``, ``rows`` in all.

    Rows are numbers (k, d) or frames with columns of any type.  An npy file holds numbers only.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with table_writer(Path(folder) / "part", ".npy", ["a", "b"], rows=3) as write:
    ...         write(np.zeros((2, 2)))
    ...         write(np.ones((1, 2)))
    ...     np.load(Path(folder) / "part").tolist()
    [[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    """
    if suffix == ".npy":
        with path.open("wb") as file:
            header = {"descr": "<f8", "fortran_order": False, "shape": (rows, len(names))}
            np.lib.format.write_array_header_1_0(file, header)
            yield lambda piece: _append(file, piece)
        return
    if suffix == ".parquet":
        with _ParquetWriter(path, names) as write:
            yield write
        return
    with _text_writer(path, names, style) as append:
        yield append


def _append(file: Any, piece: Any) -> None:
    file.write(_numbers(piece).astype("<f8").tobytes())


def _numbers(piece: Any) -> NDArray[np.float64]:
    """The numbers of a piece; `DataError` names the first column that has none."""
    if isinstance(piece, np.ndarray):
        return piece
    for name in piece.columns:
        if piece[name].dtype.kind not in "biuf":
            raise DataError(
                f"column {show_cell(name)} holds no numbers, and npy nothing else: write .csv or .parquet"
            )
    return np.asarray(piece.to_numpy(dtype=np.float64, na_value=np.nan))


def _frame(piece: Any, names: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(piece, columns=list(names)) if isinstance(piece, np.ndarray) else piece


def _without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with an apostrophe before texts that a spreadsheet would take for a formula."""

    def cell(value: Any) -> Any:
        return neutral([value])[0] if isinstance(value, str) else value

    texts = [name for name in frame.columns if frame[name].dtype.kind not in "biufmM"]
    return frame.assign(**{name: frame[name].map(cell, na_action="ignore") for name in texts})


class _ParquetWriter:
    """Pieces as row groups; the first one decides the types."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.path, self.names = path, names
        self.writer: Any = None

    def __enter__(self) -> Write:
        return self.write

    def write(self, piece: Any) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pandas(_frame(piece, self.names), preserve_index=False)
        if self.writer is None:
            self.writer = pq.ParquetWriter(self.path, table.schema)
        self.writer.write_table(table.cast(self.writer.schema))

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self.writer is None and kind is None:  # a table without rows
            self.write(np.empty((0, len(self.names))))
        if self.writer is not None:
            self.writer.close()


@contextmanager
def _text_writer(to: Path | TextIO, names: Sequence[str], style: TextStyle) -> Iterator[Write]:
    first = True

    def append(piece: Any) -> None:
        nonlocal first
        frame = style.written(_frame(piece, names))
        if style.neutral:
            frame = _without_formulas(frame).set_axis(list(names), axis=1)
        frame.to_csv(
            to,
            index=False,
            sep=style.separator,
            decimal=style.decimal,
            mode="w" if first else "a",
            header=first,
        )
        first = False

    yield append


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

"""Tables on the terminal, drawn by rich where it is installed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

__all__ = ["cell_text", "json_cell", "print_table"]


def cell_text(value: Any) -> str:
    """A value of any type for a cell of the terminal, in few digits and without control characters.

    >>> cell_text(0.12345678), cell_text("a\x1b"), cell_text(None), cell_text(float("nan"))
    ('0.123457', 'a', '', '')
    """
    if _is_gap(value):
        return ""
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    text = str(json_cell(value))
    text = "".join(character for character in text if character.isprintable())
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def json_cell(value: Any) -> Any:
    """A value of any type as JSON can hold it: gaps are null, dates are text.

    >>> json_cell(float("nan")), json_cell(True), json_cell(3)
    (None, True, 3)
    """
    if _is_gap(value):
        return None
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, bool | int | float | str):
        return value
    return str(value).removesuffix(" 00:00:00").removeprefix("0 days ")


def _is_gap(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA has no truth value
        return True


SHOWN = 40  # characters of a cell


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text under a header, aligned to the right.

    >>> print_table(["row", "log density"], [["0", "-1.25"], ["12", "-3.5"]])
    row  log density
      0        -1.25
     12         -3.5
    """
    # the name of a column may contain control characters
    header, *rows = (["".join(filter(str.isprintable, cell)) for cell in row] for row in (header, *rows))
    if sys.stdout.isatty() and find_spec("rich"):
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, header_style="bold")
        for name in header:
            table.add_column(Text(name), justify="right")  # Text: a name may hold [brackets]
        for row in rows:
            table.add_row(*map(Text, row))
        Console().print(table)
        return
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in [header, *rows]:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))

"""Tables on the terminal, by rich where it is installed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

__all__ = ["print_table"]


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text under a header, aligned to the right.

    >>> print_table(["row", "log density"], [["0", "-1.25"], ["12", "-3.5"]])
    row  log density
      0        -1.25
     12         -3.5
    """
    # a name of a column may hold what a terminal takes for a command
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

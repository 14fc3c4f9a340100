"""What the commands print: tables and progress bars, with rich where it is installed, plain otherwise."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence, Sized
from importlib.util import find_spec
from typing import TypeVar

__all__ = ["print_table", "track"]

T = TypeVar("T")


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text under a header, aligned to the right.

    >>> print_table(["row", "log density"], [["0", "-1.25"], ["12", "-3.5"]])
    row  log density
      0        -1.25
     12         -3.5
    """
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


def track(items: Iterable[T], label: str, total: int | None = None) -> Iterable[T]:
    """Iterate with a progress bar on standard error, if that is a terminal and there is more than one item.

    What has no length needs a ``total``.

    >>> list(track([1, 2], "counting"))
    [1, 2]
    """
    count = len(items) if isinstance(items, Sized) else total
    if count is None or count < 2 or not sys.stderr.isatty() or not find_spec("rich"):
        return items
    from rich.console import Console
    from rich.progress import track as rich_track

    console = Console(stderr=True)
    return rich_track(items, description=label, total=count, console=console, transient=True)

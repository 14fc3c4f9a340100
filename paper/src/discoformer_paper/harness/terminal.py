"""What is printed: progress bars, and tables that fold where the terminal is too narrow."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from discoformer.core.progress import track
from discoformer.views.terminal import print_table

__all__ = ["print_folded", "track"]


def print_folded(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; columns that do not fit go into further tables with the same first column.

    >>> print_folded(["", "first column", "second column"], [["a", "1", "2"]])
       first column  second column
    a             1              2
    """
    room = shutil.get_terminal_size((110, 24)).columns
    widths = [max(map(len, cells)) + 2 for cells in zip(header, *rows, strict=True)]
    start = 1
    while start < len(header):
        end = start + 1
        while end < len(header) and widths[0] + sum(widths[start : end + 1]) <= room:
            end += 1
        shown, *lines = ([line[0], *line[start:end]] for line in (header, *rows))
        print_table(shown, lines)
        start = end

"""A bar for a pass over many rows: what is done, how fast, how long it will still take."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

__all__ = ["follow"]


@contextmanager
def follow(label: str, rows: int | None, show: bool) -> Iterator[Callable[[int], None]]:
    """A function to be told of rows done; draws only if asked to, on a terminal, and where rich is installed.

    >>> with follow("reading", 10, show=False) as advance:
    ...     advance(10)
    """
    if not show or not sys.stderr.isatty() or not find_spec("rich"):
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(TextColumn):
        def __init__(self) -> None:
            super().__init__("")

        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed / 1e6:.2f} million rows/s")

    columns = (TextColumn(label), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    console = Console(stderr=True)
    with Progress(*columns, Rate(), TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task("", total=rows)
        yield lambda done: progress.advance(task, done)

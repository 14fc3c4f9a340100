"""Progress on the terminal: label, bar, rate and time left.

Nothing is shown where standard error is not a terminal or rich is not installed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Protocol, TypeVar

__all__ = ["Advance", "follow", "silent", "track"]

T = TypeVar("T")


class Advance(Protocol):
    """Tell a bar how much has been done since the last call, with a note to show beside the label."""

    def __call__(self, done: int = 1, note: str = "") -> None: ...


def silent(done: int = 1, note: str = "") -> None:
    """An `Advance` that shows nothing."""


def track(items: Iterable[T], label: str, total: int | None = None, unit: str = "steps") -> Iterator[T]:
    """Iterate with a bar, if there is more than one item; give the ``total`` of what has no length.

    >>> list(track([1, 2], "counting"))
    [1, 2]
    """
    count = len(items) if isinstance(items, Sized) else total
    with follow(label, count, count is not None and count > 1, unit) as advance:
        for item in items:
            yield item
            advance()


@contextmanager
def follow(
    label: str, total: int | None, show: bool = True, unit: str = "rows", done: int = 0
) -> Iterator[Advance]:
    """A bar for the block, and the function that advances it.

    Parameters
    ----------
    label : in front of the bar
    total : how much there is to do, or None if that is not known
    show : False for no bar
    unit : what is counted
    done : how much was done before

    Examples
    --------
    >>> with follow("reading", 10) as advance:
    ...     advance(10)
    """
    if not show or not sys.stderr.isatty() or not find_spec("rich"):
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(_rate(task.speed, unit))

    bar = Progress(
        TextColumn("{task.description} {task.fields[note]}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        Rate(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # what goes to a file must not land on the terminal
    )
    with bar:
        task = bar.add_task(label, total=total, completed=done, note="")

        def advance(done: int = 1, note: str = "") -> None:
            bar.update(task, advance=done, note=note)

        yield advance


def _rate(speed: float | None, unit: str) -> str:
    """How fast it goes.

    >>> _rate(2.5e6, "rows"), _rate(0.25, "steps"), _rate(None, "steps")
    ('2.50 million rows/s', '0.25 steps/s', '')
    """
    if speed is None:
        return ""
    return f"{speed / 1e6:.2f} million {unit}/s" if speed >= 1e6 else f"{speed:,.2f} {unit}/s"

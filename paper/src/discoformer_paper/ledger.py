"""Measurements in a CSV file, found by key: what is on disk is not computed again.

A line is appended, and on disk, when `Ledger.add` returns, so that an interrupted run goes on where it
stopped.  `Rows` is what a table or a figure is made of: the lines of a ledger, selected and averaged.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from discoformer.core.checks import DataError
from discoformer.core.files import replacing

__all__ = ["Ledger", "Row", "Rows"]


@dataclass(frozen=True)
class Row:
    """One measurement: the text that identifies it, and its numbers."""

    key: Mapping[str, str]
    values: Mapping[str, float]


class Rows:
    """Measurements, in the order of their file.

    In the column ``method`` a network is ``name@fingerprint``; here it goes by its name alone.

    >>> rows = Rows([Row({"n": n, "method": "net@1f"}, {"error": 1 / int(n)}) for n in ("4", "2", "4")])
    >>> rows.numbers("n"), rows.where(n=4, method="net").mean("error")
    ([2, 4], 0.25)
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = list(rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def where(self, **fixed: object) -> Rows:
        """The rows whose key has these entries."""
        wanted = {name: str(value) for name, value in fixed.items()}
        return Rows(row for row in self if all(_entry(row, name) == wanted[name] for name in wanted))

    def entries(self, name: str) -> list[str]:
        """Different entries of a column of the key, in the order of their first row."""
        return list(dict.fromkeys(_entry(row, name) for row in self))

    def numbers(self, name: str) -> list[int | float]:
        """Different entries of a column of the key, as numbers in increasing order."""
        return sorted(int(text) if text.isdigit() else float(text) for text in self.entries(name))

    def values(self, name: str) -> NDArray[np.float64]:
        """A column of numbers, (rows,)."""
        return np.array([row.values[name] for row in self], dtype=np.float64)

    def mean(self, name: str) -> float:
        """Mean of a column; NaN without rows.  Summed exactly, so that it is the same everywhere."""
        return math.fsum(self.values(name)) / len(self) if self._rows else math.nan

    def sum(self, name: str) -> float:
        """Sum of a column, exactly rounded."""
        return math.fsum(self.values(name))

    def standard_error(self, name: str) -> float:
        """Standard error of `mean`; NaN for fewer than two rows."""
        if len(self) < 2:
            return math.nan
        return float(np.std(self.values(name), ddof=1)) / math.sqrt(len(self))


def _entry(row: Row, name: str) -> str:
    text = row.key[name]
    return text.partition("@")[0] if name == "method" else text


class Ledger:
    """Lines of a CSV file by key.

    Parameters
    ----------
    path : the file; it need not exist
    keys : columns of text that tell measurements apart
    values : columns of numbers
    run : what new lines say in a last column ``run``; None for a file without this column

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "errors.csv"
    ...     _ = Ledger(path, ("n", "method"), ("error",)).add((64, "kde"), {"error": 0.25})
    ...     Ledger(path, ("n", "method"), ("error",)).get(64, "kde")
    {'error': 0.25}
    """

    def __init__(
        self, path: Path, keys: Sequence[str], values: Sequence[str], run: str | None = None
    ) -> None:
        self.path, self.keys, self.values, self.run = path, tuple(keys), tuple(values), run
        self._lines: dict[tuple[str, ...], tuple[dict[str, float], str]] = {}
        if path.exists():
            self._read()

    def __len__(self) -> int:
        return len(self._lines)

    def __contains__(self, key: Sequence[object]) -> bool:
        return tuple(map(str, key)) in self._lines

    def get(self, *key: object) -> dict[str, float] | None:
        """The numbers of a measurement, None if it has not been made."""
        line = self._lines.get(tuple(map(str, key)))
        return None if line is None else line[0]

    def add(self, key: Sequence[object], values: Mapping[str, float]) -> dict[str, float]:
        """Keep a measurement; returns its numbers as they are in the file, with eight digits."""
        texts = tuple(map(str, key))
        rounded = {name: float(f"{values[name]:.8g}") for name in self.values}
        self._lines[texts] = (rounded, self.run or "")
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._write(self.path, [self._header()])
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerow(self._cells(texts))
        return rounded

    def forget(self, stale: Callable[[dict[str, str]], bool]) -> int:
        """Drop the lines whose key is stale, from the file too; returns their number."""
        old = [key for key in self._lines if stale(dict(zip(self.keys, key, strict=True)))]
        for key in old:
            del self._lines[key]
        if old:
            self._rewrite()
        return len(old)

    def arrange(self, keys: Iterable[Sequence[object]]) -> None:
        """Put the lines with these keys into this order, in the file too; all others keep their places."""
        asked = dict.fromkeys(tuple(map(str, key)) for key in keys)
        wanted = iter([texts for texts in asked if texts in self._lines])
        order = [next(wanted) if texts in asked else texts for texts in self._lines]
        if order != list(self._lines):
            self._lines = {texts: self._lines[texts] for texts in order}
            self._rewrite()

    def rows(self) -> Rows:
        """All measurements."""
        return Rows(Row(dict(zip(self.keys, k, strict=True)), v) for k, (v, _) in self._lines.items())

    def run_of(self, *key: object) -> str | None:
        """What the column ``run`` says of a measurement, None if it has not been made."""
        line = self._lines.get(tuple(map(str, key)))
        return None if line is None else line[1]

    def runs(self) -> list[str]:
        """The different entries of the column ``run``."""
        return list(dict.fromkeys(run for _, run in self._lines.values()))

    def _header(self) -> list[str]:
        return [*self.keys, *self.values, *([] if self.run is None else ["run"])]

    def _cells(self, key: tuple[str, ...]) -> list[str]:
        values, run = self._lines[key]
        return [*key, *(f"{values[name]:.8g}" for name in self.values), *([] if self.run is None else [run])]

    def _read(self) -> None:
        text = self.path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]  # a run was killed while it wrote a line that has no end
        header, *lines = csv.reader(io.StringIO(whole)) if whole else [self._header()]
        if header != self._header():
            raise DataError(f"{self.path} has columns {', '.join(header)}: move it away to measure anew")
        count = len(self.keys)
        for number, line in enumerate(lines, 2):
            try:
                numbers = [float(cell) for cell in line[count : count + len(self.values)]]
                values = dict(zip(self.values, numbers, strict=True))
                if len(line) != len(header):
                    raise ValueError
            except ValueError:
                raise DataError(f"{self.path}: line {number} is damaged: remove it") from None
            self._lines[tuple(line[:count])] = (values, "" if self.run is None else line[-1])
        if whole != text:
            self._rewrite()

    def _rewrite(self) -> None:
        with replacing(self.path) as temporary:
            self._write(temporary, [self._header(), *map(self._cells, self._lines)])

    @staticmethod
    def _write(path: Path, lines: Sequence[Sequence[str]]) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)

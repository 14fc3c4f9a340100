"""Measurements in a CSV file, found by key: what is on disk is not measured again.

`Ledger.add` appends one line to the file, so an interrupted run continues where it stopped.  `Rows` are the
lines of a ledger as a data frame, to be selected and averaged for tables and figures.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discoformer.core.atomic_files import replacing
from discoformer.core.checks import DataError
from discoformer_paper.harness.measured import pooled_ratio

__all__ = ["Ledger", "Rows", "write_csv"]

_DATA_SETS = ("seed", "repeat")  # columns of the key that tell data sets apart


class Rows:
    """Measurements, in the order of their file.

    Columns of the key are text, all others are numbers.  In the column ``method`` of a file a network is
    ``name@fingerprint``; here it goes by its name alone.

    >>> rows = Rows({"n": n, "method": "net", "error": 1 / int(n)} for n in ("4", "2", "4"))
    >>> rows.numbers("n"), rows.where(n=4, method="net").mean("error")
    ([2, 4], 0.25)
    """

    def __init__(self, rows: pd.DataFrame | Iterable[Mapping[str, object]]) -> None:
        self.frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))

    def __len__(self) -> int:
        return len(self.frame)

    def where(self, **fixed: object) -> Rows:
        """The rows whose key has these entries; a list or a set stands for any of its entries."""
        frame = self.frame
        for name, entry in fixed.items():
            wanted = entry if isinstance(entry, list | set) else [entry]
            frame = frame[frame[name].isin(list(map(str, wanted)))]
        return Rows(frame)

    def entries(self, name: str) -> list[str]:
        """Distinct entries of a column of the key, in the order of their first row."""
        return list(self.frame[name].unique())

    def numbers(self, name: str) -> list[int | float]:
        """Distinct entries of a column of the key, as numbers in increasing order."""
        return sorted(int(text) if text.isdigit() else float(text) for text in self.entries(name))

    def values(self, name: str) -> NDArray[np.float64]:
        """A column of numbers, (rows,)."""
        return self.frame[name].to_numpy(np.float64)

    def sum(self, name: str) -> float:
        """Sum of a column, rounded once, so that it is the same on every machine."""
        return math.fsum(self.values(name))

    def mean(self, name: str) -> float:
        """Mean of a column, with the influence of each data set; NaN without rows."""
        return self.ratio(name)

    def ratio(self, name: str, other: str | None = None) -> float:
        """Sum of a column over that of another (or over the number of rows), pooled over data sets."""
        if not len(self):
            return math.nan
        key = next((column for column in _DATA_SETS if column in self.frame), None)
        groups = self.frame[key] if key else self.frame.index.astype(str)
        return pooled_ratio(list(groups), self.values(name), None if other is None else self.values(other))

    def standard_error(self, name: str) -> float:
        """Standard error of `mean`; NaN for fewer than two rows."""
        return float(np.std(self.values(name), ddof=1)) / math.sqrt(len(self)) if len(self) > 1 else math.nan

    def by(self, name: str, value: str | Callable[[Rows], float]) -> dict[float, float]:
        """A number for each entry of a column of the key: the mean of a column, or what a function finds.

        >>> Rows({"n": n, "error": float(n)} for n in ("4", "2")).by("n", "error")
        {2: 2.0, 4: 4.0}
        """
        return {entry: _number(self.where(**{name: entry}), value) for entry in self.numbers(name)}

    def columns(
        self, methods: Mapping[str, str], value: str | Callable[[Rows], float], scale: float = 1.0
    ) -> dict[str, float]:
        """A number for each column of a table, given whose numbers it shows."""
        found = {column: self.where(method=method) for column, method in methods.items()}
        return {column: scale * _number(rows, value) for column, rows in found.items()}


def _number(rows: Rows, value: str | Callable[[Rows], float]) -> float:
    return rows.mean(value) if isinstance(value, str) else value(rows)


class Ledger:
    """Lines of a CSV file by key.

    Parameters
    ----------
    path : the file; it need not exist
    keys : columns of text that tell measurements apart
    values : columns of numbers
    run : entry of new lines in a last column ``run``; None for a file without this column

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
        self.header = [*keys, *values, *([] if run is None else ["run"])]
        self._lines: dict[tuple[str, ...], list[str]] = {}  # cells after the key, as in the file
        if path.exists():
            self._read()

    def __len__(self) -> int:
        return len(self._lines)

    def __contains__(self, key: Sequence[object]) -> bool:
        return _texts(key) in self._lines

    def get(self, *key: object) -> dict[str, float] | None:
        """The numbers of a measurement, None if it has not been made."""
        cells = self._lines.get(_texts(key))
        return None if cells is None else dict(zip(self.values, map(float, cells), strict=False))

    def add(self, key: Sequence[object], values: Mapping[str, float]) -> dict[str, float]:
        """Keep a measurement; returns its numbers as they are in the file, with eight digits."""
        texts = _texts(key)
        self._lines[texts] = [f"{values[name]:.8g}" for name in self.values]
        self._lines[texts] += [] if self.run is None else [self.run]
        new = not self.path.exists()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", newline="", encoding="utf-8") as file:
            lines = [[*texts, *self._lines[texts]]]
            csv.writer(file, lineterminator="\n").writerows([self.header, *lines] if new else lines)
        return self.get(*key) or {}

    def recall(self, key: Sequence[object], measure: Callable[[], Mapping[str, float]]) -> dict[str, float]:
        """The numbers of a measurement; a missing one is made and kept."""
        return self.get(*key) or self.add(key, measure())

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
        asked = dict.fromkeys(map(_texts, keys))
        wanted = iter([texts for texts in asked if texts in self._lines])
        order = [next(wanted) if texts in asked else texts for texts in self._lines]
        if order != list(self._lines):
            self._lines = {texts: self._lines[texts] for texts in order}
            self._rewrite()

    def rows(self, keys: Iterable[Sequence[object]] | None = None) -> Rows:
        """All measurements, or those with these keys."""
        wanted = self._lines if keys is None else map(_texts, keys)
        frame = pd.DataFrame([[*key, *self._lines[key]] for key in wanted], columns=self.header)
        frame = frame.astype(dict.fromkeys(self.values, "float64"))
        if "method" in self.keys:
            frame["method"] = frame["method"].map(lambda method: method.partition("@")[0])
        return Rows(frame)

    def run_of(self, *key: object) -> str | None:
        """Entry of the column ``run``, None if the measurement has not been made."""
        cells = self._lines.get(_texts(key))
        return None if cells is None else cells[-1]

    def runs(self) -> list[str]:
        """Distinct entries of the column ``run``."""
        return list(dict.fromkeys(cells[-1] for cells in self._lines.values()))

    def _read(self) -> None:
        text = self.path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]  # drops an unfinished last line, left by a killed run
        header, *lines = csv.reader(io.StringIO(whole)) if whole else [self.header]
        if header != self.header:
            raise DataError(f"{self.path} has columns {', '.join(header)}: move it away to measure anew")
        count = len(self.keys)
        for number, line in enumerate(lines, 2):
            try:
                list(map(float, line[count : count + len(self.values)]))
                if len(line) != len(header):
                    raise ValueError
            except ValueError:
                raise DataError(f"{self.path}: line {number} is damaged: remove it") from None
            self._lines[tuple(line[:count])] = line[count:]
        if whole != text:
            self._rewrite()

    def _rewrite(self) -> None:
        write_csv(self.path, [self.header, *([*key, *cells] for key, cells in self._lines.items())])


def write_csv(path: Path, lines: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file in one move; its folder is created if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def _texts(key: Iterable[object]) -> tuple[str, ...]:
    return tuple(map(str, key))

"""Rows of numbers that need not fit into memory, visited chunk by chunk.

A source has two methods.  `map` applies a function to every chunk, in order; `reduce` adds up the results.
Everything computed over a source is a sum of small things, so that chunks may live in files or on other
machines (`discoformer.scale.cluster`), and the order of the summation is fixed.
"""

from __future__ import annotations

import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.core.checks import DataError, column_names, one_line, plain, show_cell
from discoformer.core.progress import follow
from discoformer.core.threads import ordered_map

__all__ = ["ArraySource", "NpySource", "Selected", "Source", "is_dask", "refuse_unknown"]

T = TypeVar("T")
CHUNK = 8 * 2**20  # bytes of a chunk in double precision; a few of them are in memory at a time


class Source(ABC):
    """Rows of numbers (n, d).

    Attributes
    ----------
    dim : number of columns d
    rows : number of rows n, or None if only a pass can tell
    names : names of the columns, or None
    dtype : of the stored numbers; their rounding error decides which columns count as constant
    show : whether passes show their progress
    step : rows in a chunk, or None for what fits into a few megabytes
    """

    dim: int
    rows: int | None
    names: tuple[str, ...] | None = None
    dtype: np.dtype[Any]
    show: bool = False
    step: int | None = None

    @abstractmethod
    def chunks(self) -> Iterator[Tensor]:
        """The rows in order, as float64 tensors (k, d)."""

    def map(self, function: Callable[[Tensor], T], label: str = "reading") -> Iterator[T]:
        """The results of a function on every chunk, in order."""
        show = self.show and (self.rows is None or self.rows > self._step)
        with follow(label, self.rows, show) as advance:

            def call(chunk: Tensor) -> tuple[int, T]:
                return len(chunk), function(chunk)

            for rows, result in ordered_map(call, self.chunks()):
                advance(rows)
                yield result

    def reduce(self, function: Callable[[Tensor], T], label: str = "reading") -> T:
        """The sum, by ``+``, of the results of a function on every chunk, in order."""
        return functools.reduce(operator.add, self.map(function, label))

    @property
    def eps(self) -> float:
        """Relative rounding error of the stored numbers."""
        return float(np.finfo(self.dtype if self.dtype == np.float32 else np.float64).eps)

    @property
    def _step(self) -> int:
        """Rows in a chunk."""
        return self.step or max(1, CHUNK // (8 * self.dim))


class ArraySource(Source):
    """The rows of an array (n, d) or of a memory map, ``step`` at a time if that is given.

    >>> source = ArraySource(np.arange(6.0).reshape(3, 2))
    >>> source.reduce(lambda chunk: chunk.sum(0)).tolist()
    [6.0, 9.0]
    """

    def __init__(self, array: NDArray[Any], name: str = "the array", step: int | None = None) -> None:
        if array.dtype.kind not in "biuf":
            raise DataError(f"{name} holds {array.dtype}, not real numbers")
        if array.ndim != 2:
            raise DataError(f"{name} has shape {array.shape}, expected (rows, columns)")
        if not array.shape[0] or not array.shape[1]:
            raise DataError(f"{name} has shape {array.shape}: no rows or no columns")
        self.array = array
        self.rows, self.dim = array.shape
        self.dtype = array.dtype
        self.step = step

    def chunks(self) -> Iterator[Tensor]:
        array = self.array
        for start in range(0, len(array), self._step):
            yield as_tensor(array[start : start + self._step])


class NpySource(ArraySource):
    """The rows of an npy file; a vector is one column."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        super().__init__(self._map(), str(path))
        del self.array  # pages that were read stay in memory as long as their map

    def chunks(self) -> Iterator[Tensor]:
        assert self.rows is not None
        for start in range(0, self.rows, self._step):
            yield as_tensor(self._map()[start : start + self._step])

    def _map(self) -> NDArray[Any]:
        if not self.path.exists():
            raise DataError(f"{self.path}: no such file")
        with one_line(f"{self.path}: not an npy file of numbers, or a broken one"):
            array: NDArray[Any] = np.lib.format.open_memmap(self.path, mode="r")
        return array[:, None] if array.ndim == 1 else array


@dataclass
class Selected(Source):
    """Some columns of a source."""

    source: Source
    columns: Sequence[int]

    def __post_init__(self) -> None:
        inner = self.source
        self.dim, self.rows, self.dtype, self.show = len(self.columns), inner.rows, inner.dtype, inner.show
        self.names = None if inner.names is None else tuple(inner.names[j] for j in self.columns)

    def chunks(self) -> Iterator[Tensor]:
        for chunk in self.source.chunks():
            yield chunk[:, self.columns]

    def reduce(self, function: Callable[[Tensor], T], label: str = "reading") -> T:
        return self.source.reduce(functools.partial(_on_columns, function, self.columns), label)


def _on_columns(function: Callable[[Tensor], T], columns: Sequence[int], chunk: Tensor) -> T:
    return function(chunk[:, columns])


def as_tensor(rows: NDArray[Any]) -> Tensor:
    """A copy in double precision, what is masked as NaN."""
    return torch.from_numpy(np.array(plain(rows), dtype=np.float64, order="C"))


def is_dask(data: object) -> bool:
    """Whether data is a dask array; dask is not imported to find out."""
    return type(data).__module__.startswith("dask.array") and hasattr(data, "to_delayed")


def refuse_unknown(columns: Sequence[str], names: Sequence[str]) -> None:
    """Raise `DataError` unless every one of ``columns`` is a name, and none is asked for twice."""
    unknown = [name for name in columns if name not in names]
    if unknown:
        raise DataError(
            f"no column {show_cell(unknown[0])}, there are {column_names(range(len(names)), names)}"
        )
    if len(set(columns)) < len(columns):
        raise DataError(f"the same column is asked for twice: {column_names(range(len(columns)), columns)}")

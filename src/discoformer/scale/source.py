"""Rows of numbers that need not fit into memory: files, arrays and dask arrays, visited chunk by chunk.

A source has two methods.  `map` applies a function to every chunk, in order; `reduce` adds up the results.
Everything computed over a source is a sum of small things, so chunks may live in files or on other machines.
The order of the chunks fixes the order of the additions, whoever computes them, and when.
"""

from __future__ import annotations

import functools
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.core.checks import DataError, column_names, one_line, plain, refuse_unknown, show_cell
from discoformer.core.extras import require
from discoformer.core.progress import follow
from discoformer.core.threads import ordered_map

__all__ = [
    "ArraySource",
    "DaskSource",
    "NpySource",
    "ParquetSource",
    "Selected",
    "Source",
    "is_dask",
    "is_remote",
    "open_source",
]

T = TypeVar("T")
CHUNK = 8 * 2**20  # bytes of a chunk in double precision; a few of them are in memory at a time

_BRANCHES = 16  # partial sums added up by one task
_INDEX = re.compile(r"__index_level_\d+__")


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


def _check_names(columns: Sequence[str], names: Sequence[str]) -> None:
    """Raise `DataError` unless every one of ``columns`` is a name, and none is asked for twice."""
    refuse_unknown(columns, names)
    if len(set(columns)) < len(columns):
        raise DataError(f"the same column is asked for twice: {column_names(range(len(columns)), columns)}")


class DaskSource(Source):
    """The rows of a dask array (n, d), on the client's cluster if there is one, else in this process."""

    def __init__(self, array: Any) -> None:
        require("dask", "cluster", "dask arrays")
        if array.dtype.kind not in "biuf":
            raise DataError(f"the dask array holds {array.dtype}, not real numbers")
        if array.ndim != 2:
            raise DataError(f"the dask array has {array.ndim} dimension(s), expected (rows, columns)")
        self.array = array.rechunk({1: -1})  # a block has whole rows
        self.dim = int(array.shape[1])
        self.rows = None  # blocks may be of unknown length; the first pass counts
        self.dtype = array.dtype

    def chunks(self) -> Iterator[Tensor]:
        for block in self.array.blocks.ravel():
            yield as_tensor(block.compute())

    def reduce(self, function: Callable[[Tensor], T], label: str = "reading") -> T:
        from dask.delayed import delayed

        shared = delayed(function, pure=False)  # sent once, not with every block
        apply, add = delayed(_apply, pure=False), delayed(_add, pure=False)
        parts = [apply(shared, block) for block in self.array.to_delayed().ravel()]
        while len(parts) > 1:
            parts = [add(parts[i : i + _BRANCHES]) for i in range(0, len(parts), _BRANCHES)]
        result: T = parts[0].compute()
        return result


def _apply(function: Callable[[Tensor], T], block: NDArray[Any]) -> T:
    with torch.no_grad():
        return function(as_tensor(block))


def _add(parts: list[T]) -> T:
    return functools.reduce(operator.add, parts)


class ParquetSource(Source):
    """The rows of a parquet file or of all parquet files under a folder, in the order of their paths.

    Parameters
    ----------
    path : file or folder
    columns : names of the columns to read; by default all, but for the labels of rows that pandas has added
    """

    def __init__(self, path: str | Path, columns: Sequence[str] | None = None) -> None:
        require("pyarrow", "cli", "reading .parquet")
        self.path = Path(path)
        found = sorted(self.path.rglob("*.parquet")) if self.path.is_dir() else [self.path]
        self.files = [file for file in found if file.is_file() or not self.path.is_dir()]
        if not self.files:
            raise DataError(f"{path}: the folder has no parquet files")
        schema, self.rows = None, 0
        for file in self.files:
            opened = _open_parquet(file)
            self.rows += opened.metadata.num_rows
            schema = schema or opened.schema_arrow
            if opened.schema_arrow.types != schema.types or opened.schema_arrow.names != schema.names:
                raise DataError(f"{file}: its columns or their types are not those of {self.files[0]}")
        assert schema is not None
        labels = (schema.pandas_metadata or {}).get("index_columns", [])
        data = [name for name in schema.names if name not in labels and not _INDEX.fullmatch(name)]
        self.names = tuple(data if columns is None else columns)
        _check_names(self.names, data)
        self.dim = len(self.names)
        if not self.rows or not self.dim:
            raise DataError(f"{path}: no rows or no columns")
        self.dtype = np.result_type(*(_number_type(schema.field(name), self.path) for name in self.names))

    def chunks(self) -> Iterator[Tensor]:
        names = list(self.names or ())
        for file in self.files:
            with one_line(f"{file}: cannot be read as parquet", reason=True):
                for batch in _open_parquet(file).iter_batches(self._step, columns=names):
                    batch.validate(full=True)  # else damage is found by reading memory that is not there
                    columns = [batch[name].cast("float64").to_numpy(zero_copy_only=False) for name in names]
                    yield as_tensor(np.column_stack(columns))


def _open_parquet(file: Path) -> Any:
    import pyarrow.parquet as pq

    if not file.exists():
        raise DataError(f"{file}: no such file")
    with one_line(f"{file}: cannot be read as parquet", reason=True):
        return pq.ParquetFile(file, pre_buffer=False)


def _number_type(field: Any, path: Path) -> np.dtype[Any]:
    import pyarrow.types as kind

    if kind.is_floating(field.type) or kind.is_integer(field.type) or kind.is_boolean(field.type):
        result: np.dtype[Any] = np.dtype(field.type.to_pandas_dtype())
        return result
    if kind.is_decimal(field.type):
        return np.dtype(np.float64)
    raise DataError(
        f"{path}: column {show_cell(field.name)} holds text or dates: "
        "turn it into numbers or choose other columns"
    )


def is_remote(data: object) -> bool:
    """Whether data is something for `open_source`: a path, a memory map, or a dask array.

    >>> is_remote("points.npy"), is_remote(np.zeros((2, 2)))
    (True, False)
    """
    return isinstance(data, str | Path | np.memmap) or is_dask(data)


def open_source(data: Any, columns: Sequence[str] | None = None, *, show: bool = False) -> Source:
    """The source behind a path, an array, a memory map or a dask array.

    Parameters
    ----------
    data : a path to an npy file, to a parquet file or a folder of them; an array or memory map (n, d);
        or a dask array (n, d)
    columns : names of the columns to use; x0, x1, ... where there are none
    show : show the progress of every pass on standard error

    >>> open_source(np.zeros((5, 3)), ["x2", "x0"]).dim
    2
    """
    source = _open(data, columns)
    source.show = show
    return source


def _open(data: Any, columns: Sequence[str] | None) -> Source:
    path = Path(data) if isinstance(data, str | Path) else None
    if path is not None and (path.is_dir() or path.suffix.lower() == ".parquet"):
        return ParquetSource(path, columns)
    source = _open_unnamed(data)
    if columns is None:
        return source
    names = [f"x{j}" for j in range(source.dim)]
    _check_names(columns, names)
    return Selected(source, [names.index(name) for name in columns])


def _open_unnamed(data: Any) -> Source:
    if is_dask(data):
        return DaskSource(data)
    if isinstance(data, np.ndarray):
        return ArraySource(data)
    path = Path(data)
    if path.suffix.lower() == ".npy":
        return NpySource(path)
    raise DataError(f"{path}: give an npy file, a parquet file or a folder of parquet files, or an array")

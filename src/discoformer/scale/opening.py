"""From user input to a source: paths, memory maps, dask arrays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discoformer.core.checks import DataError
from discoformer.scale.cluster import DaskSource
from discoformer.scale.parquet import ParquetSource
from discoformer.scale.source import ArraySource, NpySource, Selected, Source, is_dask, refuse_unknown

__all__ = ["is_remote", "open_source"]


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
    refuse_unknown(columns, names)
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

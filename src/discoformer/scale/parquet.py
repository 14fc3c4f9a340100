"""A parquet file, or a folder of them, as one source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from discoformer.core.checks import DataError, one_line, show_cell
from discoformer.core.extras import require
from discoformer.scale.source import Source, as_tensor, refuse_unknown

__all__ = ["ParquetSource"]

_INDEX = re.compile(r"__index_level_\d+__")


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
            opened = _open(file)
            self.rows += opened.metadata.num_rows
            schema = schema or opened.schema_arrow
            if opened.schema_arrow.types != schema.types or opened.schema_arrow.names != schema.names:
                raise DataError(f"{file}: its columns or their types are not those of {self.files[0]}")
        assert schema is not None
        labels = (schema.pandas_metadata or {}).get("index_columns", [])
        data = [name for name in schema.names if name not in labels and not _INDEX.fullmatch(name)]
        self.names = tuple(data if columns is None else columns)
        refuse_unknown(self.names, data)
        self.dim = len(self.names)
        if not self.rows or not self.dim:
            raise DataError(f"{path}: no rows or no columns")
        self.dtype = np.result_type(*(_number_type(schema.field(name), self.path) for name in self.names))

    def chunks(self) -> Iterator[Tensor]:
        names = list(self.names or ())
        for file in self.files:
            with one_line(f"{file}: cannot be read as parquet", reason=True):
                for batch in _open(file).iter_batches(self._step, columns=names):
                    batch.validate(full=True)  # else damage is found by reading memory that is not there
                    columns = [batch[name].cast("float64").to_numpy(zero_copy_only=False) for name in names]
                    yield as_tensor(np.column_stack(columns))


def _open(file: Path) -> Any:
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

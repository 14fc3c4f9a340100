"""Files too large for a frame: what their columns are by the first rows, and parquet in batches.

Numbers take less room than frames.  The first rows suggest what the columns are, and all rows have the last
word: labels that come later are labels as well, and a grid or a bound that a later row violates is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discoformer.columns.bounds import FREE
from discoformer.columns.schema import ColumnSchema, Schema
from discoformer.columns.schema_convert import to_numbers
from discoformer.core.checks import DataError
from discoformer.data.arrow import to_frame
from discoformer.data.numeric import check_finite, used_schema
from discoformer.data.table import How, RawTable, Table, generated_names

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Batches", "columns_to_stream", "open_batches"]

FIRST = 100_000  # rows that say what the columns are
ROWS = 2**16  # in a batch


def open_batches(path: Path) -> Batches | None:
    """The batches of a parquet file or folder; None if it is neither, or cannot be read at all."""
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if path.suffix.lower() != ".parquet" and not path.is_dir():
        return None
    if not files or find_spec("pyarrow") is None or find_spec("pandas") is None:
        return None
    import pyarrow as pa

    try:
        return Batches(path, files)
    except (pa.ArrowException, OSError):  # the stream has its own words for it
        return None


class Batches:
    """The rows of parquet files, in the order of their paths."""

    def __init__(self, path: Path, files: list[Path]) -> None:
        import pyarrow.parquet as pq

        self.path, self.files = path, files
        self.rows = sum(pq.ParquetFile(file).metadata.num_rows for file in files)
        if not self.rows:
            raise DataError(f"{path}: no rows")

    @property
    def cells(self) -> int:
        """Rows times columns."""
        import pyarrow.parquet as pq

        return int(self.rows) * len(pq.ParquetFile(self.files[0]).schema_arrow.names)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.first().names

    def first(self) -> RawTable:
        """The first rows."""
        frame = next(self.frames(FIRST))
        return RawTable(frame, How(str(self.path), "parquet", *frame.shape))

    def frames(self, size: int) -> Iterator[pd.DataFrame]:
        """A fixed number of rows at a time, whatever the row groups in the files."""
        import pandas as pd
        import pyarrow.parquet as pq

        parts: list[pd.DataFrame] = []
        for file in self.files:
            for batch in pq.ParquetFile(file).iter_batches(ROWS):
                parts.append(to_frame(batch))
                while sum(map(len, parts)) >= size:
                    whole = pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0]
                    yield whole.iloc[:size].reset_index(drop=True)
                    parts = [whole.iloc[size:].reset_index(drop=True)] if len(whole) > size else []
        if parts:
            yield pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0]

    def read(self, schema: Schema) -> Table:
        """The used columns as numbers (n, D), and the schema that all rows hold to."""
        values = np.empty((self.rows, len(schema.used)))
        start = 0
        for frame in self.frames(ROWS):
            schema = schema.with_labels(frame)
            values[start : start + len(frame)] = to_numbers(frame, schema)
            start += len(frame)
        found = dict(zip((column.name for column in schema.used), values.T, strict=True))
        columns = tuple(_kept(c, found[c.name]) if c.name in found else c for c in schema)
        names = tuple(str(column.name) for column in schema.used)
        table = Table(values, names, schema=Schema(columns))
        check_finite(table, str(self.path), gaps=True)
        return table


def _kept(column: ColumnSchema, values: NDArray[np.float64]) -> ColumnSchema:
    """The column without any grid or bounds that one of its values (n,) violates."""
    if column.use == "code":
        return column
    there = values[~np.isnan(values)]
    changes: dict[str, Any] = {}
    if column.bounds != FREE and len(there) and (there.min() < column.low or there.max() > column.high):
        changes |= {"low": -np.inf, "high": np.inf}
    if column.step:
        places = (there - column.origin) / column.step
        if np.abs(places - np.rint(places)).max(initial=0.0) > 1e-6:
            changes |= {"step": 0.0, "origin": 0.0, "decimals": -1}
    if changes and column.kind not in ("date", "circular"):
        changes["kind"] = "continuous"
    return replace(column, **changes)


def columns_to_stream(
    path: Path, types: Mapping[str, str] | None = None, exclude: Sequence[str] = ()
) -> list[str] | None:
    """Names of the columns of an npy or parquet file, or a folder of these, without identifiers and text.

    Only the first rows decide.  None if all columns should be used.  A column that is empty in these rows is
    used, since it may have values further on.
    """
    raw = _first_rows(path)
    if raw is None:
        return None
    schema = used_schema(raw, None, types, exclude)
    used = [c.name for c in schema if c.use == "number" or (c.kind == "constant" and c.distinct == 0)]
    return None if len(used) == len(raw.names) else used


def _first_rows(path: Path) -> RawTable | None:
    if find_spec("pandas") is None:
        return None
    import pandas as pd

    if path.suffix.lower() == ".npy":
        array = None
        with suppress(Exception):  # the stream has its own words for it
            array = np.lib.format.open_memmap(path, mode="r")
        if array is None or array.ndim != 2 or array.dtype.kind not in "biuf":
            return None
        frame = pd.DataFrame(np.array(array[:FIRST]), columns=list(generated_names(array.shape[1])))
        return RawTable(frame, How(str(path), "npy", *frame.shape), named=False)
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not files or find_spec("pyarrow") is None:
        return None
    import pyarrow.parquet as pq

    with suppress(Exception):
        batch = next(pq.ParquetFile(files[0], pre_buffer=False).iter_batches(FIRST))
        batch.validate(full=True)
        frame = batch.to_pandas(date_as_object=False).reset_index(drop=True)
        return RawTable(frame, How(str(path), "parquet", *frame.shape))
    return None

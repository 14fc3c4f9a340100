"""The first rows of a streamed file: which of its columns a density is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from discoformer.data.numeric import used_schema
from discoformer.data.table import How, RawTable, generated_names

__all__ = ["columns_to_stream"]

ROWS = 100_000  # looked at


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
        frame = pd.DataFrame(np.array(array[:ROWS]), columns=list(generated_names(array.shape[1])))
        return RawTable(frame, How(str(path), "npy", *frame.shape), named=False)
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not files or find_spec("pyarrow") is None:
        return None
    import pyarrow.parquet as pq

    with suppress(Exception):
        batch = next(pq.ParquetFile(files[0], pre_buffer=False).iter_batches(ROWS))
        batch.validate(full=True)
        frame = batch.to_pandas(date_as_object=False).reset_index(drop=True)
        return RawTable(frame, How(str(path), "parquet", *frame.shape))
    return None

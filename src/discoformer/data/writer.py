"""Tables written piece by piece: csv, tsv, npy, parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["table_writer"]

Write = Callable[[NDArray[np.float64]], None]


@contextmanager
def table_writer(path: Path, suffix: str, names: Sequence[str], rows: int) -> Iterator[Write]:
    """A function that appends rows (k, d) to a new table in the format of ``suffix``, ``rows`` in all.

    An npy file holds the values only.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with table_writer(Path(folder) / "part", ".npy", ["a", "b"], rows=3) as write:
    ...         write(np.zeros((2, 2)))
    ...         write(np.ones((1, 2)))
    ...     np.load(Path(folder) / "part").tolist()
    [[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    """
    if suffix == ".npy":
        with path.open("wb") as file:
            header = {"descr": "<f8", "fortran_order": False, "shape": (rows, len(names))}
            np.lib.format.write_array_header_1_0(file, header)

            def write(values: NDArray[np.float64]) -> None:
                file.write(values.astype("<f8").tobytes())

            yield write
        return
    import pandas as pd

    if suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        def as_arrow(values: NDArray[np.float64]) -> Any:
            return pa.Table.from_pandas(pd.DataFrame(values, columns=list(names)), preserve_index=False)

        with pq.ParquetWriter(path, as_arrow(np.empty((0, len(names)))).schema) as writer:
            yield lambda values: writer.write_table(as_arrow(values))
        return
    separator = "\t" if suffix == ".tsv" else ","
    first = True

    def append(values: NDArray[np.float64]) -> None:
        nonlocal first
        frame = pd.DataFrame(values, columns=list(names))
        frame.to_csv(path, index=False, sep=separator, mode="w" if first else "a", header=first)
        first = False

    yield append

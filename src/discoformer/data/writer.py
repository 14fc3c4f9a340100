"""Tables written piece by piece: csv, tsv, npy, parquet."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from discoformer.core.files import replacing

__all__ = ["neutral", "output_writer", "table_writer"]

Write = Callable[[NDArray[np.float64]], None]


def neutral(names: Sequence[str]) -> list[str]:
    """Names with an apostrophe before what a spreadsheet would take for a formula.

    >>> neutral(["=1+1", "size", "@sum"])
    ["'=1+1", 'size', "'@sum"]
    """
    return [f"'{name}" if name.lstrip()[:1] in tuple("=+-@") else name for name in names]


@contextmanager
def output_writer(path: Path, names: Sequence[str], rows: int) -> Iterator[Write]:
    """A `table_writer` to a file that appears when all is written, or as csv to standard output (``-``).

    >>> with output_writer(Path("-"), ["a", "b"], rows=1) as write:
    ...     write(np.zeros((1, 2)))
    a,b
    0.0,0.0
    """
    if str(path) == "-":
        with _text_writer(sys.stdout, names, ",") as write:
            yield write
        return
    with replacing(path) as temporary, table_writer(temporary, path.suffix.lower(), names, rows) as write:
        yield write


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
    with _text_writer(path, names, "\t" if suffix == ".tsv" else ",") as append:
        yield append


@contextmanager
def _text_writer(to: Path | TextIO, names: Sequence[str], separator: str) -> Iterator[Write]:
    import pandas as pd

    first = True

    def append(values: NDArray[np.float64]) -> None:
        nonlocal first
        frame = pd.DataFrame(values, columns=list(names))
        frame.to_csv(to, index=False, sep=separator, mode="w" if first else "a", header=first)
        first = False

    yield append

"""How large a file may be, and expand to, before it is refused: no trick lets a file fill the memory."""

from __future__ import annotations

from discoformer.core.checks import DataError

__all__ = ["EXPANDED_MOST", "check_expanded", "check_size"]

COLUMNS_MOST = 10_000
# Cells of a table in memory: 4 GB as float64.  More rows are streamed, from npy or parquet.
CELLS_MOST = 5 * 10**8
# Bytes of a compressed file when it is unpacked, and how many times its size it may be from `EXPANDED_FREE`
# bytes on: text and sheets of numbers shrink to a fifth or a tenth, a file that shrinks to a thousandth
# was made to.
EXPANDED_MOST = 2**32
EXPANDED_FREE = 2**26
EXPANDED_TIMES = 200


def check_size(what: str, rows: int, columns: int) -> None:
    """Raise `DataError` if a table is too large to be read into memory.

    >>> check_size("data.npy", 10**12, 3)
    Traceback (most recent call last):
        ...
    discoformer.DataError: data.npy: 1000000000000 rows of 3 column(s) do not fit into memory: take a part \
of it, or give npy or parquet to `discoformer estimate`, which streams them
    """
    if columns > COLUMNS_MOST:
        raise DataError(
            f"{what}: more than {COLUMNS_MOST} columns: "
            "if rows and columns are exchanged, transpose the table, else take a part of them"
        )
    if rows * max(columns, 1) > CELLS_MOST:
        raise DataError(
            f"{what}: {rows} rows of {columns} column(s) do not fit into memory: take a part of it, "
            "or give npy or parquet to `discoformer estimate`, which streams them"
        )


def check_expanded(what: str, packed: int, expanded: int) -> None:
    """Raise `DataError` if a compressed file grows beyond reason.

    >>> check_expanded("data.csv.gz", 10**5, 10**9)
    Traceback (most recent call last):
        ...
    discoformer.DataError: data.csv.gz: expands to more than 200 times its size, which tables do not: \
unpack it yourself if you trust it
    """
    if expanded > EXPANDED_MOST:
        raise DataError(
            f"{what}: expands to more than {EXPANDED_MOST // 2**30} GB: unpack it, or take a part of it"
        )
    if expanded > EXPANDED_FREE and expanded > EXPANDED_TIMES * max(packed, 1):
        raise DataError(
            f"{what}: expands to more than {EXPANDED_TIMES} times its size, which tables do not: "
            "unpack it yourself if you trust it"
        )

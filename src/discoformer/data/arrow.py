"""Tables in parquet, feather and arrow files, read by pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discoformer.core.checks import DataError, one_line
from discoformer.core.extras import require
from discoformer.data.cells import convert_text
from discoformer.data.limits import CELLS_MOST, check_expanded, check_size
from discoformer.data.packed import Content
from discoformer.data.table import How, RawTable, refuse_twice

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_arrow", "to_frame"]


def read_arrow(content: Content, format: str) -> RawTable:
    """A parquet, feather or arrow file; texts that are dates become dates, other types stay.

    Row labels that pandas kept in the file are left out.
    """
    require("pandas", "cli", f"reading {format}")
    require("pyarrow", "cli", f"reading {format}")
    with one_line(f"{content.label}: cannot be read as {format}", reason=True):
        table = _parquet(content) if format == "parquet" else _ipc(content)
        frame = to_frame(table)
        frame.columns = [str(name) for name in frame.columns]
        frame, formats = convert_text(frame, numbers=False)
    return RawTable(frame, How(content.label, format, *frame.shape), formats=formats)


def to_frame(table: Any) -> pd.DataFrame:
    """A table or batch of arrow as a frame, without row labels; whole numbers with gaps stay whole.

    >>> import pyarrow as pa
    >>> to_frame(pa.table({"age": pa.array([31, None], pa.int16())})).dtypes.map(str).tolist()
    ['Int16']
    """
    import pandas as pd
    import pyarrow as pa

    frame: pd.DataFrame = table.to_pandas(date_as_object=False, use_threads=False).reset_index(drop=True)
    for place, name in enumerate(table.schema.names):
        column = table.column(place)
        if pa.types.is_integer(column.type) and column.null_count and name in frame.columns:
            with_gaps = pd.api.types.pandas_dtype(str(column.type).replace("int", "Int").replace("u", "U"))
            frame[name] = column.to_pandas(types_mapper={column.type: with_gaps}.get)
    return frame


def _parquet(content: Content) -> Any:
    import pyarrow.parquet as pq

    with content.open() as file:
        reader = pq.ParquetFile(file, pre_buffer=False)
        metadata = reader.metadata
        groups = [metadata.row_group(j) for j in range(metadata.num_row_groups)]
        rows = sum(group.num_rows for group in groups)
        refuse_twice(reader.schema_arrow.names, content.label)
        check_size(content.label, max(rows, metadata.num_rows), metadata.num_columns)
        check_expanded(content.label, content.size, sum(group.total_byte_size for group in groups))
        # Without threads: beside those of torch they abort a process that ends early.
        table = reader.read(use_threads=False)
        table.validate(full=True)  # else what is damaged is found by reading memory that is not there
        return table


def _ipc(content: Content) -> Any:
    """The file format, which feather is, or the stream format; batch by batch."""
    import pyarrow as pa

    with content.open() as file:
        try:
            reader = pa.ipc.open_file(file)
            batches = (reader.get_batch(j) for j in range(reader.num_record_batches))
        except pa.ArrowInvalid:
            file.seek(0)
            if file.read(4) == b"FEA1":
                raise DataError(f"{content.label}: the first version of feather: save it again") from None
            file.seek(0)
            reader = pa.ipc.open_stream(file)
            batches = iter(reader)
        refuse_twice(reader.schema.names, content.label)
        kept, rows, size = [], 0, 0
        for batch in batches:
            rows += batch.num_rows
            size += batch.nbytes
            check_size(content.label, rows, batch.num_columns)
            check_expanded(content.label, max(content.size, CELLS_MOST // 100), size)
            batch.validate(full=True)
            kept.append(batch)
        return pa.Table.from_batches(kept, reader.schema)

"""Data larger than memory, or larger than a machine: sources, and sums over them.

`source` reads files and arrays, `parquet` parquet files, `cluster` dask arrays; `opening` chooses among
them.  `survey` makes the first passes over a source, `ranks` picks rows from it, and `stream` is a sample on
a source as the mixture core sees it.
"""

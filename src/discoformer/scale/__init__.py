"""Data larger than memory, or larger than a machine: sources, and sums over them.

`source` reads files, arrays and dask arrays, `ranks` picks rows from them, and `stream` is a sample on a
source with what the first passes over it found.
"""

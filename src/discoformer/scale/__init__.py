"""Data larger than memory, or than a machine: sources, what is summed over them, and what comes back.

`source` opens files and arrays, `cluster` dask arrays; `stream` is a sample on a source as the mixture core
sees it, and `answers` reads a field at all rows of a source.
"""

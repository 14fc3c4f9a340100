"""A field evaluated at all rows of a source: chunk by chunk, or lazily on a dask array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.core.checks import DataError, plain
from discoformer.core.fields import Estimate, PointDensity
from discoformer.scale.source import Source, is_dask, open_source
from discoformer.scale.stream import look

__all__ = ["answers", "estimate_remote", "estimate_source", "lazy_estimate"]


def answers(field: PointDensity, source: Source) -> Iterator[tuple[Tensor, Estimate[Tensor]]]:
    """Every chunk of the source with log density and score at its rows, in order."""
    if source.dim != field.dim:
        raise DataError(f"X has {source.dim} column(s), but the sample has {field.dim}")

    @torch.no_grad()
    def ask(chunk: Tensor) -> tuple[Tensor, Estimate[Tensor]]:
        return chunk, field.estimate(chunk)

    done = 0
    try:
        for chunk, estimate in source.map(ask, "estimating"):
            yield chunk, estimate
            done += len(chunk)
    except DataError as error:
        raise DataError(f"{error} (rows counted from {done})" if done else str(error)) from None


def estimate_remote(
    field: PointDensity, data: Any, names: Sequence[str] | None, *, score: bool = True, show: bool = False
) -> Estimate[Any]:
    """Log density (n,) and score (n, d) at rows that are not in memory: dask, a memory map, or a path.

    Parameters
    ----------
    field : what to evaluate
    data : where the rows are
    names : of the columns to read from a table on disk
    score : whether to keep the scores
    show : whether to show the progress
    """
    if is_dask(data):
        return lazy_estimate(field, data)
    bare = isinstance(data, np.memmap) or Path(data).suffix.lower() == ".npy"  # without names
    return estimate_source(field, open_source(data, None if bare else names, show=show), score=score)


def estimate_source(
    field: PointDensity, source: Source, *, score: bool = True
) -> Estimate[NDArray[np.float64]]:
    """Log density (n,) and, if asked for, score (n, d) at the rows of a source; the score is empty otherwise.

    A first pass checks the numbers, so that the error for a missing or infinite value names its row and
    column.
    """
    rows = look(source).rows
    log_densities = np.empty(rows)
    scores = np.empty((rows if score else 0, source.dim))
    start = 0
    for chunk, (log_density, chunk_score) in answers(field, source):
        part = slice(start, start + len(chunk))
        log_densities[part] = log_density.numpy()
        if score:
            scores[part] = chunk_score.numpy()
        start += len(chunk)
    return Estimate(log_densities, scores)


def lazy_estimate(field: PointDensity, array: Any) -> Estimate[Any]:
    """Log density (n,) and score (n, d) at the rows of a dask array (n, d), as dask arrays."""
    if array.ndim != 2:
        raise DataError(f"the dask array has {array.ndim} dimension(s), expected (rows, columns)")
    dim = field.dim
    if array.shape[1] != dim:
        raise DataError(f"X has {array.shape[1]} column(s), but the sample has {dim}")
    rows = array.rechunk({1: -1})
    both = rows.map_blocks(
        _answer_block, field, dtype=np.float64, chunks=(rows.chunks[0], (dim + 1,)), meta=np.empty((0, 0))
    )
    return Estimate(both[:, 0], both[:, 1:])


def _answer_block(block: NDArray[Any], field: PointDensity) -> NDArray[np.float64]:
    """Log density and score side by side (k, 1 + d)."""
    if not len(block):
        return np.empty((0, field.dim + 1))
    log_density, score = field.estimate(np.asarray(plain(block), dtype=np.float64))
    return np.column_stack([log_density, score])

"""A dask array as a source: every pass is one map over its blocks, on the workers, and a tree of sums.

The workers get the function: a frame and slots, a few kilobytes.  They send back sums of the same size.
Nothing is kept on a worker between passes.  If one dies, nothing is lost: the scheduler has its blocks
computed elsewhere.  The order of the blocks fixes the order of the additions, so the result does not depend
on which worker computed what, or when.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.extras import require
from discoformer.scale.source import Source, as_tensor

__all__ = ["DaskSource"]

T = TypeVar("T")
_BRANCHES = 16  # partial sums added up by one task


class DaskSource(Source):
    """The rows of a dask array (n, d), on the client's cluster if there is one, else in this process."""

    def __init__(self, array: Any) -> None:
        require("dask", "cluster", "dask arrays")
        if array.dtype.kind not in "biuf":
            raise DataError(f"the dask array holds {array.dtype}, not real numbers")
        if array.ndim != 2:
            raise DataError(f"the dask array has {array.ndim} dimension(s), expected (rows, columns)")
        self.array = array.rechunk({1: -1})  # a block has whole rows
        self.dim = int(array.shape[1])
        self.rows = None  # blocks may be of unknown length; the first pass counts
        self.dtype = array.dtype

    def chunks(self) -> Iterator[Tensor]:
        for block in self.array.blocks.ravel():
            yield as_tensor(block.compute())

    def reduce(self, function: Callable[[Tensor], T], label: str = "reading") -> T:
        from dask.delayed import delayed

        shared = delayed(function, pure=False)  # sent once, not with every block
        apply, add = delayed(_apply, pure=False), delayed(_add, pure=False)
        parts = [apply(shared, block) for block in self.array.to_delayed().ravel()]
        while len(parts) > 1:
            parts = [add(parts[i : i + _BRANCHES]) for i in range(0, len(parts), _BRANCHES)]
        result: T = parts[0].compute()
        return result


def _apply(function: Callable[[Tensor], T], block: NDArray[Any]) -> T:
    with torch.no_grad():
        return function(as_tensor(block))


def _add(parts: list[T]) -> T:
    return functools.reduce(operator.add, parts)

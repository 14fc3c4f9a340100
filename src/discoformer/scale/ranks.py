"""Rows of given ranks in the order of their radius, out of more rows than can be sorted.

The radius is that of a frame, so which rows are chosen depends on the rows alone: not on their order, not on
the chunks they come in, and not on the affine maps that the frame undoes.  For this to hold in samples with
symmetries or ties as well, a radius is compared without the digits that rounding can change (`radius_key`),
and rows of the same radius are ordered along one direction in the frame (`generic_direction`).

Ranks are found by counting.  The leading bits of a positive float sort like the float itself.  So one pass
counts rows by the leading bits of their squared radius.  The next looks only into the bins that hold a
wanted rank, and counts by a few bits more.  When few rows are left in these bins, they are collected and
sorted.  Repeated rows are collected once, with their number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from discoformer.core.transforms import Frame
from discoformer.scale.source import Source

__all__ = ["even_ranks", "generic_direction", "radius_key", "rows_at_ranks", "square_radius"]

_FIRST, _MORE = 38, 8  # bits left out of the first count (14 of the fraction are in), regained by each other
_FEW = 2**18  # rows that may be collected
_ROUNDED = 22  # bits of a squared radius that do not count: a billionth of it is left


def even_ranks(size: int, limit: int) -> Tensor:
    """At most ``limit`` ranks out of 0 ... size - 1, evenly spaced, both ends among them.

    >>> even_ranks(9, 3).tolist(), even_ranks(3, 9).tolist()
    ([0, 4, 8], [0, 1, 2])
    """
    if size <= limit:
        return torch.arange(size)
    return torch.linspace(0, size - 1, limit, dtype=torch.float64).round().long()


def rows_at_ranks(source: Source, frame: Frame, ranks: Tensor) -> Tensor:
    """Rows (k, d) of the source whose radii in the frame have the given ranks (k,), counted from 0.

    >>> from discoformer.core.frames import Identity
    >>> from discoformer.scale.source import ArraySource
    >>> points = torch.tensor([[3.0], [-1.0], [2.0], [0.0]], dtype=torch.float64)
    >>> source, frame = ArraySource(points.numpy()), Identity().fit(points)
    >>> rows_at_ranks(source, frame, torch.tensor([0, 2, 3])).tolist()
    [[0.0], [2.0], [3.0]]
    """
    bins = _Bins(torch.zeros(1, dtype=torch.long), 63)  # one that holds every row
    before = torch.zeros(1, dtype=torch.long)  # rows of smaller radius than any of the bin
    shift = _FIRST
    while True:
        counts = source.reduce(_Count(frame, bins, shift), "ranking")
        before = _count_before(counts, bins, before, shift)
        chosen = _bin_of(before, ranks).unique()
        bins, before, inside = _Bins(counts.keys[chosen], shift), before[chosen], counts.counts[chosen]
        if int(inside.sum()) <= _FEW or shift == 0:
            break
        shift = max(0, shift - _MORE)
    rows, repeats = source.reduce(_Collect(frame, bins), "collecting").sorted(frame)
    at = _bin_of(before, ranks)
    position = ranks - before[at] + (inside.cumsum(0) - inside)[at]  # among the collected rows
    return rows[torch.searchsorted(repeats.cumsum(0), position, right=True)]


def radius_key(square: Tensor) -> Tensor:
    """Squared radii (...) as whole numbers that sort alike, without the bits that rounding can change.

    >>> key = radius_key(torch.tensor([1.0, 1.0 + 1e-14, 1.0 + 1e-8], dtype=torch.float64))
    >>> bool(key[0] == key[1]), bool(key[1] < key[2])
    (True, True)
    """
    bits = square.to(torch.float64).contiguous().view(torch.int64)
    rounded: Tensor = (bits + 2 ** (_ROUNDED - 1)) >> _ROUNDED << _ROUNDED
    return rounded


def generic_direction(dim: int) -> Tensor:
    """A direction (d,) that breaks ties between points with the same radius, also in symmetric samples.

    >>> generic_direction(3).round(decimals=3).tolist()
    [1.414, 1.828, 1.243]
    """
    return 1 + (math.sqrt(2) * torch.arange(1, dim + 1, dtype=torch.float64)) % 1


def square_radius(points: Tensor, frame: Frame) -> Tensor:
    """Squared distance (n,) of points (n, d) from the origin of a frame; a point's own, to the last bit.

    >>> from discoformer.core.transforms import scaling_frame
    >>> frame = scaling_frame(torch.zeros(1, 2), torch.tensor([1.0, 2.0]))
    >>> square_radius(torch.tensor([[3.0, 8.0]]), frame).tolist()
    [25.0]
    """
    offset = (points - frame.center).mT.contiguous()  # (d, n): a column at a time
    total = torch.zeros_like(offset[0])
    for weights in frame.matrix.mT.tolist():
        coordinate = torch.zeros_like(total)
        for column, weight in zip(offset, weights, strict=True):
            if weight:
                coordinate = coordinate + column * weight
        total = total + coordinate * coordinate
    return total


@dataclass(frozen=True)
class _Bins:
    """Bins by the leading bits of the squared radius, all but the last ``shift``: their sorted keys (k,)."""

    keys: Tensor
    shift: int

    def holds(self, bits: Tensor) -> Tensor:
        keys = bits >> self.shift
        at = torch.searchsorted(self.keys, keys).clamp_max(len(self.keys) - 1)
        return self.keys[at] == keys


@dataclass(frozen=True)
class _Counts:
    """Numbers of rows (k,) by key (k,), sorted."""

    keys: Tensor
    counts: Tensor

    def __add__(self, other: _Counts) -> _Counts:
        keys, index = torch.cat([self.keys, other.keys]).unique(return_inverse=True)
        counts = torch.zeros_like(keys).index_add(0, index, torch.cat([self.counts, other.counts]))
        return _Counts(keys, counts)


@dataclass(frozen=True)
class _Count:
    """Count the rows in some bins by finer ones."""

    frame: Frame
    bins: _Bins
    shift: int

    def __call__(self, chunk: Tensor) -> _Counts:
        bits = radius_key(square_radius(chunk, self.frame))
        return _Counts(*(bits[self.bins.holds(bits)] >> self.shift).unique(return_counts=True))


def _count_before(counts: _Counts, bins: _Bins, before: Tensor, shift: int) -> Tensor:
    """Rows of smaller radius than each of the finer bins, from those of the coarser bins."""
    parent = torch.searchsorted(bins.keys, counts.keys >> (bins.shift - shift))
    counted = counts.counts.cumsum(0) - counts.counts
    first = torch.searchsorted(parent, torch.arange(len(before)))
    return counted + (before - counted[first])[parent]


def _bin_of(before: Tensor, ranks: Tensor) -> Tensor:
    return torch.searchsorted(before, ranks, right=True) - 1


@dataclass(frozen=True)
class _DistinctRows:
    """Distinct rows (k, d) of every chunk and how often they occur, (k,)."""

    rows: tuple[Tensor, ...]
    repeats: tuple[Tensor, ...]

    def __add__(self, other: _DistinctRows) -> _DistinctRows:
        return _DistinctRows(self.rows + other.rows, self.repeats + other.repeats)

    def sorted(self, frame: Frame) -> tuple[Tensor, Tensor]:
        """Rows and repeats in the order of radius and, where it is the same, along the direction."""
        rows, index = torch.cat(self.rows).unique(dim=0, return_inverse=True)
        repeats = torch.zeros_like(rows[:, 0], dtype=torch.long).index_add(0, index, torch.cat(self.repeats))
        order = (frame.normalize(rows) @ generic_direction(rows.shape[-1]).to(rows)).argsort(stable=True)
        order = order[radius_key(square_radius(rows, frame))[order].argsort(stable=True)]
        return rows[order], repeats[order]


@dataclass(frozen=True)
class _Collect:
    """The rows in some bins."""

    frame: Frame
    bins: _Bins

    def __call__(self, chunk: Tensor) -> _DistinctRows:
        found = chunk[self.bins.holds(radius_key(square_radius(chunk, self.frame)))]
        if not len(found):
            return _DistinctRows((), ())
        rows, repeats = found.unique(dim=0, return_counts=True)
        return _DistinctRows((rows,), (repeats,))

"""What the mixture core needs of a sample: its size, two parts of it, and sums over its points.

The core never sees the points themselves, so the same core works on a tensor, on files larger than memory
and on arrays on a cluster.  This is the sample in memory; it is visited in chunks, which does not change
sums.
"""

from __future__ import annotations

import math
from typing import Protocol, Self, cast

import torch
from torch import Tensor

from discoformer.core.threads import ordered_map
from discoformer.models.mixture.landmarks import evenly_by_radius, gather_rows, pool_of
from discoformer.models.mixture.lift import lift
from discoformer.models.mixture.slots import Slots
from discoformer.models.mixture.statistics import slot_scatter, slot_statistics

__all__ = ["InMemory", "Sample", "too_many"]

_TIMES = 4  # as many points as are to decide: below, a part of them would save nothing
_CHUNK = 5 * 2**19  # bytes of temporaries in one chunk: what stays in cache is fastest
_BESIDE = 96  # numbers per point beside its lift: three times the usual number of slots
_LEAST = 256  # points in a chunk: with fewer, products of matrices are slow
_SPREAD = 8  # chunks from which on all threads share them: fewer are not worth the handing over
_KEEP = 128 * 2**20  # bytes of lifted points that are kept from one pass to the next


def too_many(size: int, rows: int) -> bool:
    """Whether a sample is so large that ``rows`` of its points decide, and the rest only refine the result.

    >>> too_many(40_000, 8192), too_many(20_000, 8192)
    (True, False)
    """
    return size > _TIMES * rows


class Sample(Protocol):
    """A batch of B samples of n points in d dimensions, in normalized coordinates."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """B, n, d."""
        ...

    @property
    def total(self) -> Tensor:
        """Number of points (B, 1), or with weights the size of the equally weighted sample they equal."""
        ...

    def few(self, rows: int) -> InMemory | Self:
        """Itself, or for `too_many` points ``rows`` of them, evenly spaced in the order of their radius."""
        ...

    def pool(self) -> Tensor:
        """Points (B, k, d) that landmarks are sought among: all, or `POOL` evenly spaced as above."""
        ...

    def statistics(self, slots: Slots) -> Tensor:
        """`slot_statistics` of all points (B, M, F + 5 or F + 2)."""
        ...

    def scatter(self, slots: Slots, mean: Tensor) -> Tensor:
        """`slot_scatter` of all points (B, M, d, d) about means (B, M, d)."""
        ...


class InMemory:
    """Points (B, n, d) with weights (B, n) that sum to one, or None.

    ``total`` (B, 1) overrides the number of points they stand for.  ``once`` says that there will be one pass
    only, as over a chunk of a stream: no lifted points are kept.
    """

    def __init__(
        self,
        points: Tensor,
        weights: Tensor | None = None,
        *,
        total: Tensor | None = None,
        once: bool = False,
    ) -> None:
        self.points, self.weights, self.once = points, weights, once
        if total is not None:
            self.total = total
        elif weights is None:
            self.total = torch.full_like(points[:, :1, 0], points.shape[1])
        else:
            self.total = 1 / weights.square().sum(-1, keepdim=True)
        self._lifted: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def shape(self) -> tuple[int, int, int]:
        batch, size, dim = self.points.shape
        return batch, size, dim

    def few(self, rows: int) -> InMemory:
        if not too_many(self.points.shape[1], rows):
            return self
        return InMemory(gather_rows(self.points, evenly_by_radius(self.points.detach(), self.weights, rows)))

    def some(self, members: Tensor) -> InMemory:
        """Some samples of the batch, by their numbers (k,)."""
        weights = None if self.weights is None else self.weights[members]
        return InMemory(self.points[members], weights, total=self.total[members])

    def pool(self) -> Tensor:
        return pool_of(self.points)

    def statistics(self, slots: Slots) -> Tensor:
        batch, size, dim = self.shape
        features = (dim + 1) * (dim + 2) // 2
        column = size * batch * self.points.element_size()  # bytes of one number per point
        parts = max(1, min(size // _LEAST, column * (features + _BESIDE) // _CHUNK))
        rows = math.ceil(size / parts)
        graph = torch.is_grad_enabled() or not self.points.requires_grad  # what is kept must have one
        tracked = torch.is_grad_enabled() and any(t.requires_grad for t in (self.points, *slots.keys))
        # Training stands rounding: there, sums in double precision are not worth a twentieth of the time.
        precise = self.points.dtype if tracked else torch.float64
        copies = 1 if precise == self.points.dtype else 3
        keep = graph and not self.once and copies * column * features <= _KEEP

        def part(start: int) -> Tensor:
            chunk = slice(start, start + rows)
            lifts = self._lifted.get(start)
            if lifts is None:
                exact = lift(self.points[:, chunk].to(precise))
                lifts = exact.to(self.points.dtype), exact.detach()
                if keep:
                    self._lifted[start] = lifts
            lifted, exact = lifts
            share = 1 / size if self.weights is None else self.weights[:, chunk]
            return slot_statistics(lifted, share, slots, exact)

        alone = parts < _SPREAD or tracked
        return cast(Tensor, sum((map if alone else ordered_map)(part, range(0, size, rows))))

    def scatter(self, slots: Slots, mean: Tensor) -> Tensor:
        _, size, dim = self.shape
        rows = max(1, _CHUNK // (slots.nu.numel() * dim * self.points.element_size()))
        total = torch.zeros_like(slots.scale)
        for start in range(0, size, rows):
            points = self.points[:, start : start + rows]
            share = 1 / size if self.weights is None else self.weights[:, start : start + rows]
            total = total + slot_scatter(lift(points), points, share, slots, mean)
        return total

"""What the mixture core needs of a sample: its size, landmarks, and one sum over its points per layer.

The core never sees the points themselves, so the same core digests a tensor, files larger than memory
and arrays on a cluster.  Here is the sample in memory; it is visited in chunks, and sums do not care.
"""

from __future__ import annotations

from typing import Protocol, cast

import torch
from torch import Tensor

from discoformer.models.landmarks import farthest_points
from discoformer.models.lift import lift
from discoformer.models.slots import Slots, slot_statistics
from discoformer.scale.threads import ordered_map

__all__ = ["InMemory", "Sample"]

_CHUNK = 16 * 2**20  # bytes of temporaries in one chunk: what stays in cache is fastest


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

    def landmarks(self, count: int) -> Tensor:
        """Farthest points (B, count, d)."""
        ...

    def statistics(self, slots: Slots) -> Tensor:
        """`slot_statistics` of all points (B, M, 5 + F)."""
        ...


class InMemory:
    """Points (B, n, d) with weights (B, n) that sum to one, or None."""

    def __init__(self, points: Tensor, weights: Tensor | None = None) -> None:
        self.points, self.weights = points, weights
        self._lifted: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        batch, size, dim = self.points.shape
        return batch, size, dim

    @property
    def total(self) -> Tensor:
        if self.weights is None:
            return torch.full_like(self.points[:, :1, 0], self.points.shape[1])
        return 1 / self.weights.square().sum(-1, keepdim=True)

    def landmarks(self, count: int) -> Tensor:
        return farthest_points(self.points, count)

    def statistics(self, slots: Slots) -> Tensor:
        batch, size, dim = self.shape
        features = 1 + dim + dim * (dim + 1) // 2
        row = batch * (2 * features + 4 * slots.nu.shape[-1]) * self.points.element_size()
        rows = max(1, _CHUNK // row)
        tracked = any(tensor.requires_grad for tensor in (self.points, *slots[:-1]))
        if rows >= size or (tracked and torch.is_grad_enabled()):
            if self._lifted is None:
                self._lifted = lift(self.points)
            return slot_statistics(self._lifted, 1 / size if self.weights is None else self.weights, slots)

        def part(start: int) -> Tensor:
            rest = slice(start, start + rows)
            share = 1 / size if self.weights is None else self.weights[:, rest]
            return slot_statistics(lift(self.points[:, rest]), share, slots)

        return cast(Tensor, sum(ordered_map(part, range(0, size, rows))))

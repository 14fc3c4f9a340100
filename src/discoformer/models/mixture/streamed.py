"""A streamed sample as the mixture cores see it: two parts of it, and sums by passes over all."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from discoformer.core.transforms import Frame
from discoformer.models.mixture.landmarks import POOL
from discoformer.models.mixture.sample import InMemory, too_many
from discoformer.models.mixture.slots import Slots
from discoformer.scale.stream import Stream

__all__ = ["StreamedSample"]


class StreamedSample:
    """A stream in a frame: the `discoformer.models.mixture.sample.Sample` that is not in memory."""

    def __init__(self, stream: Stream, name: str, dtype: torch.dtype) -> None:
        self.stream, self.name, self.dtype = stream, name, dtype
        self.frame = stream.frame(name)

    @property
    def shape(self) -> tuple[int, int, int]:
        return 1, self.stream.rows, self.stream.source.dim

    @property
    def total(self) -> Tensor:
        return torch.tensor([[self.stream.rows]], dtype=self.dtype)

    def few(self, rows: int) -> InMemory | StreamedSample:
        if not too_many(self.stream.rows, rows):
            return self
        points = self.frame.normalize(self.stream.evenly(self.name, rows)).to(self.dtype)
        return InMemory(points.unsqueeze(0))

    def pool(self) -> Tensor:
        return self.frame.normalize(self.stream.evenly(self.name, POOL)).to(self.dtype).unsqueeze(0)

    def statistics(self, slots: Slots) -> Tensor:
        sums = self.stream.source.reduce(_Statistics(self.frame, slots), "attending")
        return sums / self.stream.rows

    def scatter(self, slots: Slots, mean: Tensor) -> Tensor:
        sums = self.stream.source.reduce(_CenteredScatter(self.frame, slots, mean), "settling")
        return sums / self.stream.rows


@dataclass(frozen=True)
class _Statistics:
    """`slot_statistics` of a chunk, in rows instead of shares of the sample."""

    frame: Frame
    slots: Slots

    def __call__(self, chunk: Tensor) -> Tensor:
        return len(chunk) * _rows(self.frame, chunk, self.slots).statistics(self.slots)


@dataclass(frozen=True)
class _CenteredScatter:
    """`slot_scatter` of a chunk, in rows."""

    frame: Frame
    slots: Slots
    mean: Tensor

    def __call__(self, chunk: Tensor) -> Tensor:
        return len(chunk) * _rows(self.frame, chunk, self.slots).scatter(self.slots, self.mean)


def _rows(frame: Frame, chunk: Tensor, slots: Slots) -> InMemory:
    """A chunk as a sample; without rows it is one that counts for nothing."""
    points = frame.normalize(chunk).to(slots.mean.dtype)
    if not len(chunk):
        points = points.new_zeros(1, points.shape[-1])
    return InMemory(points.unsqueeze(0), once=True)

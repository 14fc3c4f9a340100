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


@dataclass(frozen=True)
class _Statistics:
    """`slot_statistics` of a chunk, in rows instead of shares of the sample."""

    frame: Frame
    slots: Slots

    def __call__(self, chunk: Tensor) -> Tensor:
        points = self.frame.normalize(chunk).to(self.slots.mean.dtype)
        if not len(chunk):
            points = points.new_zeros(1, points.shape[-1])  # counted as no rows below
        return len(chunk) * InMemory(points.unsqueeze(0), once=True).statistics(self.slots)

"""A sample on a source, as the mixture networks see it: frames, a few points, and passes over all."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from discoformer.core.frames import FRAMES, Frame
from discoformer.models.mixture.landmarks import POOL, even_ranks
from discoformer.models.mixture.sample import FEW, MANY, InMemory
from discoformer.models.mixture.slots import Slots
from discoformer.scale.ranks import rows_at_ranks
from discoformer.scale.source import Selected, Source
from discoformer.scale.survey import Survey, survey

__all__ = ["Stream", "StreamedSample"]


class Stream:
    """A source and what the first passes over it have found.

    Examples
    --------
    >>> import numpy as np
    >>> from discoformer.models.registry import build_network
    >>> from discoformer.scale.source import open_source
    >>> points = np.random.default_rng(0).normal(size=(500, 2))
    >>> network = build_network({"kind": "mixture", "layers": 1, "width": 8, "slots": 3}, "whiten").double()
    >>> field = network.fit_stream(Stream(open_source(points)))
    >>> in_memory = network.fit(points)
    >>> bool(torch.allclose(field.means, in_memory.means))
    True
    """

    def __init__(self, source: Source, found: Survey | None = None) -> None:
        self.source = source
        self.survey = survey(source) if found is None else found
        self._even: dict[tuple[str, int], Tensor] = {}

    @property
    def rows(self) -> int:
        """Number of rows n."""
        return self.survey.rows

    def frame(self, name: str) -> Frame:
        """The frame of this name in `FRAMES`, in double precision."""
        return FRAMES[name].from_moments(self.survey.moments)

    def inside(self, name: str, dtype: torch.dtype) -> StreamedSample:
        """The sample in the frame of this name, to be digested in the precision asked for."""
        return StreamedSample(self, name, dtype)

    def evenly(self, name: str, limit: int) -> Tensor:
        """At most ``limit`` rows (k, d) in the order of their radius in a frame, evenly spaced in it.

        These are the rows that a sample in memory would choose: see `discoformer.scale.ranks`.
        """
        if (name, limit) not in self._even:
            ranks = even_ranks(self.rows, limit)
            self._even[name, limit] = rows_at_ranks(self.source, self.frame(name), ranks)
        return self._even[name, limit]

    def select(self, columns: list[int]) -> Stream:
        """The stream of some of the columns."""
        return Stream(Selected(self.source, columns), self.survey.select(columns))


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

    def few(self) -> InMemory | StreamedSample:
        if self.stream.rows <= MANY:
            return self
        points = self.frame.normalize(self.stream.evenly(self.name, FEW)).to(self.dtype)
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

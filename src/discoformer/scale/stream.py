"""A sample on a source: what the first passes found, its frames, and rows evenly spaced in it."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.fields import Field, Method
from discoformer.core.frames import FRAMES, MomentFrameKind
from discoformer.core.transforms import Frame
from discoformer.scale.ranks import even_ranks, rows_at_ranks
from discoformer.scale.source import Selected, Source
from discoformer.scale.survey import Survey, survey

__all__ = ["Stream", "StreamingMethod"]


class StreamingMethod(Method):
    """A method that can be fitted to a sample that is not in memory."""

    @abstractmethod
    def fit_stream(self, stream: Stream) -> Field:
        """Fit by passes over the sample."""


class Stream:
    """A source and what the first passes over it have found.

    Examples
    --------
    >>> import numpy as np
    >>> from discoformer.models.registry import build_network
    >>> from discoformer.scale.opening import open_source
    >>> points = np.random.default_rng(0).normal(size=(500, 2))
    >>> network = build_network({"kind": "unified", "layers": 1, "width": 8, "slots": 3}, "whiten").double()
    >>> field = network.fit_stream(Stream(open_source(points)))
    >>> in_memory = network.fit(points)
    >>> bool(np.allclose(field.log_density(points), in_memory.log_density(points)))
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
        kind = FRAMES[name]
        if not isinstance(kind, MomentFrameKind):
            raise DataError(f"a {name} frame needs the sample in memory: load it first")
        return kind.from_moments(self.survey.moments)

    def evenly(self, name: str, limit: int) -> Tensor:
        """At most ``limit`` rows (k, d) in the order of their radius in a frame, evenly spaced in it.

        These are the rows that a sample in memory would choose: see `discoformer.scale.ranks`.
        """
        if (name, limit) not in self._even:
            ranks = even_ranks(self.rows, limit)
            self._even[name, limit] = rows_at_ranks(self.source, self.frame(name), ranks)
        return self._even[name, limit]

    def load(self) -> Tensor:
        """All rows (n, d) in double precision: for samples that are small after all."""
        return torch.cat(list(self.source.map(torch.Tensor.double)))

    def select(self, columns: list[int]) -> Stream:
        """The stream of some of the columns; itself if these are all, with the rows it has found."""
        if columns == list(range(self.source.dim)):
            return self
        return Stream(Selected(self.source, columns), self.survey.select(columns))

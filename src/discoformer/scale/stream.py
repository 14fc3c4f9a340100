"""A sample on a source: what the first passes found, its frames, and rows evenly spaced in it.

The first pass finds the range and the mean of every column and refuses values that are not finite; the second
sums the products of centered columns.  Both combine chunks by formulas without cancellation, so data far
from the origin (dates in seconds, positions on a map) loses no precision.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from discoformer.core.checks import DataError, largest, show_cell
from discoformer.core.fields import Field, Method
from discoformer.core.frames import FRAMES, FrameMoments, MomentFrameKind
from discoformer.core.transforms import Frame
from discoformer.scale.ranks import even_ranks, rows_at_ranks
from discoformer.scale.source import Selected, Source

__all__ = ["ChunkSummary", "Stream", "StreamingMethod", "Survey", "look", "survey"]


@dataclass(frozen=True)
class Survey:
    """What the passes found.

    Attributes
    ----------
    rows : number of rows
    low, high : (d,), range of every column
    moments : center, scale and correlation; NaN in the correlations of a column with scale zero
    eps : relative rounding error of the stored numbers
    """

    rows: int
    low: Tensor
    high: Tensor
    moments: FrameMoments
    eps: float

    @property
    def size(self) -> Tensor:
        """Largest absolute value of every column (d,)."""
        return torch.maximum(self.low.abs(), self.high.abs())

    def select(self, columns: list[int]) -> Survey:
        """The survey of some of the columns."""
        center, scale, correlation = self.moments
        moments = FrameMoments(center[:, columns], scale[columns], correlation[columns][:, columns])
        return Survey(self.rows, self.low[columns], self.high[columns], moments, self.eps)


def survey(source: Source, name: str = "X") -> Survey:
    """Range and moments of a source, in two passes.

    >>> import numpy as np
    >>> from discoformer.scale.source import ArraySource
    >>> found = survey(ArraySource(np.array([[1.0, 1e9], [3.0, 1e9 + 4]])))
    >>> found.moments.center.tolist(), found.moments.scale.tolist()
    ([[2.0, 1000000002.0]], [1.0, 2.0])
    """
    seen = look(source, name)
    if seen.rows < 2:
        raise DataError(f"{name} has {seen.rows} row(s), at least 2 are needed")
    limit = largest(seen.low.dtype)
    if float(torch.maximum(seen.low.abs(), seen.high.abs()).max()) > limit:
        raise DataError(f"{name} has values beyond {limit:.0e}, whose squares overflow: change the unit")
    spread = torch.maximum(seen.high - seen.mean, seen.mean - seen.low)
    unit = torch.where(spread > 0, spread, 1)  # guards the squares against under- and overflow
    products = source.reduce(_Products(seen.mean, unit), "measuring") / seen.rows
    scale = products.diagonal().sqrt()
    correlation = products / scale / scale.unsqueeze(-1)
    moments = FrameMoments(seen.mean.unsqueeze(0), scale * unit, correlation)
    return Survey(seen.rows, seen.low, seen.high, moments, source.eps)


def look(source: Source, name: str = "X") -> ChunkSummary:
    """Range and mean of every column, in one pass; `DataError` names the first value that is not finite."""
    seen = source.reduce(_look, "looking")
    if seen.bad is not None:
        row, column, value = seen.bad
        what = "NaN" if value != value else "an infinity"
        which = f"column {column}" if source.names is None else f"column {show_cell(source.names[column])}"
        raise DataError(
            f"{name} has {what} at row {row}, {which} ({seen.bad_values} NaN or infinite value(s) in all): "
            "drop or fill such rows first"
        )
    return seen


@dataclass(frozen=True)
class ChunkSummary:
    """Range and mean of some rows, and the first value that is not finite: its row, column and value."""

    rows: int
    low: Tensor
    high: Tensor
    mean: Tensor
    bad: tuple[int, int, float] | None
    bad_values: int

    def __add__(self, other: ChunkSummary) -> ChunkSummary:
        rows = self.rows + other.rows
        bad = self.bad
        if bad is None and other.bad is not None:
            bad = (self.rows + other.bad[0], *other.bad[1:])
        return ChunkSummary(
            rows,
            torch.minimum(self.low, other.low),
            torch.maximum(self.high, other.high),
            self.mean + (other.mean - self.mean) * (other.rows / max(rows, 1)),
            bad,
            self.bad_values + other.bad_values,
        )


def _look(chunk: Tensor) -> ChunkSummary:
    rows, dim = chunk.shape
    if not rows:
        empty = torch.full((dim,), torch.inf, dtype=chunk.dtype)
        return ChunkSummary(0, empty, -empty, torch.zeros_like(empty), None, 0)
    finite = chunk.isfinite()
    bad = None
    if not bool(finite.all()):
        row, column = (int(i) for i in (~finite).nonzero()[0])
        bad = (row, column, float(chunk[row, column]))
    mean = chunk[0] + (chunk - chunk[0]).mean(0)
    return ChunkSummary(rows, chunk.amin(0), chunk.amax(0), mean, bad, int((~finite).sum()))


@dataclass(frozen=True)
class _Products:
    """Sums of products (d, d) of centered columns in their units."""

    center: Tensor
    unit: Tensor

    def __call__(self, chunk: Tensor) -> Tensor:
        centered = (chunk - self.center) / self.unit
        return centered.mT @ centered


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
    >>> from discoformer.scale.source import open_source
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

"""The unified core as a method: in whitened coordinates, with the axes of the standardized columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.columns.support import rows_suffice
from discoformer.core.checks import check_untracked
from discoformer.core.composed import Blend, push
from discoformer.core.fields import Density
from discoformer.core.frames import FRAMES, Axes
from discoformer.core.moving import untracked
from discoformer.core.threads import team
from discoformer.core.transforms import Frame
from discoformer.models.mixture.landmarks import POOL
from discoformer.models.mixture.merge import Rule, merge, settle
from discoformer.models.mixture.sample import InMemory, Sample, StreamedSample, too_many
from discoformer.models.mixture.student import StudentMixture
from discoformer.models.mixture.unified import SETTLE, UnifiedCore
from discoformer.models.mixture.weigh import blend
from discoformer.models.network import Network
from discoformer.scale.stream import Stream, StreamingMethod

__all__ = ["Seen", "UnifiedNetwork"]


class UnifiedNetwork(Network, StreamingMethod):
    """A `UnifiedCore` in a whitening frame.

    With ``axes``, which may be changed at any time, the columns' own axes count, and a sample of too few rows
    for its covariance (`rows_suffice`) is standardized instead of whitened; without, answers are exactly
    affine equivariant.

    Examples
    --------
    >>> from discoformer.models.mixture.unified import UnifiedConfig
    >>> core = UnifiedCore(UnifiedConfig(layers=1, width=8, heads=2, slots=4))
    >>> network = UnifiedNetwork(core, axes=False).double()
    >>> x = torch.randn(50, 2, dtype=torch.float64)
    >>> turn = torch.tensor([[0.6, 0.8], [-0.8, 0.6]], dtype=torch.float64)
    >>> bool(torch.allclose(network(x, x).score @ turn, network(x @ turn, x @ turn).score))
    True
    """

    def __init__(self, core: UnifiedCore, *, axes: bool = True) -> None:
        super().__init__(core, "whiten")
        self.axes = axes

    def for_few_rows(self) -> UnifiedNetwork:
        """Itself: it sees how many rows there are."""
        return self

    def pads(self, rows: int, size: int, dim: int) -> bool:
        """If neither the number of slots nor the frame nor the pool of landmarks follows the rows."""
        enough = rows >= 2 * int(self.core.config.slots) and rows_suffice(rows, dim)
        return rows == size or (enough and rows <= size <= POOL)

    def place(
        self, context: Tensor, weights: Tensor | None = None, *, axes: bool | None = None
    ) -> tuple[Frame, Axes | None]:
        """The frame of a context (..., n, d), and its axes if they count: by default, if the network's do."""
        count = self.axes if axes is None else axes
        rows, dim = context.shape[-2:]
        frame = FRAMES[_frame_name(rows, dim, count)].fit(context, weights)
        return frame, Axes.between(frame, FRAMES["standardize"].fit(context, weights)) if count else None

    def digest(self, points: Tensor, weights: Tensor | None, axes: Axes | None = None) -> Blend:
        """The density of normalized points (..., n, d): unmerged and merged mixture blended."""
        return self.believe(self.see(points, weights, axes))[0]

    def see(self, points: Tensor, weights: Tensor | None, axes: Axes | None) -> Seen:
        """The mixture of normalized points (..., n, d) as the core gives it."""
        flat = points.reshape(-1, *points.shape[-2:])
        share = None if weights is None else weights.reshape(flat.shape[:-1])
        sample = InMemory(flat, share, precise=True)
        return self._see(sample, axes, points.shape[:-2])

    def _see(self, sample: Sample, axes: Axes | None, batch: torch.Size) -> Seen:
        axes = None if axes is None else axes.flat()
        mixture: StudentMixture = self.core.digest(sample, axes=axes, evidence=True)
        few = sample.few(self.core.deciding)
        assert isinstance(few, InMemory)
        return Seen(sample, few, axes, mixture, mixture.left_out(few.points, few.weights), batch)

    def believe(self, seen: Seen) -> tuple[Blend, Tensor]:
        """The blend of the unmerged and the merged mixture by leave-one-out likelihood, and that likelihood.

        The latter are log densities (..., n) of the deciding rows, each left out, in the frame.
        """
        rule = Rule.of(self.core.config)
        merged = merge(seen.few, seen.mixture, seen.axes, rule)
        if seen.few is not seen.sample:
            merged = settle(seen.sample, merged, seen.axes, SETTLE, rule)
        left_out = seen.left_out, merged.left_out(seen.few.points, seen.few.weights)
        found = blend((seen.mixture, merged), left_out, seen.few.weights)
        blended = (torch.stack(left_out, -1) + found.log_weight.unsqueeze(-2)).logsumexp(-1)
        return each_part(found, seen.unfold), seen.unfold(blended)

    def without_axes(self) -> UnifiedNetwork:
        """The same network, exactly affine equivariant."""
        return UnifiedNetwork(self.core, axes=False)

    @untracked
    @team()
    def _fit(self, context: Tensor, weights: Tensor | None) -> Density:
        seen, frame = self.look(context, weights)
        return push(self.believe(seen)[0], [frame])

    def look(self, context: Tensor, weights: Tensor | None = None) -> tuple[Seen, Frame]:
        """What the core makes of a context (..., n, d) in its frame, and the frame."""
        check_untracked(weights)
        context = context.to(self.dtype)
        weights = None if weights is None else weights.to(self.dtype)
        frame, axes = self.place(context, weights)
        return self.see(frame.normalize(context), weights, axes), frame

    @team()
    @torch.no_grad()
    def fit_stream(self, stream: Stream) -> Density:
        """Fit to a sample that is not in memory, by passes over it."""
        if not too_many(stream.rows, self.core.deciding):  # no more than fits into memory
            return self._fit(stream.load(), None)
        name = _frame_name(stream.rows, stream.source.dim, self.axes)
        frame = stream.frame(name)
        axes = Axes.between(frame, stream.frame("standardize")).to(self.dtype) if self.axes else None
        found, _ = self.believe(self._see(StreamedSample(stream, name, self.dtype), axes, torch.Size()))
        return push(found, [frame.to(self.dtype)])


class Seen(NamedTuple):
    """A batch (B) of samples as the core sees them, before anything is merged.

    Attributes
    ----------
    sample, few : all points, and those that decide
    axes : that count
    mixture : as the core gives it
    left_out : (B, n), log densities of the points that decide, each without itself
    batch : what the samples are a batch of, (...)
    """

    sample: Sample
    few: InMemory
    axes: Axes | None
    mixture: StudentMixture
    left_out: Tensor
    batch: torch.Size

    def unfold(self, tensor: Tensor) -> Tensor:
        """From a batch (B, ...) to the batch of the samples."""
        return tensor.reshape((*self.batch, *tensor.shape[1:]))

    def some(self, members: Tensor) -> Seen:
        """Some samples of the batch, by their numbers (k,); it must be in memory as a whole."""

        def own(tensor: Tensor) -> Tensor:
            return tensor[members]

        few = self.few.some(members)
        axes = None if self.axes is None else Axes(*map(own, self.axes))
        batch = torch.Size([len(members)])
        return Seen(few, few, axes, self.mixture.map(own), own(self.left_out), batch)


def each_part(found: Blend, function: Callable[[Tensor], Tensor]) -> Blend:
    """A blend of mixtures with a function applied to every tensor."""
    parts = [part for part in found.parts if isinstance(part, StudentMixture)]
    return Blend(tuple(part.map(function) for part in parts), function(found.log_weight))


def _frame_name(rows: int, dim: int, axes: bool) -> str:
    """Whiten, unless axes count and the covariance is mostly noise."""
    return "whiten" if not axes or rows_suffice(rows, dim) else "standardize"

"""The unified core as a method: whitened, with the axes of the standardized columns beside."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from discoformer.columns.support import rows_suffice
from discoformer.core.blend import Blend
from discoformer.core.checks import check_untracked
from discoformer.core.fields import Density
from discoformer.core.frames import FRAMES
from discoformer.core.pushforward import push
from discoformer.core.transforms import Frame
from discoformer.models.mixture.axes import Axes
from discoformer.models.mixture.landmarks import POOL
from discoformer.models.mixture.merge import merge, settle
from discoformer.models.mixture.sample import MANY, InMemory, Sample
from discoformer.models.mixture.streamed import StreamedSample
from discoformer.models.mixture.student import StudentMixture
from discoformer.models.mixture.unified import SETTLE, UnifiedCore
from discoformer.models.mixture.weigh import blend
from discoformer.models.network import Network
from discoformer.scale.stream import Stream, StreamingMethod

__all__ = ["UnifiedNetwork"]


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
        """What is to be believed of normalized points (..., n, d), with the axes that count."""
        batch = points.shape[:-2]
        flat = points.reshape(-1, *points.shape[-2:])
        sample = InMemory(flat, None if weights is None else weights.reshape(flat.shape[:-1]))
        return each_part(
            self.believe(sample, axes), lambda tensor: tensor.reshape((*batch, *tensor.shape[1:]))
        )

    def believe(self, sample: Sample, axes: Axes | None) -> Blend:
        """The mixture of a sample (B) as the core gives it, and merged, weighed by rows that are left out."""
        axes = None if axes is None else axes.flat()
        mixture: StudentMixture = self.core.digest(sample, axes=axes, evidence=True)
        few = sample.few()
        assert isinstance(few, InMemory)
        merged = merge(few, mixture, axes)
        if few is not sample:
            merged = settle(sample, merged, axes, SETTLE)
        left_out = [part.left_out(few.points, few.weights) for part in (mixture, merged)]
        return blend((mixture, merged), left_out, few.weights)

    def without_axes(self) -> UnifiedNetwork:
        """The same network, exactly affine equivariant."""
        return UnifiedNetwork(self.core, axes=False)

    def _fit(self, context: Tensor, weights: Tensor | None) -> Density:
        return push(*self.fit_inside(context, weights))

    def fit_inside(self, context: Tensor, weights: Tensor | None = None) -> tuple[Blend, list[Frame]]:
        """The density of a context (..., n, d) in its frame, and the frame."""
        check_untracked(weights)
        context = context.to(self.dtype)
        weights = None if weights is None else weights.to(self.dtype)
        frame, axes = self.place(context, weights)
        return self.digest(frame.normalize(context), weights, axes), [frame]

    @torch.no_grad()
    def fit_stream(self, stream: Stream) -> Density:
        """Fit to a sample that is not in memory, by passes over it."""
        if stream.rows <= MANY:  # no more than fits into memory
            return self._fit(stream.load(), None)
        name = _frame_name(stream.rows, stream.source.dim, self.axes)
        frame = stream.frame(name)
        axes = Axes.between(frame, stream.frame("standardize")).to(self.dtype) if self.axes else None
        found = self.believe(StreamedSample(stream, name, self.dtype), axes)
        return push(each_part(found, lambda tensor: tensor.squeeze(0)), [frame.to(self.dtype)])


def each_part(found: Blend, function: Callable[[Tensor], Tensor]) -> Blend:
    """A blend of mixtures with a function applied to every tensor."""
    parts = [part for part in found.parts if isinstance(part, StudentMixture)]
    return Blend(tuple(part.map(function) for part in parts), function(found.log_weight))


def _frame_name(rows: int, dim: int, axes: bool) -> str:
    """Whiten, unless axes count and the covariance is mostly noise."""
    return "whiten" if not axes or rows_suffice(rows, dim) else "standardize"

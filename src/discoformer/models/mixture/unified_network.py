"""The unified core as a method: whitened, with the axes of the standardized columns beside."""

from __future__ import annotations

import torch
from torch import Tensor

from discoformer.columns.support import rows_suffice
from discoformer.core.checks import check_untracked
from discoformer.core.fields import Density
from discoformer.core.frames import FRAMES
from discoformer.core.pushforward import push
from discoformer.core.transforms import Frame
from discoformer.models.mixture.axes import Axes
from discoformer.models.mixture.streamed import StreamedSample
from discoformer.models.mixture.student import StudentMixture
from discoformer.models.mixture.unified import UnifiedCore
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

    def place(
        self, context: Tensor, weights: Tensor | None = None, *, axes: bool | None = None
    ) -> tuple[Frame, Axes | None]:
        """The frame of a context (..., n, d), and its axes if they count: by default, if the network's do."""
        count = self.axes if axes is None else axes
        rows, dim = context.shape[-2:]
        frame = FRAMES[_frame_name(rows, dim, count)].fit(context, weights)
        return frame, Axes.between(frame, FRAMES["standardize"].fit(context, weights)) if count else None

    def digest(self, points: Tensor, weights: Tensor | None, axes: Axes | None = None) -> StudentMixture:
        """What the core makes of normalized points (..., n, d), with the axes that count."""
        mixture: StudentMixture = self.core.encode(points, weights, axes=axes)
        return mixture

    def without_axes(self) -> UnifiedNetwork:
        """The same network, exactly affine equivariant."""
        return UnifiedNetwork(self.core, axes=False)

    def _fit(self, context: Tensor, weights: Tensor | None) -> Density:
        return push(*self.fit_inside(context, weights))

    def fit_inside(
        self, context: Tensor, weights: Tensor | None = None
    ) -> tuple[StudentMixture, list[Frame]]:
        """The mixture of a context (..., n, d) in its frame, and the frame."""
        check_untracked(weights)
        context = context.to(self.dtype)
        weights = None if weights is None else weights.to(self.dtype)
        frame, axes = self.place(context, weights)
        return self.digest(frame.normalize(context), weights, axes), [frame]

    @torch.no_grad()
    def fit_stream(self, stream: Stream) -> Density:
        """Fit to a sample that is not in memory, by passes over it."""
        name = _frame_name(stream.rows, stream.source.dim, self.axes)
        frame = stream.frame(name)
        axes = Axes.between(frame, stream.frame("standardize")).to(self.dtype) if self.axes else None
        mixture: StudentMixture = self.core.digest(StreamedSample(stream, name, self.dtype), axes=axes)
        return push(mixture.map(lambda t: t.squeeze(0)), [frame.to(self.dtype)])


def _frame_name(rows: int, dim: int, axes: bool) -> str:
    """Whiten, unless axes count and the covariance is mostly noise."""
    return "whiten" if not axes or rows_suffice(rows, dim) else "standardize"

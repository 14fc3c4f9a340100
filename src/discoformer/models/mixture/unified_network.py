"""The unified core in its frame: whitened, with the axes of the standardized columns beside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from discoformer.core.checks import check_untracked
from discoformer.core.frames import FRAMES, Frame
from discoformer.models.mixture.axes import Axes
from discoformer.models.network import Network, NetworkField

if TYPE_CHECKING:
    from discoformer.models.mixture.stream import Stream

__all__ = ["ROWS_PER_COLUMN", "UnifiedNetwork"]

ROWS_PER_COLUMN = 6  # with fewer, a covariance is mostly noise: the frame standardizes, if axes count


class UnifiedNetwork(Network):
    """A unified core in a whitening frame.

    With ``axes``, which may be changed at any time, the columns' own axes count, and samples of fewer than
    six rows per column are standardized instead of whitened; without, answers are exactly affine equivariant.

    Examples
    --------
    >>> from discoformer.models.mixture.unified import UnifiedConfig, UnifiedCore
    >>> core = UnifiedCore(UnifiedConfig(layers=1, width=8, heads=2, slots=4))
    >>> network = UnifiedNetwork(core, axes=False).double()
    >>> x = torch.randn(50, 2, dtype=torch.float64)
    >>> turn = torch.tensor([[0.6, 0.8], [-0.8, 0.6]], dtype=torch.float64)
    >>> bool(torch.allclose(network(x, x).score @ turn, network(x @ turn, x @ turn).score))
    True
    """

    def __init__(self, core: nn.Module, *, axes: bool = True) -> None:
        super().__init__(core, "whiten")
        self.axes = axes

    def for_few_rows(self) -> Network:
        """Itself: it sees how many rows there are."""
        return self

    def place(
        self, context: Tensor, weights: Tensor | None = None, *, axes: bool | None = None
    ) -> tuple[Frame, Axes | None]:
        """The frame of a context (..., n, d), and its axes if they count: by default, if the network's do."""
        count = self.axes if axes is None else axes
        rows, dim = context.shape[-2:]
        frame = FRAMES[self._frame_of(rows, dim, count)].fit(context, weights)
        return frame, Axes.between(frame, FRAMES["standardize"].fit(context, weights)) if count else None

    def _fit(self, context: Tensor, weights: Tensor | None) -> NetworkField:
        check_untracked(weights)
        context = context.to(self.dtype)
        weights = None if weights is None else weights.to(self.dtype)
        frame, axes = self.place(context, weights)
        return self._field(frame, self.core.encode(frame.normalize(context), weights, axes=axes))

    @torch.no_grad()
    def fit_stream(self, stream: Stream) -> NetworkField:
        """Fit to a sample that is not in memory, by passes over it."""
        name = self._frame_of(stream.rows, stream.source.dim, self.axes)
        frame = stream.frame(name)
        axes = Axes.between(frame, stream.frame("standardize")).to(self.dtype) if self.axes else None
        state = self.core.digest(stream.inside(name, self.dtype), axes=axes)
        return self._field(frame.to(self.dtype), state.map(lambda t: t.squeeze(0)))

    @staticmethod
    def _frame_of(rows: int, dim: int, axes: bool) -> str:
        return "standardize" if axes and rows < ROWS_PER_COLUMN * dim else "whiten"

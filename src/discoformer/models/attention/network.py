"""The paper's Transformer as a method: it keeps the encoded context, and reads it at any point."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from discoformer.core.fields import Estimate, PointDensity
from discoformer.models.attention.core import AttentionCore, AttentionState
from discoformer.models.network import Network

__all__ = ["AttentionDensity", "AttentionNetwork"]


@dataclass(frozen=True, repr=False)
class AttentionDensity(PointDensity):
    """An encoded context in normalized coordinates, and the core that reads it."""

    core: AttentionCore
    state: AttentionState

    @property
    def dim(self) -> int:
        return self.core.config.dim

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        return self.core.read(self.state, queries)

    def __repr__(self) -> str:
        rows = self.state.stream.hidden.shape[-2]
        return f"Transformer in {self.dim} column(s) that attends to {rows} rows"


class AttentionNetwork(Network):
    """An `AttentionCore` in a frame.

    Examples
    --------
    >>> import torch
    >>> from discoformer.models.attention.core import AttentionConfig
    >>> core = AttentionCore(AttentionConfig(dim=2, layers=1, width=8, heads=2, feedforward=8)).eval()
    >>> AttentionNetwork(core, "canonical").fit(torch.randn(50, 2)).score(torch.zeros(3, 2)).shape
    torch.Size([3, 2])
    """

    def digest(self, points: Tensor, weights: Tensor | None) -> AttentionDensity:
        return AttentionDensity(self.core, self.core.encode(points, weights))

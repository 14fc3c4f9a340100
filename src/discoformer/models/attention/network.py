"""The paper's Transformer as a method: it keeps the encoded context and reads it at any point."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from discoformer.core.fields import Estimate, Field, PointDensity
from discoformer.models.attention.core import AttentionCore, AttentionState
from discoformer.models.network import Network

__all__ = ["AttentionDensity", "AttentionNetwork", "AttentionScore"]


@dataclass(frozen=True, repr=False)
class AttentionScore(Field):
    """An encoded context in normalized coordinates, and the core that reads its score."""

    core: AttentionCore
    state: AttentionState

    @property
    def dim(self) -> int:
        return self.core.config.dim

    def _score(self, queries: Tensor) -> Tensor:
        return self.core.read(self.state, queries).score

    def __repr__(self) -> str:
        rows = self.state.stream.hidden.shape[-2]
        return f"Transformer in {self.dim} column(s) that attends to {rows} rows"


class AttentionDensity(AttentionScore, PointDensity):
    """The same for a core that also knows the density; without a score head, its gradient is the score."""

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        if self.core.score_head is not None:
            return self.core.read(self.state, queries)
        with torch.enable_grad():
            points = queries if queries.requires_grad else queries.detach().requires_grad_()
            log_density = self.core.read(self.state, points).log_density
            (score,) = torch.autograd.grad(log_density.sum(), points, create_graph=queries.requires_grad)
        return Estimate(log_density if queries.requires_grad else log_density.detach(), score)

    def _score(self, queries: Tensor) -> Tensor:
        return self._estimate(queries).score


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

    def digest(self, points: Tensor, weights: Tensor | None) -> AttentionScore:
        kind = AttentionScore if self.core.density_head is None else AttentionDensity
        return kind(self.core, self.core.encode(points, weights))

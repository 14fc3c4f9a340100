"""A neural spline flow, trained on the sample itself: the choice when there is time to train.

zuko's autoregressive rational-quadratic splines on standardized columns, by maximum likelihood.
Training stops when the likelihood of validation rows stops growing.  Needs the ``bench`` extra.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.composed import push
from discoformer.core.extras import require
from discoformer.core.fields import Estimate, Method, PointDensity
from discoformer.core.frames import Standardize

__all__ = ["FlowDensity", "SplineFlow"]


@dataclass(frozen=True, repr=False)
class FlowDensity(PointDensity):
    """A trained flow; the score is the gradient of its log density, by autograd."""

    flow: Any
    columns: int
    epochs: int

    @property
    def dim(self) -> int:
        return self.columns

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        tracked = torch.is_grad_enabled() and queries.requires_grad
        with torch.enable_grad():
            points = queries if tracked else queries.detach().requires_grad_()
            log_density = self.flow().log_prob(points.float()).double()
            (score,) = torch.autograd.grad(log_density.sum(), points, create_graph=tracked)
        return Estimate(log_density if tracked else log_density.detach(), score)

    @torch.no_grad()
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n points (n, d)."""
        normal = torch.randn(n, self.dim, generator=generator)
        drawn: Tensor = self.flow().transform.inv(normal)
        return drawn.double()

    def __repr__(self) -> str:
        return f"spline flow in {self.dim} column(s), trained for {self.epochs} epochs"


@dataclass(kw_only=True, eq=False)
class SplineFlow(Method):
    """Neural spline flow with early stopping.

    AdamW, batches of 128 rows; a share of the rows is kept for validation, and the weights with the best
    validation likelihood are used.  One sample at a time, no sample weights.

    Parameters
    ----------
    transforms, hidden, bins : size of the flow
    lr, weight_decay : of AdamW
    validation : share of the rows that decides when to stop
    patience : epochs without progress before training stops
    epochs : at most this many
    seed : of the split, the weights and the batches
    """

    transforms: int = 3
    hidden: tuple[int, ...] = (64, 64)
    bins: int = 8
    lr: float = 1e-3
    weight_decay: float = 1e-4
    validation: float = 0.2
    patience: int = 30
    epochs: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        require("zuko", "bench", "a neural spline flow")

    def _fit(self, context: Tensor, weights: Tensor | None) -> PointDensity:
        if weights is not None:
            raise DataError("the flow takes no sample weights: leave them out, or use KDE, which takes them")
        if context.ndim > 2:
            raise DataError("a flow is trained on one sample at a time: give (rows, columns)")
        context = context.detach().double()
        frame = Standardize().fit(context)
        points = frame.normalize(context).float()
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(self.seed)
            flow, epochs = self._train(points[torch.randperm(len(points))])
        return push(FlowDensity(flow, context.shape[-1], epochs), [frame])

    def _train(self, points: Tensor) -> tuple[Any, int]:
        """The flow with the best validation likelihood and the epoch it was reached in."""
        import zuko

        held_out = max(1, round(self.validation * len(points)))
        validation, training = points[:held_out], points[held_out:]
        flow = zuko.flows.NSF(
            points.shape[-1], transforms=self.transforms, hidden_features=self.hidden, bins=self.bins
        )
        optimizer = torch.optim.AdamW(flow.parameters(), lr=self.lr, weight_decay=self.weight_decay)
        best, best_epoch, best_loss = copy.deepcopy(flow), 0, float("inf")
        for epoch in range(1, self.epochs + 1):
            for batch in training[torch.randperm(len(training))].split(128):
                optimizer.zero_grad()
                (-flow().log_prob(batch).mean()).backward()
                torch.nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
                optimizer.step()
            with torch.no_grad():
                loss = float(-flow().log_prob(validation).mean())
            if loss < best_loss:
                best, best_epoch, best_loss = copy.deepcopy(flow), epoch, loss
            elif epoch - best_epoch >= self.patience:
                break
        return best.requires_grad_(False).eval(), best_epoch

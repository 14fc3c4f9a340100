"""The training losses, alpha * density + (1 - alpha) * score.

``relative``, ours, is in the frame's coordinates.  Score errors count relative to the data set's own mean
squared score, so that no scale or dimension dominates.  The density term is Huber's, per dimension.  Queries
from a second distribution can lie far out, where log densities and scores are huge; both terms are weighted
down there by the score's magnitude.

``mse``, the paper's, is the plain mean squared error in the coordinates of the data, far points included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from discoformer.core.fields import Estimate

__all__ = ["Loss", "mse_loss", "relative_loss"]


class Loss(NamedTuple):
    """Scalars: what is minimized, and the mean errors of the two parts it is made of.

    An error is NaN for a core that has no head for it.
    """

    total: Tensor
    density: Tensor
    score: Tensor


def relative_loss(
    estimate: Estimate[Tensor],
    truth: Estimate[Tensor],
    near: int,
    alpha: float,
    weigh: Callable[[str, Tensor], Tensor] | None = None,
) -> Loss:
    """Loss of estimates at queries of which the first ``near`` are draws from the context's distribution.

    All tensors are in the frame's coordinates: log densities (B, m), scores (B, m, d).  ``weigh`` makes one
    number of the errors (B,) of the parts "density" and "score"; their mean unless it is given.

    >>> truth = Estimate(torch.zeros(1, 5), torch.ones(1, 5, 2))
    >>> float(relative_loss(Estimate(torch.zeros(1, 5), torch.zeros(1, 5, 2)), truth, 5, alpha=0.25).total)
    0.75
    """
    dim = truth.score.shape[-1]
    square = truth.score.square().mean(-1)  # (B, m)
    typical = square[:, :near].mean(-1, keepdim=True)
    far = torch.ones_like(square)
    far[:, near:] = 1 / (1 + square[:, near:] / typical)
    huber = functional.huber_loss(estimate.log_density, truth.log_density, reduction="none", delta=2.0) / dim
    error = (estimate.score - truth.score).square().mean(-1) / typical
    density, score = (huber * far).mean(-1), (error * far).mean(-1)
    means = density.mean(), score.mean()
    if weigh is None:
        return Loss(_total(alpha, *means), *means)
    return Loss(_total(alpha, weigh("density", density), weigh("score", score)), *means)


def mse_loss(estimate: Estimate[Tensor], truth: Estimate[Tensor], alpha: float) -> Loss:
    """The paper's loss, in the coordinates of the data: log densities (B, m), scores (B, m, d).

    >>> truth = Estimate(torch.zeros(1, 5), torch.ones(1, 5, 2))
    >>> float(mse_loss(Estimate(torch.zeros(1, 5), torch.zeros(1, 5, 2)), truth, alpha=0.25).total)
    1.5
    """
    density = (estimate.log_density - truth.log_density).square().mean()
    score = (estimate.score - truth.score).square().sum(-1).mean()
    return Loss(_total(alpha, density, score), density, score)


def _total(alpha: float, density: Tensor, score: Tensor) -> Tensor:
    parts = [share * part for share, part in ((alpha, density), (1 - alpha, score)) if share]
    return torch.stack(parts).sum()

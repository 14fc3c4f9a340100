"""The training loss, in the frame's coordinates: alpha * density + (1 - alpha) * score.

Score errors count relative to the data set's own mean squared score, so that no scale or dimension
dominates.  The density term is Huber's, per dimension.  Queries from a second distribution can lie far
out, where log densities and scores are huge; both terms are weighted down there by the score's magnitude.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from discoformer.core.fields import Estimate

__all__ = ["Loss", "task_loss"]


class Loss(NamedTuple):
    """Scalars: what is minimized, and the mean errors of the two parts it is made of."""

    total: Tensor
    density: Tensor
    score: Tensor


def task_loss(
    estimate: Estimate[Tensor],
    truth: Estimate[Tensor],
    size: int,
    fresh: int,
    alpha: float,
    balance: Callable[[str, Tensor, int, int], Tensor] | None = None,
) -> Loss:
    """Loss of estimates at queries [context (size), fresh draws (fresh), second distribution (rest)].

    All tensors are in the frame's coordinates: log densities (B, m), scores (B, m, d).  With a
    `discoformer.training.balance.Balance`, both parts count relative to what is usual for the task.

    >>> truth = Estimate(torch.zeros(1, 5), torch.ones(1, 5, 2))
    >>> float(task_loss(Estimate(torch.zeros(1, 5), torch.zeros(1, 5, 2)), truth, 4, 1, alpha=0.25).total)
    0.75
    """
    log_density, score = estimate
    true_log_density, true_score = truth
    assert log_density is not None
    assert true_log_density is not None
    dim = score.shape[-1]
    square = true_score.square().mean(-1)  # (B, m)
    typical = square[:, : size + fresh].mean(-1, keepdim=True)
    error = (score - true_score).square().mean(-1) / typical
    far = torch.ones_like(error)
    far[:, size + fresh :] = 1 / (1 + square[:, size + fresh :] / typical)
    huber = functional.huber_loss(log_density, true_log_density, reduction="none", delta=2.0) / dim
    density_loss, score_loss = (huber * far).mean(), (error * far).mean()
    if balance is not None:
        errors = {"density": huber * far, "score": error * far}
        density, relative = (balance(name, part.mean(-1), dim, size) for name, part in errors.items())
        return Loss(alpha * density + (1 - alpha) * relative, density_loss, score_loss)
    return Loss(alpha * density_loss + (1 - alpha) * score_loss, density_loss, score_loss)

"""Weights of several views of one sample, by what each says of every row without it."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["view_weights"]


def view_weights(left_out: Tensor, weights: Tensor | None, rounds: int = 100) -> Tensor:
    """Weights (..., K) that maximize the mean of log sum_k w_k exp(left_out (..., n, K)).

    >>> left_out = torch.tensor([[0.0, -9.0], [0.0, -9.0], [-9.0, 0.0]], dtype=torch.float64)
    >>> view_weights(left_out, None).round(decimals=2).tolist()
    [0.67, 0.33]
    """
    density = (left_out - left_out.amax(-1, keepdim=True)).exp()
    size, views = density.shape[-2:]
    share = torch.full_like(density[..., 0], 1 / size) if weights is None else weights.to(density)
    found = density.new_full((*density.shape[:-2], views), 1 / views)
    for _ in range(rounds):  # expectation-maximization: the problem is concave
        joint = density * found.unsqueeze(-2)
        found = (share.unsqueeze(-1) * joint / joint.sum(-1, keepdim=True)).sum(-2)
    return found / found.sum(-1, keepdim=True)

"""How much to believe each of several fits: as much as makes the rows that were left out most likely."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from discoformer.core.blend import Blend
from discoformer.core.fields import Density

__all__ = ["blend", "leave_one_out_weights"]


def blend(densities: Sequence[Density], left_out: Sequence[Tensor], weights: Tensor | None) -> Blend:
    """The mixture of densities with the weights that their left-out log densities (..., n) give them."""
    found = leave_one_out_weights(torch.stack(list(left_out), -1), weights)
    return Blend(tuple(densities), found.clamp_min(torch.finfo(found.dtype).tiny).log())


def leave_one_out_weights(left_out: Tensor, weights: Tensor | None, rounds: int = 100) -> Tensor:
    """Weights (..., K) that maximize the mean of log sum_k w_k exp(left_out (..., n, K)).

    No folds, no cuts: one row changes them by about 1/n.

    >>> left_out = torch.tensor([[0.0, -9.0], [0.0, -9.0], [-9.0, 0.0]], dtype=torch.float64)
    >>> leave_one_out_weights(left_out, None).round(decimals=2).tolist()
    [0.67, 0.33]
    """
    density = (left_out - left_out.amax(-1, keepdim=True)).exp()
    size, parts = density.shape[-2:]
    share = torch.full_like(density[..., 0], 1 / size) if weights is None else weights.to(density)
    found = density.new_full((*density.shape[:-2], parts), 1 / parts)
    for _ in range(rounds):  # expectation-maximization: the problem is concave
        joint = density * found.unsqueeze(-2)
        found = (share.unsqueeze(-1) * joint / joint.sum(-1, keepdim=True)).sum(-2)
    return found / found.sum(-1, keepdim=True)

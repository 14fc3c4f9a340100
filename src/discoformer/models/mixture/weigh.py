"""Weights of several fits, by leave-one-out likelihood."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from discoformer.core.composed import Blend
from discoformer.core.fields import Density

__all__ = ["SILENT", "blend", "chances", "leave_one_out_weights", "log_weights", "without_silent"]

SILENT = 1e-6  # a part with a smaller weight has none


def blend(densities: Sequence[Density], left_out: Sequence[Tensor], weights: Tensor | None) -> Blend:
    """The mixture of densities with the weights that their left-out log densities (..., n) give them."""
    found = leave_one_out_weights(torch.stack(list(left_out), -1), weights)
    return Blend(tuple(densities), found.clamp_min(torch.finfo(found.dtype).tiny).log())


def without_silent(found: Blend) -> Blend:
    """A blend of one sample without the parts that nothing speaks for: to ask them would take time alone."""
    heard = [k for k, weight in enumerate(found.log_weight.exp().tolist()) if weight > SILENT]
    return Blend(tuple(found.parts[k] for k in heard), found.log_weight[heard].log_softmax(-1))


def chances(left_out: Tensor, weights: Tensor | None, lead: float = 0.0) -> Tensor:
    """The chances (..., 2) of two densities to be the better one, by left-out log densities (..., 2, n).

    They are Phi(mean / standard error) of the gain of one over the other, where the second must be better
    by ``lead`` standard errors to be as likely as the first.  Weights of largest likelihood would be shared
    between two densities that are about equally likely, although the rougher one has a far worse score.
    These weights follow the same evidence, but come to a decision, smoothly.

    >>> gain = torch.tensor([1.0, 1.2, 0.8, -0.5], dtype=torch.float64)
    >>> chances(torch.stack([gain, 0 * gain]), None).round(decimals=3).tolist()
    [0.97, 0.03]
    >>> chances(torch.stack([0 * gain, gain]), None, lead=2.0).round(decimals=3).tolist()
    [0.548, 0.452]
    """
    gain = left_out[..., 0, :] - left_out[..., 1, :]
    share = torch.full_like(gain, 1 / gain.shape[-1]) if weights is None else weights.to(gain)
    mean = (share * gain).sum(-1)
    variance = (share * (gain - mean.unsqueeze(-1)).square()).sum(-1) * share.square().sum(-1)
    ratio = mean / (variance + torch.finfo(gain.dtype).tiny).sqrt() + lead
    found: Tensor = torch.special.ndtr(torch.stack([ratio, -ratio], -1))
    return found


def log_weights(chance: Tensor, heard: Tensor) -> Tensor:
    """Logarithms (..., K) of chances, of those that are heard; the others have no weight."""
    logs = chance.clamp_min(torch.finfo(chance.dtype).tiny).log()
    return logs.masked_fill(~heard, -torch.inf).log_softmax(-1)


def leave_one_out_weights(left_out: Tensor, weights: Tensor | None, rounds: int = 100) -> Tensor:
    """Weights (..., K) that maximize the mean of log sum_k w_k exp(left_out (..., n, K)).

    There are no folds and no thresholds: one row changes the weights by about 1/n.

    >>> left_out = torch.tensor([[0.0, -9.0], [0.0, -9.0], [-9.0, 0.0]], dtype=torch.float64)
    >>> leave_one_out_weights(left_out, None).round(decimals=2).tolist()
    [0.67, 0.33]
    """
    density = (left_out - left_out.amax(-1, keepdim=True)).exp()
    size, parts = density.shape[-2:]
    share = torch.full_like(density[..., 0], 1 / size) if weights is None else weights.to(density)
    share, across = share.unsqueeze(-2), density.mT.contiguous()  # (..., 1, n) and (..., K, n)
    found = density.new_full((*density.shape[:-2], 1, parts), 1 / parts)
    for _ in range(rounds):  # expectation-maximization: the problem is concave
        found = found * (share / (found @ across) @ density)
    found = found.squeeze(-2)
    return found / found.sum(-1, keepdim=True)

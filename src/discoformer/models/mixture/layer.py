"""One layer of a mixture core: what slots have seen becomes invariants, slots talk, and decide an M-step.

The layer computes with rotation invariants only, so its decisions are invariant as well; they act on moments.
`mixture.unified` is made of such layers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from discoformer.core.checks import DataError
from discoformer.models.mixture.slots import Moments, Slots, log_density_of, mean_and_covariance

__all__ = [
    "FEATURES",
    "SCALARS",
    "Decision",
    "Invariants",
    "Merged",
    "SlotBlock",
    "alignment",
    "check_sizes",
    "invariants_of",
    "merge_moments",
]

SCALARS = 7  # decisions of a slot beside merging and shrinkage
FEATURES = 13  # invariants of a slot
_GATE = 5  # the place of the gate among the scalars


class Decision(NamedTuple):
    """How to form slots from moments: the learned part of an M-step.

    Attributes
    ----------
    merge : (B, M, M), rows sum to one: whose moments a slot takes
    pseudo_counts : (B, M, T), one per shrinkage target
    log_inflation : (B, M), log of an overall factor of the scale matrix
    log_ridge : (B, M), log variance of the isotropic target that knows no data
    gate : (B, M), how much of the off-diagonals to keep; None, which keeps them, where axes do not count
    log_share : (B, M), added to the log share to give the weight
    step : (B, M), how far the mean moves towards the new one; beyond 1 is over-relaxation, which speeds up
        expectation-maximization where slots overlap
    nu, temperature : (B, M)
    """

    merge: Tensor
    pseudo_counts: Tensor
    log_inflation: Tensor
    log_ridge: Tensor
    gate: Tensor | None
    log_share: Tensor
    step: Tensor
    nu: Tensor
    temperature: Tensor


class Invariants(NamedTuple):
    """What does not change when the points are rotated, per slot.

    Attributes
    ----------
    columns : `FEATURES` tensors (B, M), what the slots see
    size : (B, M), the number of their points
    ridge : (B, M), added to covariances before their determinant is taken
    log_det : (B, M), its logarithm, divided by d
    """

    columns: list[Tensor]
    size: Tensor
    ridge: Tensor
    log_det: Tensor


class Merged(NamedTuple):
    """What an M-step starts from.

    Attributes
    ----------
    mean : (B, M, d)
    covariance : (B, M, d, d)
    pooled : (B, 1, d, d), mean covariance of the slots before merging
    size : (B, M), the number of points before merging
    rounding : (B, M), what the difference of second moments has lost
    eps : and what the next keys cannot tell from nothing
    """

    mean: Tensor
    covariance: Tensor
    pooled: Tensor
    size: Tensor
    rounding: Tensor
    eps: float


class SlotBlock(nn.Module):
    """From what the slots have seen to the numbers that decide how the next slots are formed.

    Parameters
    ----------
    width, heads : of the attention of slots to one another
    features : invariants that are seen of a slot
    targets : of shrinkage
    extras : further decisions, after all others
    """

    def __init__(self, width: int, heads: int, features: int, targets: int, extras: int = 0) -> None:
        super().__init__()
        self.heads = heads
        self.see = nn.Linear(width + features, width)
        self.norm_attention = nn.RMSNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.pair_bias = nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, heads))
        self.attend = nn.Linear(width, width)
        self.norm_feedforward = nn.RMSNorm(width)
        self.feedforward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.norm_decide = nn.RMSNorm(width)
        self.decide = nn.Linear(width, SCALARS + heads + targets + extras)
        # Start as expectation-maximization: no merging, light shrinkage, Gaussian tails; and axis-aligned
        # where it can: to open the gate for wrong axes is learned sooner than to close it for right ones.
        nn.init.zeros_(self.decide.weight)
        nn.init.zeros_(self.decide.bias)
        with torch.no_grad():
            self.decide.bias[_GATE] = -1.5
            self.decide.bias[SCALARS : SCALARS + heads] = -4.0
            self.decide.bias[SCALARS + heads : SCALARS + heads + targets] = -1.0

    def talk(
        self, latent: Tensor, features: Tensor, moments: Moments, slots: Slots, total: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """New latents (B, M, width), what they decide (B, M, ...), and the attention (B, heads, M, M)."""
        latent = latent + self.see(torch.cat([latent, features], -1))
        batch, count, width = latent.shape
        query, key, value = (
            self.project(self.norm_attention(latent))
            .view(batch, count, 3, self.heads, width // self.heads)
            .permute(2, 0, 3, 1, 4)
        )  # each (B, heads, M, width / heads)
        logits = query @ key.mT / math.sqrt(width // self.heads) + self._pair_bias(moments, slots, total)
        attention = torch.softmax(logits, -1)
        mixed = (attention @ value).transpose(1, 2).reshape(batch, count, width)
        latent = latent + self.attend(mixed)
        latent = latent + self.feedforward(self.norm_feedforward(latent))
        return latent, self.decide(self.norm_decide(latent)), attention

    def _pair_bias(self, moments: Moments, slots: Slots, total: Tensor) -> Tensor:
        """Attention bias (B, heads, M, M): how well slot l explains slot m's points, and both counts."""
        dim = slots.mean.shape[-1]
        theta = slots.natural.theta
        explained = moments.lifted.to(theta.dtype) @ theta.mT  # (B, m, l)
        divergence = _symlog((explained.diagonal(dim1=-2, dim2=-1).unsqueeze(-1) - explained) / dim)
        log_share = (moments.share + 1e-6).log()
        log_count = (moments.share * total + 1e-2).log() / 3
        pairs = torch.stack(
            [
                divergence,
                divergence.mT,
                log_count.unsqueeze(-1).expand_as(divergence),
                log_count.unsqueeze(-2).expand_as(divergence),
            ],
            -1,
        )
        bias: Tensor = self.pair_bias(pairs).permute(0, 3, 1, 2)
        return bias + log_share[:, None, None, :]

    def decision(self, output: Tensor, attention: Tensor, dim: int, targets: int, gated: bool) -> Decision:
        """What the numbers decide, with the first ``targets`` and, if ``gated``, the gate."""
        inflation, share, temperature, ridge, tail, gate, step = output[..., :SCALARS].unbind(-1)
        shrink = SCALARS + self.heads
        merge_gate = torch.sigmoid(output[..., SCALARS:shrink]) / self.heads
        merge = torch.einsum("bmh,bhml->bml", merge_gate, attention)
        merge = merge + torch.diag_embed(1 - merge.sum(-1))
        return Decision(
            merge=merge,
            pseudo_counts=output[..., shrink : shrink + targets].clamp(-10, 12).exp() * math.sqrt(dim),
            log_inflation=inflation.clamp(-3, 3),
            log_ridge=ridge - 2,
            gate=torch.sigmoid(3 * gate + 2) if gated else None,
            log_share=share,
            step=2 * torch.sigmoid(step),
            nu=2 + (2 * tail + 3.5).clamp(-3, 9).exp(),
            temperature=functional.softplus(temperature + 0.5413),  # one at zero
        )


def check_sizes(sizes: Mapping[str, Any], least: Mapping[str, int]) -> None:
    """Refuse sizes of a core below the least, and a width that heads cannot share."""
    for key, bound in least.items():
        value = sizes[key]
        if not isinstance(value, int) or value < bound:
            raise DataError(f"{key} = {value!r} of a mixture core must be a whole number from {bound}")
    width, heads = sizes["width"], sizes["heads"]
    if width % heads:
        raise DataError(f"width {width} is not a multiple of the {heads} heads")


def invariants_of(moments: Moments, slots: Slots, total: Tensor) -> Invariants:
    """Invariants of every slot; ``total`` (B, 1) is n."""
    dim = moments.mean.shape[-1]
    count = moments.share * total
    square = moments.mean.square().mean(-1)
    trace = moments.covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0).mean(-1)
    ridge = 1e-5 + 1e-3 * trace + 1e-5 * square
    if moments.lifted.dtype == torch.float32:  # in training: what rounding makes of one point's covariance
        ridge = ridge + 2 * torch.finfo(torch.float32).eps * dim * moments.tail * square
    eye = torch.eye(dim, dtype=trace.dtype, device=trace.device)
    factor = torch.linalg.cholesky_ex(moments.covariance + ridge[..., None, None] * eye)[0]
    log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().mean(-1)
    log_total = total.log().expand_as(trace)
    entropy, log_density, spread = log_density_of(moments, slots)
    columns = [
        (moments.share + 1e-6).log(),
        (count / dim + 1e-3).log(),
        (2 * count / (dim * (dim + 3)) + 1e-3).log(),
        log_det,
        (trace + 1e-5).log() - log_det,
        moments.log_mixture,
        entropy,
        log_density / dim,
        (spread / dim + 1e-6).sqrt(),
        (log_total - 6) / 2,
        torch.full_like(trace, math.log(dim)),
        slots.nu.log(),
        torch.log1p(square),
    ]
    return Invariants(columns, count, ridge, log_det)


def alignment(excess: Tensor, count: Tensor, dim: int) -> Tensor:
    """Pooled likelihood-ratio statistic against axis-aligned covariances, standardized, compressed.

    Per slot, count * (log det diag C - log det C) has mean about d(d-1)/2 when the axes are right;
    ``excess`` (B, M) is the difference in brackets, divided by d.
    """
    usable = (count > 2 * dim).to(count)
    ratio = ((count * excess * dim - 0.5 * dim * (dim - 1)) * usable).sum(-1, keepdim=True)
    ratio = ratio / (1 + dim * usable.sum(-1, keepdim=True)).sqrt() / max(1, dim - 1)
    return _symlog(ratio).expand_as(count)


def merge_moments(moments: Moments, merge: Tensor, total: Tensor) -> Merged:
    """Mean and covariance of what every slot takes of all, and what the targets are made of."""
    dim = moments.mean.shape[-1]
    merged = merge.to(moments.lifted.dtype) @ moments.lifted
    mean, covariance = mean_and_covariance(merged, moments.tail, dim)
    eps = max(8 * torch.finfo(merged.dtype).eps, torch.finfo(mean.dtype).eps)
    rounding = eps * mean.square().mean(-1)
    share = moments.share
    pooled = (share[..., None, None] * moments.covariance).sum(-3, keepdim=True)
    return Merged(mean, covariance, pooled, share * total, rounding, eps)


def _symlog(tensor: Tensor) -> Tensor:
    return tensor.sign() * tensor.abs().log1p()

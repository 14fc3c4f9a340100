"""The mixture core: a Transformer over slots that reads points by lifted attention.

Each layer attends from the points to M slots (`attend.slot_statistics`: exactly an E-step), turns
what every slot has seen into invariant features, lets the slots talk (self-attention biased by their
divergences), and decides how to form the next slots: weight, tail, temperature, how much to merge and
how much to shrink.  The decisions are learned; what they act on are moments, so the core computes
nothing but O(d)-invariant scalars and equivariant vectors and matrices.  One set of weights serves
every dimension and every number of points and slots.

The last layer's decisions are then held fixed and the E- and M-step repeated a few times: the network
decides the structure, plain arithmetic converges.  Of very many points a part, chosen by geometry alone,
decides; all of them converge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate
from discoformer.models.mixture.landmarks import landmark_spacing
from discoformer.models.mixture.sample import InMemory, Sample
from discoformer.models.mixture.slots import (
    Moments,
    Slots,
    log_density_of,
    make_slots,
    mean_and_covariance,
    moments_of,
    start_slots,
)
from discoformer.models.mixture.student import StudentMixture

__all__ = ["MixtureConfig", "MixtureCore"]

_LAST = 2  # refinements that see all points, however many
_SCALARS = 7  # decisions of a slot beside merging and shrinkage
_GATE = 5  # the place of the gate among them
_FEATURES = 13  # invariants of a slot
_AXIS_FEATURES = 2  # and those of an axis-aware core beside them
_START_NU = 30.0  # degrees of freedom of the first slots: nearly Gaussian


@dataclass(frozen=True)
class MixtureConfig:
    """Size of a mixture core.

    ``axis`` adds targets and a gate for axis-aligned covariances; the core is then equivariant to
    permutation and scaling of the columns instead of to rotations.
    """

    layers: int = 6
    width: int = 64
    heads: int = 4
    slots: int = 32
    refinements: int = 2
    axis: bool = False

    def __post_init__(self) -> None:
        least = {"layers": 1, "width": 1, "heads": 1, "slots": 1, "refinements": 0}
        for key, bound in least.items():  # the last layer's decisions form the slots, so there is one
            value = getattr(self, key)
            if not isinstance(value, int) or value < bound:
                raise DataError(f"{key} = {value!r} of a mixture core must be a whole number from {bound}")
        if self.width % self.heads:
            raise DataError(f"width {self.width} is not a multiple of the {self.heads} heads")


class Decision(NamedTuple):
    """How to form slots from moments: the learned part of an M-step.

    Attributes
    ----------
    merge : (B, M, M), rows sum to one: whose moments a slot takes
    pseudo_counts : (B, M, T), one per shrinkage target
    log_inflation : (B, M), log of an overall factor of the scale matrix
    log_ridge : (B, M), log variance of the isotropic target that knows no data
    gate : (B, M), how much of the off-diagonals to keep; None, which keeps them, unless ``axis``
    log_share : (B, M), added to the log share to give the weight
    step : (B, M), how far the mean moves from where it was, one for all the way: beyond one is
        over-relaxation, which speeds up expectation-maximization where slots overlap
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


class MixtureCore(nn.Module):
    """Context points to a Student-t mixture, in normalized coordinates.

    Examples
    --------
    >>> core = MixtureCore(MixtureConfig(layers=1, width=8, heads=2))
    >>> mixture = core.encode(torch.randn(50, 3), slots=4)
    >>> mixture.mean.shape, core.read(mixture, torch.zeros(2, 3)).score.shape
    (torch.Size([4, 3]), torch.Size([2, 3]))
    """

    def __init__(self, config: MixtureConfig) -> None:
        super().__init__()
        self.config = config
        self.start = nn.Parameter(0.1 * torch.randn(config.width))
        self.start_log_spread = nn.Parameter(torch.zeros(()))  # of the first slots, relative to their spacing
        self.layers = nn.ModuleList(SlotLayer(config) for _ in range(config.layers))

    def encode(
        self,
        points: Tensor,
        weights: Tensor | None = None,
        *,
        slots: int | None = None,
        refinements: int | None = None,
    ) -> StudentMixture:
        """Digest normalized points (..., n, d) with weights (..., n) that sum to one.

        ``slots`` and ``refinements`` override the config at run time.
        """
        batch = points.shape[:-2]
        flat = points.reshape(-1, *points.shape[-2:])
        sample = InMemory(flat, None if weights is None else weights.reshape(flat.shape[:-1]))
        mixture = self.digest(sample, slots=slots, refinements=refinements)
        return mixture.map(lambda tensor: tensor.reshape(*batch, *tensor.shape[1:]))

    def digest(
        self, sample: Sample, *, slots: int | None = None, refinements: int | None = None
    ) -> StudentMixture:
        """Digest a sample wherever it lives; a pass over its points per layer and refinement.

        Beyond `sample.MANY` points only the last refinements see them all.
        """
        most = self.config.slots if slots is None else slots
        rounds = self.config.refinements if refinements is None else refinements
        if most < 1 or rounds < 0:
            raise DataError(f"{most} slots and {rounds} refinements: give at least 1 slot, 0 refinements")
        few = sample.few()
        batch, size, dim = few.shape
        count = max(1, min(most, size // 2))

        landmarks = few.landmarks(count)
        spread = landmark_spacing(landmarks) * self.start_log_spread.exp() / math.sqrt(2 * dim)
        state = start_slots(landmarks, spread, nu=_START_NU)
        latent = self.start.expand(batch, count, -1)
        for layer in self.layers:
            moments = moments_of(few.statistics(state), state)
            latent, decision = layer(latent, moments, state, few.total)
            state = form_slots(moments, decision, state, few.total)
        for left in reversed(range(rounds)):
            part = sample if left < _LAST else few
            moments = moments_of(part.statistics(state._replace(brief=True)), state)
            state = form_slots(moments, decision, state, part.total)
        return StudentMixture(state.log_weight, state.mean, state.scale, state.nu)

    def read(self, state: StudentMixture, queries: Tensor) -> Estimate[Tensor]:
        """Log density and score of the mixture at normalized queries (..., m, d)."""
        return state._estimate(queries)


class SlotLayer(nn.Module):
    """From what the slots have seen to how the next slots are formed."""

    def __init__(self, config: MixtureConfig) -> None:
        super().__init__()
        width, heads = config.width, config.heads
        self.heads, self.axis = heads, config.axis
        self.targets = 6 if config.axis else 4
        self.see = nn.Linear(width + _FEATURES + _AXIS_FEATURES * config.axis, width)
        self.norm_attention = nn.RMSNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.pair_bias = nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, heads))
        self.attend = nn.Linear(width, width)
        self.norm_feedforward = nn.RMSNorm(width)
        self.feedforward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.norm_decide = nn.RMSNorm(width)
        self.decide = nn.Linear(width, _SCALARS + heads + self.targets)
        # Start as expectation-maximization: no merging, light shrinkage, Gaussian tails; and axis-aligned
        # where it can: to open the gate for wrong axes is learned sooner than to close it for right ones.
        nn.init.zeros_(self.decide.weight)
        nn.init.zeros_(self.decide.bias)
        with torch.no_grad():
            self.decide.bias[_GATE] = -1.5
            self.decide.bias[_SCALARS : _SCALARS + heads] = -4.0
            self.decide.bias[_SCALARS + heads :] = -1.0

    def forward(
        self, latent: Tensor, moments: Moments, slots: Slots, total: Tensor
    ) -> tuple[Tensor, Decision]:
        """Latents (B, M, width) and moments to new latents and a decision; ``total`` (B, 1) is n."""
        dim = slots.mean.shape[-1]
        latent = latent + self.see(torch.cat([latent, self._features(moments, slots, total)], -1))
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
        return latent, self._decision(self.decide(self.norm_decide(latent)), attention, dim)

    def _features(self, moments: Moments, slots: Slots, total: Tensor) -> Tensor:
        """Invariants of every slot (B, M, _FEATURES), and with ``axis`` the two axis ones."""
        dim = moments.mean.shape[-1]
        count = moments.share * total
        square = moments.mean.square().mean(-1)
        diagonal = moments.covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0)
        trace = diagonal.mean(-1)
        ridge = 1e-5 + 1e-3 * trace + 1e-5 * square
        eye = torch.eye(dim, dtype=trace.dtype, device=trace.device)
        factor = torch.linalg.cholesky_ex(moments.covariance + ridge[..., None, None] * eye)[0]
        log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().mean(-1)
        log_total = total.log().expand_as(trace)
        entropy, log_density, spread = log_density_of(moments, slots)
        features = [
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
        if self.axis:
            log_diagonal = (diagonal + ridge.unsqueeze(-1)).log().mean(-1)
            features += [log_diagonal - log_det, self._alignment(log_diagonal - log_det, count, dim)]
        return torch.stack(features, -1).clamp(-20, 20)

    @staticmethod
    def _alignment(excess: Tensor, count: Tensor, dim: int) -> Tensor:
        """Pooled likelihood-ratio statistic against axis-aligned covariances, standardized, compressed.

        Per slot, count * (log det diag C - log det C) has mean about d(d-1)/2 when the axes are right.
        """
        usable = (count > 2 * dim).to(count)
        ratio = ((count * excess * dim - 0.5 * dim * (dim - 1)) * usable).sum(-1, keepdim=True)
        ratio = ratio / (1 + dim * usable.sum(-1, keepdim=True)).sqrt() / max(1, dim - 1)
        return _symlog(ratio).expand_as(count)

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

    def _decision(self, output: Tensor, attention: Tensor, dim: int) -> Decision:
        inflation, share, temperature, ridge, tail, gate, step = output[..., :_SCALARS].unbind(-1)
        merge_gate = torch.sigmoid(output[..., _SCALARS : _SCALARS + self.heads]) / self.heads
        merge = torch.einsum("bmh,bhml->bml", merge_gate, attention)
        merge = merge + torch.diag_embed(1 - merge.sum(-1))
        return Decision(
            merge=merge,
            pseudo_counts=output[..., _SCALARS + self.heads :].clamp(-10, 12).exp() * math.sqrt(dim),
            log_inflation=inflation.clamp(-3, 3),
            log_ridge=ridge - 2,
            gate=torch.sigmoid(3 * gate + 2) if self.axis else None,
            log_share=share,
            step=2 * torch.sigmoid(step),
            nu=2 + (2 * tail + 3.5).clamp(-3, 9).exp(),
            temperature=functional.softplus(temperature + 0.5413),  # one at zero
        )


def form_slots(moments: Moments, decision: Decision, before: Slots, total: Tensor) -> Slots:
    """The M-step with learned decisions.

    scale = inflation * (n C + sum_t kappa_t T_t) / (n + sum_t kappa_t), with C the (merged) covariance,
    kappa the pseudo-counts and T the targets: pooled covariance, isotropic parts of both, a ridge, and
    with a gate also the diagonals of both.
    """
    dim = moments.mean.shape[-1]
    merged = decision.merge.to(moments.lifted.dtype) @ moments.lifted
    mean, covariance = mean_and_covariance(merged, moments.tail, dim)
    # What the difference of second moments has lost, or the next keys cannot tell from nothing.
    eps = max(8 * torch.finfo(merged.dtype).eps, torch.finfo(mean.dtype).eps)
    rounding = eps * mean.square().mean(-1)
    share = moments.share
    pooled = (share[..., None, None] * moments.covariance).sum(-3, keepdim=True)
    count = share * total
    # Pseudo-counts by target, each (B, M); the last two are there with a gate only.
    to_pooled, to_own_ball, to_common_ball, to_ridge, *to_diagonals = decision.pseudo_counts.unbind(-1)
    own = covariance.diagonal(dim1=-2, dim2=-1) + rounding.unsqueeze(-1)  # (B, M, d)
    common = pooled.diagonal(dim1=-2, dim2=-1)  # (B, 1, d)

    factor = decision.log_inflation.exp() / (count + decision.pseudo_counts.sum(-1))
    isotropic = to_own_ball * own.mean(-1) + to_common_ball * common.mean(-1)
    isotropic = isotropic + to_ridge * decision.log_ridge.exp()
    diagonal = (count * rounding + isotropic).unsqueeze(-1).expand_as(own)
    scale = (factor * count)[..., None, None] * covariance + (factor * to_pooled)[..., None, None] * pooled
    if decision.gate is not None:
        to_own, to_common = to_diagonals
        diagonal = diagonal + to_own.unsqueeze(-1) * own + to_common.unsqueeze(-1) * common
        eye = torch.eye(dim, dtype=mean.dtype, device=mean.device)
        scale = scale * (eye + decision.gate[..., None, None] * (1 - eye))
    scale = scale + torch.diag_embed(factor.unsqueeze(-1) * diagonal + eps)
    log_weight = torch.log_softmax((share + 1e-8).log() + decision.log_share, -1)
    mean = torch.lerp(before.mean, mean, decision.step.unsqueeze(-1))
    return make_slots(log_weight, mean, scale, decision.nu, decision.temperature)


def _symlog(tensor: Tensor) -> Tensor:
    return tensor.sign() * tensor.abs().log1p()

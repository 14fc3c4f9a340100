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

import torch
from torch import Tensor, nn

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate
from discoformer.models.mixture.landmarks import farthest_points, landmark_spacing
from discoformer.models.mixture.layer import (
    FEATURES,
    Decision,
    SlotBlock,
    alignment,
    check_sizes,
    invariants_of,
    merge_moments,
)
from discoformer.models.mixture.sample import InMemory, Sample
from discoformer.models.mixture.slots import Moments, Slots, balls, make_slots, moments_of, start_slots
from discoformer.models.mixture.student import StudentMixture

__all__ = ["MixtureConfig", "MixtureCore"]

_LAST = 2  # refinements that see all points, however many
_AXIS_FEATURES = 2  # what an axis-aware core sees of a slot beside its invariants
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
        # The last layer's decisions form the slots, so there is one.
        check_sizes(vars(self), {"layers": 1, "width": 1, "heads": 1, "slots": 1, "refinements": 0})


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

        landmarks = farthest_points(few.pool(), count)
        spread = landmark_spacing(landmarks) * self.start_log_spread.exp() / math.sqrt(2 * dim)
        state = start_slots(landmarks, balls(spread, count, dim), nu=_START_NU)
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


class SlotLayer(SlotBlock):
    """From what the slots have seen to how the next slots are formed."""

    def __init__(self, config: MixtureConfig) -> None:
        features, targets = FEATURES + _AXIS_FEATURES * config.axis, 6 if config.axis else 4
        super().__init__(config.width, config.heads, features, targets)
        self.axis, self.targets = config.axis, targets

    def forward(
        self, latent: Tensor, moments: Moments, slots: Slots, total: Tensor
    ) -> tuple[Tensor, Decision]:
        """Latents (B, M, width) and moments to new latents and a decision; ``total`` (B, 1) is n."""
        features = self._features(moments, slots, total)
        latent, output, attention = self.talk(latent, features, moments, slots, total)
        dim = slots.mean.shape[-1]
        return latent, self.decision(output, attention, dim, self.targets, gated=self.axis)

    def _features(self, moments: Moments, slots: Slots, total: Tensor) -> Tensor:
        """Invariants of every slot (B, M, FEATURES), and with ``axis`` the two axis ones."""
        features, count, ridge, log_det = invariants_of(moments, slots, total)
        if self.axis:
            diagonal = moments.covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0)
            excess = (diagonal + ridge.unsqueeze(-1)).log().mean(-1) - log_det
            features += [excess, alignment(excess, count, moments.mean.shape[-1])]
        return torch.stack(features, -1).clamp(-20, 20)


def form_slots(moments: Moments, decision: Decision, before: Slots, total: Tensor) -> Slots:
    """The M-step with learned decisions.

    scale = inflation * (n C + sum_t kappa_t T_t) / (n + sum_t kappa_t), with C the (merged) covariance,
    kappa the pseudo-counts and T the targets: pooled covariance, isotropic parts of both, a ridge, and
    with a gate also the diagonals of both.
    """
    mean, covariance, pooled, count, rounding, eps = merge_moments(moments, decision.merge, total)
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
        eye = torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)
        scale = scale * (eye + decision.gate[..., None, None] * (1 - eye))
    scale = scale + torch.diag_embed(factor.unsqueeze(-1) * diagonal + eps)
    log_weight = torch.log_softmax((moments.share + 1e-8).log() + decision.log_share, -1)
    mean = torch.lerp(before.mean, mean, decision.step.unsqueeze(-1))
    return make_slots(log_weight, mean, scale, decision.nu, decision.temperature)

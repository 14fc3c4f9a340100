"""The unified mixture core: one network for samples with and without meaningful axes.

What slots compute (weights, means, covariances, responsibilities) does not depend on coordinates.  Three
things do: where landmarks are sought, the shape of the first slots, and what covariances shrink to.  So this
core works in whitened coordinates z and is also given the data's own axes, u = z K.  Half of the landmarks
are farthest in z and half in u, the first slots are balls in the view they come from, and covariances shrink
towards balls and towards diagonals in both.  The network finds out in context whether the axes matter.

Without axes (``axes=None``) only rotation-invariant scalars and equivariant moments remain, and the core in a
whitening frame is exactly affine equivariant, with the same weights.

The last layer is looped, and decides anew each time.  In very large samples a part of the points decides, and
passes over all of them refine the result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate
from discoformer.core.frames import Axes
from discoformer.models.mixture.landmarks import farthest_in_views, gather_rows, landmark_spacing
from discoformer.models.mixture.layer import (
    FEATURES,
    Decision,
    SlotBlock,
    alignment,
    check_sizes,
    invariants_of,
    merge_moments,
)
from discoformer.models.mixture.leave_one_out import ScaleEvidence
from discoformer.models.mixture.sample import InMemory, Sample
from discoformer.models.mixture.slots import Moments, Slots, balls, make_slots, moments_of, start_slots
from discoformer.models.mixture.student import StudentMixture

__all__ = ["SETTLE", "UnifiedConfig", "UnifiedCore"]

SETTLE = 2  # passes over all points, if they are so many that a part of them decided
_START_NU = 30.0  # degrees of freedom of the first slots: nearly Gaussian
_AXIS_FEATURES = 3  # what is seen of the axes: how far a slot is from them, how far all are, and a flag
_BALLS = 4  # targets without axes: pooled covariance, own ball, common ball, ridge
_TARGETS = 7  # and with them: diagonals of the own and of the pooled covariance, ball
_LEAST = {"layers": 1, "width": 1, "heads": 1, "slots": 1, "loops": 0, "margin_slots": 1, "margin_groups": 2}
_LEAST |= {"deciding": 2, "mixed_rounds": 0, "category_columns": 1}


@dataclass(frozen=True)
class UnifiedConfig:
    """Size of a unified mixture core.

    ``loops`` repeats the last layer.  In very large
    samples ``deciding`` rows decide, and all refine the result.  Slots are merged unless each of their
    parameters gains ``merge_price`` of log likelihood; merged ones have ``merge_pseudo`` points' worth of
    their mean scale.  Margins have at most ``margin_slots`` slots and are read off ``margin_groups`` groups
    of neighbours.  Tables with categories or gaps take ``mixed_rounds`` rounds of E- and M-steps, and
    categories are seen as ``category_columns`` columns.  ``unseen`` is the optimism that leave-one-out in
    closed form does not see, as a share of what it sees (`core.composed.less_unseen`): measured once, by
    ``paper/benchmarks/loo_folds.py --calibrate``.  The view without axes starts ``axes_lead`` standard errors
    behind those with them.
    """

    layers: int = 6
    width: int = 64
    heads: int = 4
    slots: int = 32
    loops: int = 4
    deciding: int = 8192
    merge_price: float = 2.0
    merge_pseudo: float = 1.0
    margin_slots: int = 24
    margin_groups: int = 1024
    mixed_rounds: int = 8
    category_columns: int = 4
    unseen: float = 0.5
    axes_lead: float = 3.0

    def __post_init__(self) -> None:
        check_sizes(vars(self), _LEAST)
        for name in ("unseen", "axes_lead"):
            value = vars(self)[name]
            if not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise DataError(f"{name} = {value!r} of a mixture core must be a number from zero")
        for name in ("merge_price", "merge_pseudo"):
            value = vars(self)[name]
            if not isinstance(value, int | float) or not 0 < value < math.inf:
                raise DataError(f"{name} = {value!r} of a mixture core must be a positive number")


class UnifiedCore(nn.Module):
    """Context points to a Student-t mixture, in whitened coordinates, with or without axes.

    Examples
    --------
    >>> core = UnifiedCore(UnifiedConfig(layers=1, width=8, heads=2))
    >>> mixture = core.encode(torch.randn(50, 3), slots=4)
    >>> mixture.mean.shape, core.read(mixture, torch.zeros(2, 3)).score.shape
    (torch.Size([4, 3]), torch.Size([2, 3]))
    """

    def __init__(self, config: UnifiedConfig) -> None:
        super().__init__()
        self.config = config
        self.start = nn.Parameter(0.1 * torch.randn(config.width))
        self.start_log_spread = nn.Parameter(torch.zeros(()))  # of the first slots, relative to their spacing
        self.layers = nn.ModuleList(UnifiedLayer(config) for _ in range(config.layers))

    @property
    def deciding(self) -> int:
        """Rows that decide, of very many."""
        return self.config.deciding

    def encode(
        self,
        points: Tensor,
        weights: Tensor | None = None,
        *,
        axes: Axes | None = None,
        slots: int | None = None,
        loops: int | None = None,
    ) -> StudentMixture:
        """Digest normalized points (..., n, d) with weights (..., n) that sum to one.

        ``axes``, with the same batch, are those that count; ``slots`` and ``loops`` override the config.
        """
        batch = points.shape[:-2]
        flat = points.reshape(-1, *points.shape[-2:])
        sample = InMemory(flat, None if weights is None else weights.reshape(flat.shape[:-1]))
        mixture = self.digest(sample, axes=axes, slots=slots, loops=loops)
        return mixture.map(lambda tensor: tensor.reshape((*batch, *tensor.shape[1:])))

    def digest(
        self,
        sample: Sample,
        *,
        axes: Axes | None = None,
        slots: int | None = None,
        loops: int | None = None,
        evidence: bool = False,
    ) -> StudentMixture:
        """Digest a sample wherever it lives: a pass over it per layer and loop.

        Of very many points a part decides (``deciding``), and all settle it: two passes with the last
        decision.  With ``evidence`` one more pass counts what the scales rest on.
        """
        most = self.config.slots if slots is None else slots
        rounds = self.config.loops if loops is None else loops
        if most < 1 or rounds < 0:
            raise DataError(f"{most} slots and {rounds} loops: give at least 1 slot, 0 loops")
        axes = None if axes is None else axes.flat()
        few = sample.few(self.deciding)
        batch, size, _ = few.shape
        count = max(1, min(most, size // 2))

        state = self._start(few.pool(), axes, count)
        latent = self.start.expand(batch, count, -1)
        for layer in [*self.layers, *[self.layers[-1]] * rounds]:
            moments = moments_of(few.statistics(state), state)
            latent, decision = layer(latent, moments, state, few.total, axes)
            state = form_slots(moments, decision, state, few.total, axes)
        for _ in range(0 if few is sample else SETTLE):
            moments = moments_of(sample.statistics(state._replace(brief=True)), state)
            state = form_slots(moments, decision, state, sample.total, axes)
        found = None
        if evidence:
            own = make_slots(state.log_weight, state.mean, state.scale, state.nu, torch.ones_like(state.nu))
            moments = moments_of(sample.statistics(own._replace(brief=True)), own)
            found = _evidence(decision[0], moments, sample.total, axes)
        return StudentMixture(state.log_weight, state.mean, state.scale, state.nu, found)

    def read(self, state: StudentMixture, queries: Tensor) -> Estimate[Tensor]:
        """Log density and score of the mixture at normalized queries (..., m, d)."""
        return state._estimate(queries)

    def _start(self, points: Tensor, axes: Axes | None, count: int) -> Slots:
        """Slots at landmarks among points (B, n, d), half of them sought along the axes if there are any."""
        dim = points.shape[-1]
        shrink = self.start_log_spread.exp() / math.sqrt(2 * dim)
        views, counts = [points.detach()], [count]
        if axes is not None and count > 1:
            views.append((points @ axes.matrix).detach())
            counts = [(count + 1) // 2, count // 2]
        landmarks = gather_rows(points, farthest_in_views(views, counts))
        scale = balls(landmark_spacing(landmarks) * shrink, counts[0], dim)
        if axes is not None and count > 1:
            variance = (landmark_spacing(landmarks @ axes.matrix) * shrink).square() + 1e-5
            along = axes.along(variance[:, None, None].expand(-1, 1, dim))
            scale = torch.cat([scale, along.expand(-1, counts[1], dim, dim)], 1)
        return start_slots(landmarks, scale, _START_NU)


class UnifiedLayer(SlotBlock):
    """From what the slots have seen to how the next slots are formed, with axes or without."""

    def __init__(self, config: UnifiedConfig) -> None:
        super().__init__(config.width, config.heads, FEATURES + _AXIS_FEATURES, _TARGETS, extras=1)
        # How every decision grows with log n: with more points less is shrunk, merged and sharpened.
        self.growth = nn.Parameter(torch.zeros(self.decide.out_features))
        with torch.no_grad():
            self.see.weight[:, -1] = 0  # the flag says nothing at first
            self.decide.bias[-2] = -3.0  # and the ball along the axes hardly counts

    def forward(
        self, latent: Tensor, moments: Moments, slots: Slots, total: Tensor, axes: Axes | None
    ) -> tuple[Tensor, tuple[Decision, Tensor]]:
        """Latents (B, M, width) and moments to new latents and a decision; ``total`` (B, 1) is n.

        Beside the decision stands the log variance (B, M) of the ball along the axes.
        """
        features = _features(moments, slots, total, axes)
        latent, output, attention = self.talk(latent, features, moments, slots, total)
        output = output + self.growth * ((total.log() - 6) / 2).unsqueeze(-1)
        gated, dim = axes is not None, slots.mean.shape[-1]
        decision = self.decision(output, attention, dim, _TARGETS if gated else _BALLS, gated)
        return latent, (decision, output[..., -1] - 2)


def _features(moments: Moments, slots: Slots, total: Tensor, axes: Axes | None) -> Tensor:
    """Invariants of every slot and of its place between the axes (B, M, FEATURES + _AXIS_FEATURES)."""
    features, count, ridge, log_det = invariants_of(moments, slots, total)
    if axes is None:
        features += [torch.zeros_like(count)] * _AXIS_FEATURES
    else:
        dim = moments.mean.shape[-1]
        covariance = moments.covariance + torch.diag_embed(ridge.unsqueeze(-1).expand(*ridge.shape, dim))
        log_diagonal = axes.diagonal(covariance).clamp_min(1e-12).log().mean(-1)
        excess = log_diagonal - log_det - 2 / dim * axes.log_det.unsqueeze(-1)
        features += [excess, alignment(excess, count, dim), torch.ones_like(count)]
    return torch.stack(features, -1).clamp(-20, 20)


def _evidence(decision: Decision, moments: Moments, total: Tensor, axes: Axes | None) -> ScaleEvidence:
    """What scales that a decision formed rest on; ``moments`` are those of the slots that it formed."""
    _, to_own_ball, _, _, *to_axes = decision.pseudo_counts.unbind(-1)
    count = moments.share * total
    whole, along = torch.ones_like(count), torch.zeros_like(count)
    least = count.clamp_min(1.0)
    if decision.gate is not None:
        whole, along = decision.gate, 1 - decision.gate + to_axes[0] / least
    pseudo, inflation = decision.pseudo_counts.sum(-1), decision.log_inflation.exp()
    return ScaleEvidence(
        pseudo, inflation, whole, along, to_own_ball / least, count, count * moments.tail, axes
    )


def form_slots(
    moments: Moments, decided: tuple[Decision, Tensor], before: Slots, total: Tensor, axes: Axes | None
) -> Slots:
    """The M-step with learned decisions.

    scale = inflation * (A(n C + kappa_1 P) + sum_t kappa_t T_t) / (n + sum_t kappa_t), with C the (merged)
    and P the pooled covariance, kappa the pseudo-counts and T the targets: the balls of C and P, and a ridge;
    with axes also G' diag(K' C K) G, the same of P, and G'G. The gate is
    A(S) = g S + (1 - g) G' diag(K' S K) G.
    """
    decision, log_axis_ridge = decided
    mean, covariance, pooled, count, rounding, eps = merge_moments(moments, decision.merge, total)
    to_pooled, to_own_ball, to_common_ball, to_ridge, *to_axes = decision.pseudo_counts.unbind(-1)
    own_ball = covariance.diagonal(dim1=-2, dim2=-1).mean(-1) + rounding
    common_ball = pooled.diagonal(dim1=-2, dim2=-1).mean(-1)

    factor = decision.log_inflation.exp() / (count + decision.pseudo_counts.sum(-1))
    isotropic = to_own_ball * own_ball + to_common_ball * common_ball + count * rounding
    isotropic = isotropic + to_ridge * decision.log_ridge.exp()
    scale = count[..., None, None] * covariance + to_pooled[..., None, None] * pooled
    if decision.gate is not None and axes is not None:
        to_own, to_common, to_ball = (kappa.unsqueeze(-1) for kappa in to_axes)
        own, common = axes.diagonal(covariance), axes.diagonal(pooled)
        gate = decision.gate.unsqueeze(-1)
        variance = (1 - gate) * (count.unsqueeze(-1) * own + to_pooled.unsqueeze(-1) * common)
        variance = variance + to_own * own + to_common * common
        variance = variance + to_ball * log_axis_ridge.exp().unsqueeze(-1)
        scale = gate.unsqueeze(-1) * scale + axes.along(variance)
        scale = 0.5 * (scale + scale.mT)  # what rounding made unequal
    diagonal = (factor * isotropic + eps).unsqueeze(-1).expand_as(mean)
    scale = factor[..., None, None] * scale + torch.diag_embed(diagonal)
    log_weight = torch.log_softmax((moments.share + 1e-8).log() + decision.log_share, -1)
    mean = torch.lerp(before.mean, mean, decision.step.unsqueeze(-1))
    return make_slots(log_weight, mean, scale, decision.nu, decision.temperature)

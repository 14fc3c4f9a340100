"""Consolidation: from the many slots a network keeps to as few as the likelihood asks for.

The network decides well how to shrink and how heavy tails are; with many points what is left is to drop
slots that are not needed and to converge.  Here plain expectation-maximization does both: starting from
the network's mixture, a few steps, then the two slots whose union costs the least likelihood become one,
and so on down to a single slot.  Schwarz's criterion (BIC) picks a mixture on the way, and further steps
converge it.  Only likelihoods and moments decide, so equivariance is kept.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from discoformer.models.mixture.sample import Sample
from discoformer.models.mixture.slots import make_slots, moments_of
from discoformer.models.mixture.student import StudentMixture

__all__ = ["DEAD", "consolidate", "converge", "drop_dead", "widen"]

DEAD = -80.0  # log weight of a slot that is not there; finite, and its exponential a float32
_NEVER = -1e4  # its log weight in responsibilities: no outlier may call it back
_FLOOR = 1e-8  # of the sample's variance, in every scale: tails can starve all slots of a direction
_NOTHING = 0.03  # gain of log likelihood not worth a step: noise is half a unit for every parameter
_PSEUDO = 1.0  # points' worth of the mean scale in every slot: one with few points stays sound


def consolidate(
    sample: Sample, mixture: StudentMixture, *, diagonal: bool = False, steps: int = 5, patience: int = 3
) -> StudentMixture:
    """The mixture of least BIC when slots are merged one by one.

    Parameters
    ----------
    sample : batch B
    mixture : of the sample, from a network; batch B, M slots
    diagonal : axis-aligned components
    steps : of expectation-maximization before every merge
    patience : merges without a gain after which the search ends

    Returns
    -------
    StudentMixture
        Slots that were merged away, but not in the whole batch, have weight zero.
    """
    total = sample.total[:, 0]
    price = total.log() * _parameters_per_slot(mixture.dim, diagonal)  # of a slot, in units of BIC
    mixture = drop_dead(_merge_cheap(mixture, 0.5 * price / total))
    best, least = mixture, torch.full_like(total, torch.inf)
    waited = torch.zeros_like(total, dtype=torch.long)
    going = torch.ones_like(total, dtype=torch.bool)
    while True:
        mixture, log_likelihood = _climb(sample, mixture, diagonal, steps)
        count = _living(mixture).sum(-1)
        criterion = price * count - 2 * log_likelihood
        better = going & (criterion < least)
        least = torch.where(better, criterion, least)
        best = _select(better, mixture, best)
        waited = torch.where(better, 0, waited + 1)
        going = going & (waited < patience) & (count > 1)
        if not bool(going.any()):
            return drop_dead(best)
        mixture = drop_dead(_merge(mixture, *_cheapest(_costs(mixture), going)))


def converge(
    sample: Sample, mixture: StudentMixture, *, diagonal: bool = False, steps: int = 20
) -> StudentMixture:
    """At most ``steps`` of expectation-maximization; differentiable in the sample and in the mixture."""
    return _climb(sample, mixture, diagonal, steps)[0]


def widen(mixture: StudentMixture, total: Tensor) -> StudentMixture:
    """Scales for new points from those that `converge` fits to ``total`` (B, 1) points.

    The inverse of a covariance of c points in d columns is c / (c - d - 1) times too large in the mean: so
    much wider are the scales made, twice at most.
    """
    count = mixture.log_weight.exp() * total
    factor = count / torch.maximum(count - mixture.dim - 1, count / 2)
    return replace(mixture, scale=factor[..., None, None] * mixture.scale)


def drop_dead(mixture: StudentMixture) -> StudentMixture:
    """Without the slots that have no weight anywhere in the batch (...)."""
    living = _living(mixture).reshape(-1, mixture.log_weight.shape[-1]).any(0)
    return StudentMixture(
        mixture.log_weight[..., living],
        mixture.mean[..., living, :],
        mixture.scale[..., living, :, :],
        mixture.nu[..., living],
    )


def _living(mixture: StudentMixture) -> Tensor:
    return mixture.log_weight > DEAD / 2


def _parameters_per_slot(dim: int, diagonal: bool) -> int:
    """Weight, mean and covariance of a Gaussian in a mixture."""
    return 1 + dim + (dim if diagonal else dim * (dim + 1) // 2)


def _climb(
    sample: Sample, mixture: StudentMixture, diagonal: bool, steps: int
) -> tuple[StudentMixture, Tensor]:
    """Steps of expectation-maximization while they gain, and the log likelihood (B,) before the last."""
    before = sample.total.new_full(sample.total.shape[:1], -torch.inf)
    climbing = torch.ones_like(before, dtype=torch.bool)
    for _ in range(steps):
        stepped, log_likelihood = _step(sample, mixture, diagonal)
        mixture = stepped if bool(climbing.all()) else _select(climbing, stepped, mixture)
        gained = log_likelihood - before >= _NOTHING
        before = torch.where(climbing, log_likelihood, before)
        climbing = climbing & gained
        if not bool(climbing.any()):
            break
    return mixture, before


def _step(sample: Sample, mixture: StudentMixture, diagonal: bool) -> tuple[StudentMixture, Tensor]:
    """One step of expectation-maximization, and the log likelihood (B,) before it.

    Scales are shrunk a little towards their mean: a slot with few points stays sound.
    """
    dim = mixture.dim
    eye = torch.eye(dim, dtype=mixture.mean.dtype, device=mixture.mean.device)
    one = torch.ones_like(mixture.nu)
    log_weight = mixture.log_weight.masked_fill(~_living(mixture), _NEVER)
    slots = make_slots(log_weight, mixture.mean, mixture.scale, mixture.nu, one)._replace(brief=True)
    moments = moments_of(sample.statistics(slots), slots)
    log_likelihood = dim * (moments.share * moments.log_mixture).sum(-1) * sample.total[:, 0]
    covariance = moments.covariance * eye if diagonal else moments.covariance
    pooled = (moments.share[..., None, None] * covariance).sum(-3, keepdim=True)
    count = (moments.share * sample.total)[..., None, None]
    scale = (count * covariance + _PSEUDO * pooled) / (count + _PSEUDO) + _FLOOR * eye
    log_weight = moments.share.clamp_min(math.exp(DEAD)).log()
    return StudentMixture(log_weight, moments.mean, scale, mixture.nu), log_likelihood


def _merge_cheap(mixture: StudentMixture, most: Tensor) -> StudentMixture:
    """Merge as long as a union costs less than ``most`` (B,); without a look at the sample.

    Slots that are each other's cheapest partners merge at the same time.
    """
    costs = _costs(mixture)
    slot = torch.arange(costs.shape[-1], device=costs.device)
    while True:
        least, partner = costs.min(-1)
        mutual = (partner.gather(-1, partner) == slot) & (slot < partner) & (least < most.unsqueeze(-1))
        rows, a = mutual.nonzero(as_tuple=True)
        if len(rows) == 0:
            return mixture
        b = partner[rows, a]
        mixture = _merge(mixture, rows, a, b)
        new = _union_costs(_take(mixture, rows.unsqueeze(1), a.unsqueeze(1)), _take(mixture, rows))
        costs[rows, a], costs[rows, :, a] = new, new
        costs[rows, b], costs[rows, :, b] = torch.inf, torch.inf
        costs[rows, a, a] = torch.inf


def _merge(mixture: StudentMixture, rows: Tensor, a: Tensor, b: Tensor) -> StudentMixture:
    """In some rows of the batch, replace slots a and b by their union, at the place of a."""
    first, second = _take(mixture, rows, a), _take(mixture, rows, b)
    share, scale = _union(first, second)
    result = mixture.map(Tensor.clone)
    result.log_weight[rows, a] = torch.logaddexp(first.log_weight, second.log_weight)
    result.mean[rows, a] = torch.lerp(second.mean, first.mean, share.unsqueeze(-1))
    result.scale[rows, a] = scale
    result.nu[rows, a] = 1 / (share / first.nu + (1 - share) / second.nu)
    result.log_weight[rows, b] = DEAD
    return result


def _take(mixture: StudentMixture, *index: Tensor) -> StudentMixture:
    """Some rows of the batch, or some slots of them."""
    return mixture.map(lambda tensor: tensor[index])


def _cheapest(costs: Tensor, going: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of the batch (k,) where ``going`` (B,), and there the two slots (k,) whose union costs least."""
    rows = going.nonzero()[:, 0]
    pair = costs[rows].flatten(-2).argmin(-1)
    return rows, pair // costs.shape[-1], pair % costs.shape[-1]


def _costs(mixture: StudentMixture) -> Tensor:
    """What unions cost (B, M, M); infinite on the diagonal."""
    costs = _union_costs(mixture.map(lambda t: t.unsqueeze(2)), mixture.map(lambda t: t.unsqueeze(1)))
    costs.diagonal(dim1=-2, dim2=-1).fill_(torch.inf)
    return costs


def _union_costs(first: StudentMixture, second: StudentMixture) -> Tensor:
    """What the union of two slots costs (...): twice the loss of mean log likelihood (Runnalls).

    (w_a + w_b) log det S_ab - w_a log det S_a - w_b log det S_b, and infinite if a slot is dead.
    """
    one, other = first.log_weight.exp(), second.log_weight.exp()
    costs = (one + other) * _log_det(_union(first, second)[1])
    costs = costs - one * _log_det(first.scale) - other * _log_det(second.scale)
    return costs.masked_fill(~(_living(first) & _living(second)), torch.inf)


def _union(first: StudentMixture, second: StudentMixture) -> tuple[Tensor, Tensor]:
    """The first slot's share (...) in the union of two, and the union's scale (..., d, d)."""
    share = torch.sigmoid(first.log_weight - second.log_weight)
    offset = first.mean - second.mean
    between = (share * (1 - share))[..., None, None] * offset.unsqueeze(-1) * offset.unsqueeze(-2)
    return share, torch.lerp(second.scale, first.scale, share[..., None, None]) + between


def _log_det(matrix: Tensor) -> Tensor:
    factor: Tensor = torch.linalg.cholesky_ex(matrix)[0]
    return 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _select(condition: Tensor, first: StudentMixture, second: StudentMixture) -> StudentMixture:
    """Per batch element the first, filled up with slots of weight zero, or the second."""
    count = first.log_weight.shape[-1]
    result = second.map(Tensor.clone)
    pairs = zip(
        (result.log_weight, result.mean, result.scale, result.nu),
        (first.log_weight, first.mean, first.scale, first.nu),
        strict=True,
    )
    for ours, theirs in pairs:
        ours[condition, :count] = theirs[condition]
    result.log_weight[condition, count:] = DEAD
    return result

"""Fewer slots: what the network keeps apart is merged where the likelihood does not pay for two, and settled.

The network keeps more slots than clusters, because it must not lose one.  With many points the slots too many
cost more than they gain: every parameter has its variance.  So two slots become one while their union costs
less likelihood than Schwarz's criterion (BIC) charges for a slot, and a few steps of expectation-maximization
settle what is left.  Scales keep the gate that the network chose: what it saw along the axes stays there.

Only likelihoods and moments decide, so equivariance is kept.  Whether to believe the mixture as it came or
the merged one is left to the likelihood of rows that are left out (`models.mixture.unified_network`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.models.mixture.axes import Axes
from discoformer.models.mixture.leave_one_out import Evidence
from discoformer.models.mixture.sample import Sample
from discoformer.models.mixture.slots import Moments, make_slots, moments_of
from discoformer.models.mixture.student import StudentMixture

__all__ = ["merge", "settle"]

_DEAD = -80.0  # log weight of a slot that is not there; finite, and its exponential a float32
_NEVER = -1e4  # its log weight in responsibilities: no outlier may call it back
_FLOOR = 1e-8  # of the sample's variance, in every scale: tails can starve all slots of a direction
_NOTHING = 0.03  # gain of log likelihood not worth a step: noise is half a unit for every parameter
_PSEUDO = 1.0  # points' worth of the mean scale in every slot: one with few points stays sound
_TIED = 1e-10  # difference of costs that rounding can make
_STEPS = 20  # of expectation-maximization, at most


class _Group(NamedTuple):
    """Slots that merge: log weights, gates and degrees of freedom (B, M), means and scales."""

    log_weight: Tensor
    mean: Tensor
    scale: Tensor
    nu: Tensor
    gate: Tensor

    @classmethod
    def of(cls, mixture: StudentMixture) -> _Group:
        gate = torch.ones_like(mixture.nu) if mixture.evidence is None else mixture.evidence.whole
        return cls(mixture.log_weight, mixture.mean, mixture.scale, mixture.nu, gate)

    def at(self, *index: Tensor) -> _Group:
        return _Group(*(tensor[index] for tensor in self))

    def each(self, axis: int) -> _Group:
        return _Group(*(tensor.unsqueeze(axis) for tensor in self))


def merge(sample: Sample, mixture: StudentMixture, axes: Axes | None) -> StudentMixture:
    """A mixture (B) of a sample, from the network, with fewer slots, and with what they rest on.

    Slots that are merged away in some samples of the batch but not in all have no weight there.
    """
    slots = _merge_cheap(_Group.of(mixture), sample.total)
    living = (slots.log_weight > _DEAD / 2).any(0)
    return _settle(sample, _Group(*(tensor[:, living] for tensor in slots)), axes, _STEPS)


def settle(sample: Sample, mixture: StudentMixture, axes: Axes | None, steps: int) -> StudentMixture:
    """A merged mixture after some steps over a larger sample."""
    return _settle(sample, _Group.of(mixture), axes, steps)


def _settle(sample: Sample, slots: _Group, axes: Axes | None, steps: int) -> StudentMixture:
    """Expectation-maximization while it gains, at most so many steps."""
    before = sample.total.new_full(sample.total.shape[:1], -torch.inf)
    climbing = torch.ones_like(before, dtype=torch.bool)
    for _ in range(steps):
        moments = _look(sample, slots)
        log_likelihood = slots.mean.shape[-1] * (moments.share * moments.log_mixture).sum(-1)
        log_likelihood = log_likelihood * sample.total[:, 0]
        stepped = _step(moments, slots, sample.total, axes)
        keep = climbing.view(-1, 1)
        slots = _Group(*(_choose(keep, new, old) for new, old in zip(stepped, slots, strict=True)))
        climbing = climbing & (log_likelihood - before >= _NOTHING)
        before = log_likelihood
        if not bool(climbing.any()):
            break
    moments = _look(sample, slots)
    count = moments.share * sample.total
    one, pseudo = torch.ones_like(count), torch.full_like(count, _PSEUDO)
    evidence = Evidence(
        pseudo, one, slots.gate, 1 - slots.gate, torch.zeros_like(count), count, count * moments.tail, axes
    )
    return StudentMixture(slots.log_weight, slots.mean, slots.scale, slots.nu, evidence)


def _choose(condition: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Per sample (B, 1) the new tensor (B, M, ...) or the old one."""
    return torch.where(condition.view(-1, *[1] * (new.ndim - 1)), new, old)


def _look(sample: Sample, slots: _Group) -> Moments:
    """What the slots see of the points; those that are not there see nothing."""
    log_weight = slots.log_weight.masked_fill(slots.log_weight < _DEAD / 2, _NEVER)
    keys = make_slots(log_weight, slots.mean, slots.scale, slots.nu, torch.ones_like(slots.nu))
    return moments_of(sample.statistics(keys._replace(brief=True)), keys)


def _step(moments: Moments, slots: _Group, total: Tensor, axes: Axes | None) -> _Group:
    """The M-step; scales are shrunk a little towards their mean."""
    covariance, gate = moments.covariance, slots.gate[..., None, None]
    if axes is not None:
        covariance = gate * covariance + (1 - gate) * axes.along(axes.diagonal(covariance))
    pooled = (moments.share[..., None, None] * covariance).sum(-3, keepdim=True)
    count = (moments.share * total)[..., None, None]
    scale = (count * covariance + _PSEUDO * pooled) / (count + _PSEUDO)
    scale = 0.5 * (scale + scale.mT)
    scale = scale + _FLOOR * torch.eye(scale.shape[-1], dtype=scale.dtype, device=scale.device)
    log_weight = moments.share.clamp_min(math.exp(_DEAD)).log()
    return slots._replace(log_weight=log_weight, mean=moments.mean, scale=scale)


def _merge_cheap(slots: _Group, total: Tensor) -> _Group:
    """Merge while a union costs less than a slot, without a look at the sample.

    Slots that are each other's cheapest partners merge at the same time.
    """
    known = _Group(*(tensor.detach() for tensor in slots))  # what decides has no derivative
    costs = _union_costs(known.each(2), known.each(1))
    costs.diagonal(dim1=-2, dim2=-1).fill_(torch.inf)
    number = torch.arange(costs.shape[-1], device=costs.device)
    while True:
        least = costs.amin(-1)
        tied = costs <= (least + _TIED * (1 + least.abs())).unsqueeze(-1)
        partner = tied.to(torch.uint8).argmax(-1)  # the first of those that rounding alone sets apart
        price = _price(known, total)
        mutual = (partner.gather(-1, partner) == number) & (number < partner) & (least < price)
        rows, a = mutual.nonzero(as_tuple=True)
        if len(rows) == 0:
            return slots
        b = partner[rows, a]
        slots = _unite(slots, rows, a, b)
        known = _Group(*(tensor.detach() for tensor in slots))
        new = _union_costs(known.at(rows.unsqueeze(1), a.unsqueeze(1)), known.at(rows))
        costs[rows, a], costs[rows, :, a] = new, new
        costs[rows, b], costs[rows, :, b] = torch.inf, torch.inf
        costs[rows, a, a] = torch.inf


def _price(slots: _Group, total: Tensor) -> Tensor:
    """What a slot's parameters cost (B, M), as mean log likelihood, doubled: weight, mean, and what is free
    of its covariance.
    """
    dim = slots.mean.shape[-1]
    free = 1 + dim + dim + slots.gate * (dim * (dim - 1) / 2)
    return 0.5 * free * total.log() / total


def _unite(slots: _Group, rows: Tensor, a: Tensor, b: Tensor) -> _Group:
    """In some rows of the batch, replace slots a and b by their union, at the place of a."""
    first, second = slots.at(rows, a), slots.at(rows, b)
    share, scale = _union(first, second)
    result = _Group(*(tensor.clone() for tensor in slots))
    result.log_weight[rows, a] = torch.logaddexp(first.log_weight, second.log_weight)
    result.mean[rows, a] = torch.lerp(second.mean, first.mean, share.unsqueeze(-1))
    result.scale[rows, a] = scale
    result.nu[rows, a] = 1 / (share / first.nu + (1 - share) / second.nu)
    result.gate[rows, a] = torch.lerp(second.gate, first.gate, share)
    result.log_weight[rows, b] = _DEAD
    return result


def _union_costs(first: _Group, second: _Group) -> Tensor:
    """What the union of two slots costs (...): twice the loss of mean log likelihood (Runnalls).

    (w_a + w_b) log det S_ab - w_a log det S_a - w_b log det S_b, and infinite if a slot is not there.
    """
    one, other = first.log_weight.exp(), second.log_weight.exp()
    costs = (one + other) * _log_det(_union(first, second)[1])
    costs = costs - one * _log_det(first.scale) - other * _log_det(second.scale)
    there = (first.log_weight > _DEAD / 2) & (second.log_weight > _DEAD / 2)
    return costs.masked_fill(~there, torch.inf)


def _union(first: _Group, second: _Group) -> tuple[Tensor, Tensor]:
    """The first slot's share (...) in the union of two, and the union's scale (..., d, d)."""
    share = torch.sigmoid(first.log_weight - second.log_weight)
    offset = first.mean - second.mean
    between = (share * (1 - share))[..., None, None] * offset.unsqueeze(-1) * offset.unsqueeze(-2)
    return share, torch.lerp(second.scale, first.scale, share[..., None, None]) + between


def _log_det(matrix: Tensor) -> Tensor:
    factor: Tensor = torch.linalg.cholesky_ex(matrix)[0]
    return 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)

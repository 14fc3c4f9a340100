"""Fewer slots: two slots are merged where the likelihood does not justify both, then refined.

The network keeps more slots than there are clusters, so as not to lose one.  With many points the surplus
slots cost more than they gain, because every parameter adds variance.  Two slots are merged as long as that
loses less log likelihood than their parameters cost, at ``merge_price`` of the card each:

1. From moments alone, slots are merged to a half, a quarter, ... one, cheapest first.  A few steps of
   expectation-maximization and the criterion say which of these is best.
2. Starting one level above that, pairs are merged whose union loses less than it saves.  The loss is
   measured on the sample, because neighbouring slots make up for each other.  Where no union pays by itself,
   the least costly one is tried in earnest: with steps of expectation-maximization on both sides.
3. Where it costs less than it saves, covariances are put along the axes, and step 2 is taken again.
   Otherwise they keep the gate that the network chose.
4. Where it gains more than it costs, degrees of freedom are fitted too, and step 2 is taken again: one slot
   with the right tails may do for several.  Otherwise they are those that the network chose.
5. Expectation-maximization refines the rest.

Only likelihoods and moments decide, so equivariance is kept.  The unmerged and the merged mixture are then
weighed by leave-one-out likelihood (`models.mixture.unified_network`).
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from discoformer.core.frames import Axes
from discoformer.models.mixture.leave_one_out import ScaleEvidence
from discoformer.models.mixture.lift import lift, weight_and_log
from discoformer.models.mixture.sample import InMemory, Sample
from discoformer.models.mixture.slots import Moments, degrees_of_freedom, moments_of
from discoformer.models.mixture.student import StudentMixture
from discoformer.models.mixture.unions import (
    DEAD,
    SlotGroup,
    all_union_costs,
    chosen,
    costs_after,
    mutual_pairs,
    rounded,
    union_of,
    unite,
)

__all__ = ["Rule", "merge", "settle"]

_FLOOR = 1e-8  # of the sample's variance, in every scale: tails can starve all slots of a direction
_THIN = 1e-5  # variance, next to squared means, of which moments leave fewer digits than answers must have
_NOTHING = 0.01  # gain of log likelihood not worth a step: noise is half a unit for every parameter
_NEAR = 3  # neighbours that a slot may merge with
_TRIED, _BETWEEN, _SHAPED, _STEPS = 3, 4, 16, 100  # steps, at most: of levels, of unions, of shapes, of all
_CHUNK = 2**21  # numbers in an intermediate


class Prices(Protocol):
    """What a core's config says of merging."""

    @property
    def merge_price(self) -> float: ...
    @property
    def merge_pseudo(self) -> float: ...


class Rule(NamedTuple):
    """The log likelihood that a parameter must gain, and pseudo-points with the mean scale in every slot.

    The latter keep slots with few points well conditioned.
    """

    price: float = 2.0
    pseudo: float = 1.0

    @classmethod
    def of(cls, config: Prices) -> Rule:
        return cls(config.merge_price, config.merge_pseudo)


def merge(sample: InMemory, mixture: StudentMixture, axes: Axes | None, rule: Rule) -> StudentMixture:
    """A mixture (B) of a sample, from the network, with fewer slots, and with what they rest on.

    Slots that are merged away in some samples of the batch but not in all have no weight there.
    """
    slots = _best_of_halves(sample, SlotGroup.of(mixture), axes, rule)
    slots = _merge_while_it_pays(sample, slots, axes, rule)
    slots = _along_axes_if_it_pays(sample, slots, axes, rule)
    slots = _with_tails_if_it_pays(sample, slots, axes, rule)
    return _rest_on(sample, _settled(sample, slots, axes, _STEPS, rule), axes, rule)


def settle(
    sample: Sample, mixture: StudentMixture, axes: Axes | None, steps: int, rule: Rule
) -> StudentMixture:
    """A merged mixture after some steps over a larger sample."""
    return _rest_on(sample, _settled(sample, SlotGroup.of(mixture), axes, steps, rule), axes, rule)


def _rest_on(sample: Sample, slots: SlotGroup, axes: Axes | None, rule: Rule) -> StudentMixture:
    """The mixture with what its scales rest on."""
    moments = _look(sample, slots)
    count = moments.share * sample.total
    one, none = torch.ones_like(count), torch.zeros_like(count)
    evidence = ScaleEvidence(
        one * rule.pseudo, one, slots.gate, 1 - slots.gate, none, count, count * moments.tail, axes
    )
    return StudentMixture(slots.log_weight, slots.mean, slots.scale, slots.nu, evidence)


def _settled(sample: Sample, slots: SlotGroup, axes: Axes | None, steps: int, rule: Rule) -> SlotGroup:
    """Slots after at most so many steps; the last one without what rounding does to narrow scales.

    On repeated rows a scale is the floor and the rounding of a second moment less a squared mean: the order
    of the rows would be seen in log densities far from them.
    """
    slots, origin = _steps(sample, slots, axes, steps, rule)
    root = torch.linalg.cholesky_ex(slots.scale)[0].diagonal(dim1=-2, dim2=-1)
    if not bool((root.square().amin(-1) < _THIN * (1 + slots.mean.square().sum(-1))).any()):
        return slots
    moments, keys = _look(sample, origin), origin.keys()
    per_share = (1 + slots.mean.shape[-1] / slots.nu) / moments.share.clamp_min(math.exp(DEAD))
    covariance = per_share[..., None, None] * sample.scatter(keys, moments.mean)
    return _step(moments._replace(covariance=covariance), origin, sample.total, axes, rule)


def _climb(sample: Sample, slots: SlotGroup, axes: Axes | None, steps: int, rule: Rule) -> SlotGroup:
    """Expectation-maximization while it gains, for a limited number of steps."""
    return _steps(sample, slots, axes, steps, rule)[0]


def _steps(
    sample: Sample, slots: SlotGroup, axes: Axes | None, steps: int, rule: Rule, before: Tensor | None = None
) -> tuple[SlotGroup, SlotGroup]:
    """Slots after steps that gain, at most so many, and before the last of them.

    ``before`` (B,) is the log likelihood of an earlier step.  Samples that are done leave the batch.
    """
    origin = slots
    before = sample.total.new_full(sample.total.shape[:1], -torch.inf) if before is None else before
    for step in range(1, steps + 1):
        moments = _look(sample, slots)
        log_likelihood = _log_likelihood(moments, sample.total)
        origin, slots = slots, _step(moments, slots, sample.total, axes, rule)
        climbing = log_likelihood - before >= _NOTHING
        before = log_likelihood
        going = climbing.nonzero().squeeze(-1)
        if len(going) == 0 or step == steps:
            break
        if len(going) < len(climbing):
            some, turned = _some(sample, axes, going)
            new, old = _steps(some, slots.at(going), turned, steps - step, rule, before[going])
            return slots.put(going, new), origin.put(going, old)
    return slots, origin


def _some(sample: Sample, axes: Axes | None, rows: Tensor) -> tuple[InMemory, Axes | None]:
    """Some samples of a batch, and their axes."""
    assert isinstance(sample, InMemory)  # of the others there is one
    return sample.some(rows), None if axes is None else Axes(*(tensor[rows] for tensor in axes))


def _look(sample: Sample, slots: SlotGroup) -> Moments:
    """What the slots see of the points; empty slots see nothing."""
    keys = slots.keys()
    return moments_of(sample.statistics(keys._replace(brief=not bool(slots.tails.any()))), keys)


def _log_likelihood(moments: Moments, total: Tensor) -> Tensor:
    """Of all points (B,)."""
    return total[:, 0] * moments.mean.shape[-1] * (moments.share * moments.log_mixture).sum(-1)


def _step(moments: Moments, slots: SlotGroup, total: Tensor, axes: Axes | None, rule: Rule) -> SlotGroup:
    """The M-step; scales are shrunk a little towards their mean."""
    covariance = _gated(moments.covariance, slots.gate, axes)
    pooled = (moments.share[..., None, None] * covariance).sum(-3, keepdim=True)
    count = (moments.share * total)[..., None, None]
    scale = (count * covariance + rule.pseudo * pooled) / (count + rule.pseudo)
    scale = 0.5 * (scale + scale.mT)
    scale = scale + _FLOOR * torch.eye(scale.shape[-1], dtype=scale.dtype, device=scale.device)
    log_weight = moments.share.clamp_min(math.exp(DEAD)).log()
    nu = slots.nu
    if moments.details.shape[-1]:
        nu = torch.where(slots.tails > 0, degrees_of_freedom(moments, nu), nu)
    return slots._replace(log_weight=log_weight, mean=moments.mean, scale=scale, nu=nu)


def _gated(covariance: Tensor, gate: Tensor, axes: Axes | None) -> Tensor:
    """Covariances (B, M, d, d) with so much of what is not along the axes as gates (B, M) leave."""
    if axes is None:
        return covariance
    part = gate[..., None, None]
    return part * covariance + (1 - part) * axes.along(axes.diagonal(covariance))


def _worth(sample: Sample, slots: SlotGroup, rule: Rule) -> Tensor:
    """The log likelihood (B,) less what the parameters cost."""
    return _log_likelihood(_look(sample, slots), sample.total) - rule.price * (
        slots.free() * slots.there
    ).sum(-1)


def _best_of_halves(sample: InMemory, slots: SlotGroup, axes: Axes | None, rule: Rule) -> SlotGroup:
    """Of all slots, a half, a quarter, ...: one level above the best by the criterion."""
    levels, values = [slots], []
    for level in _halves(slots):
        level = _climb(sample, level, axes, _TRIED, rule)
        values.append(_worth(sample, level, rule))
        levels.append(level)
    if not values:
        return slots
    best = torch.stack(values, -1).detach().argmax(-1)  # (B,), counted from the first half: one above it
    count = max(levels[k].nu.shape[-1] for k in set(best.tolist()))
    row = torch.arange(len(best), device=best.device)
    above = [level.padded(count) for level in levels if level.nu.shape[-1] <= count]
    chosen = best - (len(levels) - len(above))
    return SlotGroup(*(torch.stack(tensors)[chosen, row] for tensors in zip(*above, strict=True)))


def _halves(slots: SlotGroup) -> list[SlotGroup]:
    """The slots merged to a half, a quarter, ... one, from moments alone."""
    costs, found = all_union_costs(slots.map(Tensor.detach)), []
    target = slots.nu.shape[-1] // 2
    while target:
        while True:
            excess = slots.there.sum(-1, keepdim=True) - target
            mutual, partner = mutual_pairs(costs)
            # Of the pairs that may merge at the same time, the cheapest, and no more than the surplus.
            rank = rounded(torch.where(mutual, costs.amin(-1), torch.inf), -1)
            rank = rank.argsort(dim=-1, stable=True).argsort(-1)
            rows, a = (mutual & (rank < excess)).nonzero(as_tuple=True)
            if len(rows) == 0:
                break
            slots = unite(slots, rows, a, partner[rows, a])
            costs = costs_after(costs, slots.map(Tensor.detach), rows, a, partner[rows, a])
        found.append(slots.compact())
        target //= 2
    return found


def _merge_while_it_pays(sample: InMemory, slots: SlotGroup, axes: Axes | None, rule: Rule) -> SlotGroup:
    """Merge pairs whose union loses less log likelihood of the sample than it saves, with steps between.

    Samples of a batch that part ways go on in batches of their own.
    """
    while slots.nu.shape[-1] > 1:
        losses = _losses(sample, slots.map(Tensor.detach), axes, rule.price)
        mutual, partner = mutual_pairs(losses.masked_fill(losses >= 0, torch.inf))
        merging = mutual.any(-1)
        if bool(merging.all()):
            rows, a = mutual.nonzero(as_tuple=True)
            slots = unite(slots, rows, a, partner[rows, a]).compact()
            slots = _climb(sample, slots, axes, _BETWEEN, rule)
        elif bool(merging.any()):
            for which in (merging, ~merging):
                slots = _merge_some(sample, slots, axes, which, rule)
            return slots.compact()
        else:
            slots, paid = _try_cheapest(sample, slots, losses, axes, rule)
            if not bool(paid.all()):
                return _merge_some(sample, slots, axes, paid, rule).compact()
            slots = slots.compact()
    return slots


def _merge_some(
    sample: InMemory, slots: SlotGroup, axes: Axes | None, which: Tensor, rule: Rule
) -> SlotGroup:
    """`_merge_while_it_pays` in some samples (B,) of a batch; the others stay."""
    rows = which.nonzero().squeeze(-1)
    if len(rows) == 0:
        return slots
    some, turned = _some(sample, axes, rows)
    return slots.put(rows, _merge_while_it_pays(some, slots.at(rows).compact(), turned, rule))


def _try_cheapest(
    sample: InMemory, slots: SlotGroup, losses: Tensor, axes: Axes | None, rule: Rule
) -> tuple[SlotGroup, Tensor]:
    """Slots after steps, in every sample with or without its cheapest union, and where (B,) that paid."""
    count = losses.shape[-1]
    least, place = rounded(losses, (-2, -1)).flatten(1).min(-1)
    rows = least.isfinite().nonzero().squeeze(-1)
    first, second = place[rows] // count, place[rows] % count
    apart = _climb(sample, slots, axes, _SHAPED, rule)
    united = _climb(sample, unite(slots, rows, first, second), axes, _SHAPED, rule)
    paid = least.isfinite() & (_worth(sample, united, rule) > _worth(sample, apart, rule))
    return chosen(paid, united, apart), paid


def _along_axes_if_it_pays(sample: InMemory, slots: SlotGroup, axes: Axes | None, rule: Rule) -> SlotGroup:
    """All covariances along the axes, in the samples where that loses less than it saves."""
    if axes is None or slots.mean.shape[-1] == 1:
        return slots
    slots = _climb(sample, slots, axes, _SHAPED, rule)
    along = slots._replace(gate=torch.zeros_like(slots.gate))
    along = _climb(sample, along, axes, _SHAPED, rule)
    pays = _worth(sample, along, rule) > _worth(sample, slots, rule)
    return _merge_some(sample, chosen(pays, along, slots), axes, pays, rule).compact()


def _with_tails_if_it_pays(sample: InMemory, slots: SlotGroup, axes: Axes | None, rule: Rule) -> SlotGroup:
    """Degrees of freedom fitted, in the samples where that gains more than it costs."""
    free = _climb(sample, slots._replace(tails=torch.ones_like(slots.tails)), axes, _SHAPED, rule)
    free = _merge_while_it_pays(sample, free, axes, rule).padded(slots.nu.shape[-1])
    pays = _worth(sample, free, rule) > _worth(sample, slots, rule)
    return chosen(pays, free, slots).compact()


def _losses(sample: InMemory, slots: SlotGroup, axes: Axes | None, price: float) -> Tensor:
    """What unions of neighbours cost (B, M, M): log likelihood less what they save; infinite for others.

    The sample's log likelihood changes by sum_i log(1 + (u - a - b)(x_i) / p(x_i)) if slots a and b of the
    mixture p become u, and nothing else moves.
    """
    batch, count = slots.nu.shape
    costs = all_union_costs(slots)
    order = rounded(costs, (-2, -1)).argsort(dim=-1, stable=True)  # ties go by the order of the slots
    near = torch.zeros_like(costs, dtype=torch.bool).scatter(-1, order[..., : min(_NEAR, count - 1)], True)
    near = ((near | near.mT) & costs.isfinite()).triu(1).flatten(1)  # (B, M M), each pair once
    pairs = near.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)
    pairs = pairs[:, : int(near.sum(-1).amax())]  # (B, P): in some samples there are fewer
    first, second = pairs // count, pairs % count
    row = torch.arange(batch, device=pairs.device).unsqueeze(-1)
    union = union_of(slots.at(row, first), slots.at(row, second))
    union = union._replace(scale=_gated(union.scale, union.gate, axes))  # as the M-step would have it
    keys, union_keys = slots.keys().keys, union.keys().keys

    change = torch.zeros_like(union.nu)
    size, share = sample.points.shape[1], sample.weights
    rows = max(1, _CHUNK // (batch * (count + 3 * pairs.shape[-1])))
    for start in range(0, size, rows):
        lifted = lift(sample.points[:, start : start + rows].detach())
        held, joined = (
            weight_and_log(theta, lifted)[1].mul_(-power).add_(offset)
            for theta, offset, power in (keys, union_keys)
        )
        log_density = held.logsumexp(-2, keepdim=True)
        held, ratio = held.sub_(log_density).exp_(), joined.sub_(log_density).exp_()
        for own in (first, second):
            ratio.sub_(held.gather(1, own.unsqueeze(-1).expand_as(ratio)))
        gained = ratio.clamp_min_(-1 + 1e-12).log1p_()
        if share is None:
            change = change + gained.sum(-1) / size
        else:
            change = change + (gained @ share[:, start : start + rows].unsqueeze(-1)).squeeze(-1)
    saved = price * (slots.free()[row, first] + slots.free()[row, second] - union.free())
    cost = -sample.total * change - saved
    cost = cost.masked_fill(~near.gather(-1, pairs), torch.inf)
    found = torch.full_like(costs, torch.inf)
    found[row, first, second] = cost
    return torch.minimum(found, found.mT)

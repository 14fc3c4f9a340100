"""Fewer slots: two slots are merged where the likelihood does not justify both, then refined.

The network keeps more slots than there are clusters, so as not to lose one.  With many points the surplus
slots cost more than they gain, because every parameter adds variance.  Two slots are merged as long as that
loses less log likelihood than their parameters cost, at ``merge_price`` of the card each:

1. From moments alone, slots are merged to a half, a quarter, ... one, cheapest first.  A few steps of
   expectation-maximization and the criterion say which of these is best.
2. Starting one level above that, pairs are merged whose union loses less than it saves.  The loss is
   measured on the sample, because neighbouring slots make up for each other.
3. Where it costs less than it saves, covariances are put along the axes, and step 2 is taken again.
   Otherwise they keep the gate that the network chose.
4. Expectation-maximization refines the rest.

Only likelihoods and moments decide, so equivariance is kept.  The unmerged and the merged mixture are then
weighed by leave-one-out likelihood (`models.mixture.unified_network`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from discoformer.models.mixture.axes import Axes
from discoformer.models.mixture.leave_one_out import ScaleEvidence
from discoformer.models.mixture.lift import lift, weight_and_log
from discoformer.models.mixture.sample import InMemory, Sample
from discoformer.models.mixture.slots import Moments, Slots, make_slots, moments_of
from discoformer.models.mixture.student import StudentMixture

__all__ = ["Rule", "merge", "settle"]

_DEAD = -80.0  # log weight of an empty slot; finite, and its exponential is a float32
_NEVER = -1e4  # its log weight in responsibilities: no outlier may call it back
_FLOOR = 1e-8  # of the sample's variance, in every scale: tails can starve all slots of a direction
_THIN = 1e-5  # variance, next to squared means, of which moments leave fewer digits than answers must have
_NOTHING = 0.01  # gain of log likelihood not worth a step: noise is half a unit for every parameter
_TIED = 1e-10  # difference of costs that rounding can make
_NEAR = 3  # neighbours that a slot may merge with
_TRIED, _BETWEEN, _SHAPED, _STEPS = (
    3,
    4,
    8,
    100,
)  # steps, at most: of trials, between merges, of shapes, at the end
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

    @property
    def there(self) -> Tensor:
        """Which slots are there (B, M)."""
        return self.log_weight > _DEAD / 2

    def map(self, function: Callable[[Tensor], Tensor]) -> _Group:
        return _Group(*map(function, self))

    def at(self, *index: Tensor) -> _Group:
        return self.map(lambda tensor: tensor[index])

    def put(self, rows: Tensor, part: _Group) -> _Group:
        """The same with some samples of the batch replaced, which may have fewer slots."""
        pairs = zip(self, part.padded(self.nu.shape[-1]), strict=True)
        return _Group(*(tensor.index_copy(0, rows, new) for tensor, new in pairs))

    def padded(self, count: int) -> _Group:
        """The same padded with empty slots, ``count`` in all."""
        more = count - self.nu.shape[-1]
        extra = self.map(lambda tensor: tensor[:, :1].expand(-1, more, *tensor.shape[2:]))
        extra = extra._replace(log_weight=torch.full_like(extra.log_weight, _DEAD))
        return _Group(*(torch.cat(both, 1) for both in zip(self, extra, strict=True)))

    def compact(self) -> _Group:
        """Without the slots that are there in no sample; others may have no weight."""
        there = self.there
        order = there.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)
        order = order[:, : int(there.sum(-1).amax())]
        return self.at(torch.arange(len(order), device=order.device).unsqueeze(-1), order)

    def free(self) -> Tensor:
        """Parameters of every slot (B, M): weight, mean, and what is free of its covariance."""
        dim = self.mean.shape[-1]
        return 1 + 2 * dim + self.gate * (dim * (dim - 1) / 2)

    def keys(self) -> Slots:
        log_weight = self.log_weight.masked_fill(~self.there, _NEVER)
        return make_slots(log_weight, self.mean, self.scale, self.nu, torch.ones_like(self.nu))


def merge(sample: InMemory, mixture: StudentMixture, axes: Axes | None, rule: Rule) -> StudentMixture:
    """A mixture (B) of a sample, from the network, with fewer slots, and with what they rest on.

    Slots that are merged away in some samples of the batch but not in all have no weight there.
    """
    slots = _best_of_halves(sample, _Group.of(mixture), axes, rule)
    slots = _merge_while_it_pays(sample, slots, axes, rule)
    slots = _along_axes_if_it_pays(sample, slots, axes, rule)
    return _rest_on(sample, _settled(sample, slots, axes, _STEPS, rule), axes, rule)


def settle(
    sample: Sample, mixture: StudentMixture, axes: Axes | None, steps: int, rule: Rule
) -> StudentMixture:
    """A merged mixture after some steps over a larger sample."""
    return _rest_on(sample, _settled(sample, _Group.of(mixture), axes, steps, rule), axes, rule)


def _rest_on(sample: Sample, slots: _Group, axes: Axes | None, rule: Rule) -> StudentMixture:
    """The mixture with what its scales rest on."""
    moments = _look(sample, slots)
    count = moments.share * sample.total
    one, none = torch.ones_like(count), torch.zeros_like(count)
    evidence = ScaleEvidence(
        one * rule.pseudo, one, slots.gate, 1 - slots.gate, none, count, count * moments.tail, axes
    )
    return StudentMixture(slots.log_weight, slots.mean, slots.scale, slots.nu, evidence)


def _settled(sample: Sample, slots: _Group, axes: Axes | None, steps: int, rule: Rule) -> _Group:
    """Slots after at most so many steps; the last one without what rounding does to narrow scales.

    On repeated rows a scale is the floor and the rounding of a second moment less a squared mean: the order
    of the rows would be seen in log densities far from them.
    """
    slots, origin = _steps(sample, slots, axes, steps, rule)
    root = torch.linalg.cholesky_ex(slots.scale)[0].diagonal(dim1=-2, dim2=-1)
    if not bool((root.square().amin(-1) < _THIN * (1 + slots.mean.square().sum(-1))).any()):
        return slots
    moments, keys = _look(sample, origin), origin.keys()
    per_share = (1 + slots.mean.shape[-1] / slots.nu) / moments.share.clamp_min(math.exp(_DEAD))
    covariance = per_share[..., None, None] * sample.scatter(keys, moments.mean)
    return _step(moments._replace(covariance=covariance), origin, sample.total, axes, rule)


def _climb(sample: Sample, slots: _Group, axes: Axes | None, steps: int, rule: Rule) -> _Group:
    """Expectation-maximization while it gains, for a limited number of steps."""
    return _steps(sample, slots, axes, steps, rule)[0]


def _steps(
    sample: Sample, slots: _Group, axes: Axes | None, steps: int, rule: Rule, before: Tensor | None = None
) -> tuple[_Group, _Group]:
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


def _chosen(condition: Tensor, new: _Group, old: _Group) -> _Group:
    """Per sample (B,) the new slots or the old ones."""
    pairs = zip(new, old, strict=True)
    return _Group(*(torch.where(condition.view(-1, *[1] * (a.ndim - 1)), a, b) for a, b in pairs))


def _look(sample: Sample, slots: _Group) -> Moments:
    """What the slots see of the points; empty slots see nothing."""
    keys = slots.keys()
    return moments_of(sample.statistics(keys._replace(brief=True)), keys)


def _log_likelihood(moments: Moments, total: Tensor) -> Tensor:
    """Of all points (B,)."""
    return total[:, 0] * moments.mean.shape[-1] * (moments.share * moments.log_mixture).sum(-1)


def _step(moments: Moments, slots: _Group, total: Tensor, axes: Axes | None, rule: Rule) -> _Group:
    """The M-step; scales are shrunk a little towards their mean."""
    covariance = _gated(moments.covariance, slots.gate, axes)
    pooled = (moments.share[..., None, None] * covariance).sum(-3, keepdim=True)
    count = (moments.share * total)[..., None, None]
    scale = (count * covariance + rule.pseudo * pooled) / (count + rule.pseudo)
    scale = 0.5 * (scale + scale.mT)
    scale = scale + _FLOOR * torch.eye(scale.shape[-1], dtype=scale.dtype, device=scale.device)
    log_weight = moments.share.clamp_min(math.exp(_DEAD)).log()
    return slots._replace(log_weight=log_weight, mean=moments.mean, scale=scale)


def _gated(covariance: Tensor, gate: Tensor, axes: Axes | None) -> Tensor:
    """Covariances (B, M, d, d) with so much of what is not along the axes as gates (B, M) leave."""
    if axes is None:
        return covariance
    part = gate[..., None, None]
    return part * covariance + (1 - part) * axes.along(axes.diagonal(covariance))


def _worth(sample: Sample, slots: _Group, rule: Rule) -> Tensor:
    """The log likelihood (B,) less what the parameters cost."""
    return _log_likelihood(_look(sample, slots), sample.total) - rule.price * (
        slots.free() * slots.there
    ).sum(-1)


def _best_of_halves(sample: InMemory, slots: _Group, axes: Axes | None, rule: Rule) -> _Group:
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
    return _Group(*(torch.stack(tensors)[chosen, row] for tensors in zip(*above, strict=True)))


def _halves(slots: _Group) -> list[_Group]:
    """The slots merged to a half, a quarter, ... one, from moments alone."""
    costs, found = _all_union_costs(slots.map(Tensor.detach)), []
    target = slots.nu.shape[-1] // 2
    while target:
        while True:
            excess = slots.there.sum(-1, keepdim=True) - target
            mutual, partner = _mutual(costs)
            # Of the pairs that may merge at the same time, the cheapest, and no more than the surplus.
            rank = _rounded(torch.where(mutual, costs.amin(-1), torch.inf), -1)
            rank = rank.argsort(dim=-1, stable=True).argsort(-1)
            rows, a = (mutual & (rank < excess)).nonzero(as_tuple=True)
            if len(rows) == 0:
                break
            slots = _unite(slots, rows, a, partner[rows, a])
            costs = _costs_after(costs, slots.map(Tensor.detach), rows, a, partner[rows, a])
        found.append(slots.compact())
        target //= 2
    return found


def _merge_while_it_pays(sample: InMemory, slots: _Group, axes: Axes | None, rule: Rule) -> _Group:
    """Merge pairs whose union loses less log likelihood of the sample than it saves, with steps between."""
    while slots.nu.shape[-1] > 1:
        mutual, partner = _mutual(_losses(sample, slots.map(Tensor.detach), axes, rule.price))
        rows, a = mutual.nonzero(as_tuple=True)
        if len(rows) == 0:
            break
        slots = _unite(slots, rows, a, partner[rows, a]).compact()
        merging = mutual.any(-1).nonzero().squeeze(-1)
        if len(merging) < len(mutual):  # the other samples of the batch are done
            some, turned = _some(sample, axes, merging)
            part = _climb(some, slots.at(merging).compact(), turned, _BETWEEN, rule)
            return slots.put(merging, _merge_while_it_pays(some, part, turned, rule)).compact()
        slots = _climb(sample, slots, axes, _BETWEEN, rule)
    return slots


def _along_axes_if_it_pays(sample: InMemory, slots: _Group, axes: Axes | None, rule: Rule) -> _Group:
    """All covariances along the axes, in the samples where that loses less than it saves."""
    if axes is None or slots.mean.shape[-1] == 1:
        return slots
    slots = _climb(sample, slots, axes, _SHAPED, rule)
    along = slots._replace(gate=torch.zeros_like(slots.gate))
    along = _climb(sample, along, axes, _SHAPED, rule)
    pays = _worth(sample, along, rule) > _worth(sample, slots, rule)
    slots = _chosen(pays, along, slots)
    return _merge_while_it_pays(sample, slots, axes, rule) if bool(pays.any()) else slots


def _losses(sample: InMemory, slots: _Group, axes: Axes | None, price: float) -> Tensor:
    """What unions of neighbours cost (B, M, M): log likelihood less what they save; infinite if that is much.

    The sample's log likelihood changes by sum_i log(1 + (u - a - b)(x_i) / p(x_i)) if slots a and b of the
    mixture p become u, and nothing else moves.
    """
    batch, count = slots.nu.shape
    costs = _all_union_costs(slots)
    order = _rounded(costs, (-2, -1)).argsort(dim=-1, stable=True)  # ties go by the order of the slots
    near = torch.zeros_like(costs, dtype=torch.bool).scatter(-1, order[..., : min(_NEAR, count - 1)], True)
    near = ((near | near.mT) & costs.isfinite()).triu(1).flatten(1)  # (B, M M), each pair once
    pairs = near.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)
    pairs = pairs[:, : int(near.sum(-1).amax())]  # (B, P): in some samples there are fewer
    first, second = pairs // count, pairs % count
    row = torch.arange(batch, device=pairs.device).unsqueeze(-1)
    union = _union_of(slots.at(row, first), slots.at(row, second))
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
    cost = cost.masked_fill((cost >= 0) | ~near.gather(-1, pairs), torch.inf)
    found = torch.full_like(costs, torch.inf)
    found[row, first, second] = cost
    return torch.minimum(found, found.mT)


def _rounded(costs: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    """Costs as whole numbers, in units of what rounding can do to them: the last bit is gone."""
    finite = torch.where(costs.isfinite(), costs, 0.0)
    whole = (finite / (_TIED * (1 + finite.abs().amax(dim, keepdim=True)))).round()
    return torch.where(costs.isfinite(), whole, torch.inf)


def _mutual(costs: Tensor) -> tuple[Tensor, Tensor]:
    """Which slots are the first of two that are each other's cheapest partners, and all partners: (B, M)."""
    least = costs.amin(-1)
    tied = costs <= (least + _TIED * (1 + least.abs())).unsqueeze(-1)
    partner = tied.to(torch.uint8).argmax(-1)  # the first of those that rounding alone sets apart
    number = torch.arange(costs.shape[-1], device=costs.device)
    return (partner.gather(-1, partner) == number) & (number < partner) & least.isfinite(), partner


def _unite(slots: _Group, rows: Tensor, a: Tensor, b: Tensor) -> _Group:
    """In some rows of the batch, replace slots a and b by their union, at the place of a."""
    union = _union_of(slots.at(rows, a), slots.at(rows, b))
    result = slots.map(Tensor.clone)
    for tensor, new in zip(result, union, strict=True):
        tensor[rows, a] = new
    result.log_weight[rows, b] = _DEAD
    return result


def _union_of(first: _Group, second: _Group) -> _Group:
    """One slot (...) with the moments of two."""
    share, scale = _union(first, second)
    return _Group(
        torch.logaddexp(first.log_weight, second.log_weight),
        torch.lerp(second.mean, first.mean, share.unsqueeze(-1)),
        scale,
        1 / (share / first.nu + (1 - share) / second.nu),
        torch.lerp(second.gate, first.gate, share),
    )


def _all_union_costs(slots: _Group) -> Tensor:
    """`_union_costs` of all pairs of slots (B, M, M); infinite on the diagonal."""
    costs = _union_costs(slots.map(lambda t: t.unsqueeze(2)), slots.map(lambda t: t.unsqueeze(1)))
    costs.diagonal(dim1=-2, dim2=-1).fill_(torch.inf)
    return costs


def _costs_after(costs: Tensor, slots: _Group, rows: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The costs of all pairs when in some rows of the batch b has gone into a."""
    new = _union_costs(slots.at(rows.unsqueeze(1), a.unsqueeze(1)), slots.at(rows))
    costs[rows, a], costs[rows, :, a] = new, new
    costs[rows, b], costs[rows, :, b] = torch.inf, torch.inf
    costs[rows, a, a] = torch.inf
    return costs


def _union_costs(first: _Group, second: _Group) -> Tensor:
    """What the union of two slots costs (...): twice the loss of mean log likelihood (Runnalls).

    (w_a + w_b) log det S_ab - w_a log det S_a - w_b log det S_b, and infinite if a slot is empty.
    """
    one, other = first.log_weight.exp(), second.log_weight.exp()
    costs = (one + other) * _log_det(_union(first, second)[1])
    costs = costs - one * _log_det(first.scale) - other * _log_det(second.scale)
    return costs.masked_fill(~(first.there & second.there), torch.inf)


def _union(first: _Group, second: _Group) -> tuple[Tensor, Tensor]:
    """The first slot's share (...) in the union of two, and the union's scale (..., d, d)."""
    share = torch.sigmoid(first.log_weight - second.log_weight)
    offset = first.mean - second.mean
    between = (share * (1 - share))[..., None, None] * offset.unsqueeze(-1) * offset.unsqueeze(-2)
    return share, torch.lerp(second.scale, first.scale, share[..., None, None]) + between


def _log_det(matrix: Tensor) -> Tensor:
    factor: Tensor = torch.linalg.cholesky_ex(matrix)[0]
    return 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)

"""Slots that merge, and what the union of two of them costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.models.mixture.slots import Slots, make_slots
from discoformer.models.mixture.student import StudentMixture

__all__ = [
    "DEAD",
    "SlotGroup",
    "all_union_costs",
    "chosen",
    "costs_after",
    "mutual_pairs",
    "rounded",
    "union_of",
    "unite",
]

DEAD = -80.0  # log weight of an empty slot; finite, and its exponential is a float32
_NEVER = -1e4  # its log weight in responsibilities: no outlier may call it back
_TIED = 1e-10  # difference of costs that rounding can make


class SlotGroup(NamedTuple):
    """Slots that merge: log weights, gates and degrees of freedom (B, M), means and scales.

    ``tails`` (B, M) is one where degrees of freedom are fitted, zero where they stay.
    """

    log_weight: Tensor
    mean: Tensor
    scale: Tensor
    nu: Tensor
    gate: Tensor
    tails: Tensor

    @classmethod
    def of(cls, mixture: StudentMixture) -> SlotGroup:
        gate = torch.ones_like(mixture.nu) if mixture.evidence is None else mixture.evidence.whole
        none = torch.zeros_like(mixture.nu)
        return cls(mixture.log_weight, mixture.mean, mixture.scale, mixture.nu, gate, none)

    @property
    def there(self) -> Tensor:
        """Which slots are there (B, M)."""
        return self.log_weight > DEAD / 2

    def map(self, function: Callable[[Tensor], Tensor]) -> SlotGroup:
        return SlotGroup(*map(function, self))

    def at(self, *index: Tensor) -> SlotGroup:
        return self.map(lambda tensor: tensor[index])

    def put(self, rows: Tensor, part: SlotGroup) -> SlotGroup:
        """The same with some samples of the batch replaced, which may have fewer slots."""
        pairs = zip(self, part.padded(self.nu.shape[-1]), strict=True)
        return SlotGroup(*(tensor.index_copy(0, rows, new) for tensor, new in pairs))

    def padded(self, count: int) -> SlotGroup:
        """The same padded with empty slots, ``count`` in all."""
        more = count - self.nu.shape[-1]
        extra = self.map(lambda tensor: tensor[:, :1].expand(-1, more, *tensor.shape[2:]))
        extra = extra._replace(log_weight=torch.full_like(extra.log_weight, DEAD))
        return SlotGroup(*(torch.cat(both, 1) for both in zip(self, extra, strict=True)))

    def compact(self) -> SlotGroup:
        """Without the slots that are there in no sample; others may have no weight."""
        there = self.there
        order = there.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)
        order = order[:, : int(there.sum(-1).amax())]
        return self.at(torch.arange(len(order), device=order.device).unsqueeze(-1), order)

    def free(self) -> Tensor:
        """Parameters of every slot (B, M): weight, mean, and what is free of its covariance and tails."""
        dim = self.mean.shape[-1]
        return 1 + 2 * dim + self.gate * (dim * (dim - 1) / 2) + self.tails

    def keys(self) -> Slots:
        log_weight = self.log_weight.masked_fill(~self.there, _NEVER)
        return make_slots(log_weight, self.mean, self.scale, self.nu, torch.ones_like(self.nu))


def chosen(condition: Tensor, new: SlotGroup, old: SlotGroup) -> SlotGroup:
    """Per sample (B,) the new slots or the old ones."""
    pairs = zip(new, old, strict=True)
    return SlotGroup(*(torch.where(condition.view(-1, *[1] * (a.ndim - 1)), a, b) for a, b in pairs))


def rounded(costs: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    """Costs as whole numbers, in units of what rounding can do to them: the last bit is gone."""
    finite = torch.where(costs.isfinite(), costs, 0.0)
    whole = (finite / (_TIED * (1 + finite.abs().amax(dim, keepdim=True)))).round()
    return torch.where(costs.isfinite(), whole, torch.inf)


def mutual_pairs(costs: Tensor) -> tuple[Tensor, Tensor]:
    """Which slots are the first of two that are each other's cheapest partners, and all partners: (B, M)."""
    least = costs.amin(-1)
    tied = costs <= (least + _TIED * (1 + least.abs())).unsqueeze(-1)
    partner = tied.to(torch.uint8).argmax(-1)  # the first of those that rounding alone sets apart
    number = torch.arange(costs.shape[-1], device=costs.device)
    return (partner.gather(-1, partner) == number) & (number < partner) & least.isfinite(), partner


def unite(slots: SlotGroup, rows: Tensor, a: Tensor, b: Tensor) -> SlotGroup:
    """In some rows of the batch, replace slots a and b by their union, at the place of a."""
    union = union_of(slots.at(rows, a), slots.at(rows, b))
    result = slots.map(Tensor.clone)
    for tensor, new in zip(result, union, strict=True):
        tensor[rows, a] = new
    result.log_weight[rows, b] = DEAD
    return result


def union_of(first: SlotGroup, second: SlotGroup) -> SlotGroup:
    """One slot (...) with the moments of two."""
    share, scale = _union(first, second)
    return SlotGroup(
        torch.logaddexp(first.log_weight, second.log_weight),
        torch.lerp(second.mean, first.mean, share.unsqueeze(-1)),
        scale,
        1 / (share / first.nu + (1 - share) / second.nu),
        torch.lerp(second.gate, first.gate, share),
        first.tails,
    )


def all_union_costs(slots: SlotGroup) -> Tensor:
    """`_union_costs` of all pairs of slots (B, M, M); infinite on the diagonal."""
    costs = _union_costs(slots.map(lambda t: t.unsqueeze(2)), slots.map(lambda t: t.unsqueeze(1)))
    costs.diagonal(dim1=-2, dim2=-1).fill_(torch.inf)
    return costs


def costs_after(costs: Tensor, slots: SlotGroup, rows: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The costs of all pairs when in some rows of the batch b has gone into a."""
    new = _union_costs(slots.at(rows.unsqueeze(1), a.unsqueeze(1)), slots.at(rows))
    costs[rows, a], costs[rows, :, a] = new, new
    costs[rows, b], costs[rows, :, b] = torch.inf, torch.inf
    costs[rows, a, a] = torch.inf
    return costs


def _union_costs(first: SlotGroup, second: SlotGroup) -> Tensor:
    """What the union of two slots costs (...): twice the loss of mean log likelihood (Runnalls).

    (w_a + w_b) log det S_ab - w_a log det S_a - w_b log det S_b, and infinite if a slot is empty.
    """
    one, other = first.log_weight.exp(), second.log_weight.exp()
    costs = (one + other) * _log_det(_union(first, second)[1])
    costs = costs - one * _log_det(first.scale) - other * _log_det(second.scale)
    return costs.masked_fill(~(first.there & second.there), torch.inf)


def _union(first: SlotGroup, second: SlotGroup) -> tuple[Tensor, Tensor]:
    """The first slot's share (...) in the union of two, and the union's scale (..., d, d)."""
    share = torch.sigmoid(first.log_weight - second.log_weight)
    offset = first.mean - second.mean
    between = (share * (1 - share))[..., None, None] * offset.unsqueeze(-1) * offset.unsqueeze(-2)
    return share, torch.lerp(second.scale, first.scale, share[..., None, None]) + between


def _log_det(matrix: Tensor) -> Tensor:
    factor: Tensor = torch.linalg.cholesky_ex(matrix)[0]
    return 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)

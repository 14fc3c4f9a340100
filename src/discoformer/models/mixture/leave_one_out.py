"""The log density of every row of a sample under the fit without it, in closed form.

A slot's scale is S = a (A(X) + rest) / (c + kappa): X = sum_i w_i d_i d_i' is the scatter of its c points,
w = r u (responsibility times Student weight), kappa the pseudo-counts, a the inflation.  Of X a part g enters
whole, a part k along the axes only, and a part l as a ball.  Without point i

    the mean moves:      x_i - mean' = d / f,           f = 1 - w / sum w
    the scatter loses:   X' = X - (w / f) d d'
    the counts lose:     c' = c - r

With b = a (w / f) / (c + kappa), P = S^-1 and D = d' P d, what enters along the axes is a diagonal downdate,
e_j = b k u_j^2 in the columns' own coordinates u, and what enters whole is one of rank one:

    h_j = 1 - e_j P_jj,   D_1 = D + sum_j e_j (P u)_j^2 / h_j       (exact if S is diagonal)
    q = 1 - g b D_1,      D' = D_1 / (f^2 q) (c' + kappa) / (c + kappa)
    log det S' = log det S + sum_j log h_j + log q + d log((c + kappa) / (c' + kappa))

and likewise for a ball.  The formula does not account for slots that would have moved: responsibilities and
decisions are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.core.frames import Axes
from discoformer.models.mixture.lift import Natural, lift, natural_parameters
from discoformer.models.mixture.slots import student_log_density

__all__ = ["Beside", "Components", "ScaleEvidence", "SlotsSeen", "leave_one_out", "lose"]

_LEAST = 1e-6  # what is left of a slot, at least, without one of its points
_ROUNDING = 1e-10  # what rounding may leave of a slot that loses all it has
_NOTHING = 1e-30  # of a slot that consists of one point
_HOLDERS = 4  # slots that lose a point
_CHUNK = 2**19  # numbers in an intermediate: what stays in cache is fastest


@dataclass(frozen=True)
class ScaleEvidence:
    """The sufficient statistics and shrinkage behind the scales of a fitted mixture; a batch (...) leads.

    Attributes
    ----------
    pseudo : (..., M), pseudo-counts of all targets
    inflation : (..., M), factor of the scale
    whole : (..., M), part of the scatter that enters with its off-diagonals
    along : (..., M), part that enters along the axes
    ball : (..., M), part that enters as a ball
    count, mass : (..., M), sums over the sample of the responsibilities, and of these times Student weights
    axes : the axes that count; None if those of the coordinates do
    """

    pseudo: Tensor
    inflation: Tensor
    whole: Tensor
    along: Tensor
    ball: Tensor
    count: Tensor
    mass: Tensor
    axes: Axes | None = None

    @classmethod
    def of_likelihood(cls, count: Tensor, mass: Tensor) -> ScaleEvidence:
        """For a maximum likelihood fit: no shrinkage, only the points."""
        none, all_of_it = torch.zeros_like(count), torch.ones_like(count)
        return cls(none, all_of_it, all_of_it, none, none, count, mass)

    def map(self, function: Callable[[Tensor], Tensor]) -> ScaleEvidence:
        """Apply a function to every tensor."""
        axes = None if self.axes is None else Axes(*map(function, self.axes))
        return replace(self, axes=axes, **{name: function(getattr(self, name)) for name in _PER_SLOT})


_PER_SLOT = [item.name for item in fields(ScaleEvidence) if item.name != "axes"]


class Components(NamedTuple):
    """Student-t components with a batch (B): log weights and degrees of freedom (B, M), means, scales."""

    log_weight: Tensor
    mean: Tensor
    scale: Tensor
    nu: Tensor


def leave_one_out(
    components: Components, evidence: ScaleEvidence | None, points: Tensor, weights: Tensor | None
) -> Tensor:
    """Log density (B, n) at points (B, n, d) of the mixtures (B) fitted without them, one at a time.

    The points are the sample, or a part of it, in the coordinates of the mixture, with their ``weights`` (B,
    n), which sum to one over the sample.  Without ``evidence`` the mixture is taken to be a maximum
    likelihood fit to all the points.  Only the `_HOLDERS` slots with the largest responsibilities lose a
    point; the share of the others is negligible.
    """
    if weights is None:
        multiplicity = torch.ones_like(points[..., 0])
    elif evidence is None:
        multiplicity = weights / weights.square().sum(-1, keepdim=True)
    else:
        multiplicity = weights * evidence.count.sum(-1, keepdim=True)
    slots = SlotsSeen.of(components, None if evidence is None else evidence.axes)
    rows = max(1, _CHUNK // (len(points) * (2 * components.nu.shape[-1] + _HOLDERS * points.shape[-1] ** 2)))
    chunks = list(zip(points.split(rows, -2), multiplicity.split(rows, -1), strict=True))
    if evidence is None:
        evidence = ScaleEvidence.of_likelihood(*slots.sums(chunks))
    return torch.cat([slots.without(chunk, share, evidence) for chunk, share in chunks], -1)


class Beside(NamedTuple):
    """What else is known of points (B, k): log densities (B, M, k), and how they change with what is lost.

    ``rows`` (B, M) are all points of the slots, those included whose coordinates are not all there.
    """

    log_density: Tensor
    change: Callable[[Tensor], Tensor]
    rows: Tensor


class SlotsSeen(NamedTuple):
    """A mixture with its precisions (B, M, d, d) along the axes."""

    components: Components
    axes: Axes | None
    natural: Natural
    precision: Tensor

    @classmethod
    def of(cls, components: Components, axes: Axes | None) -> SlotsSeen:
        natural = natural_parameters(components.mean, components.scale)
        precision = natural.precision
        if axes is not None:
            back = axes.inverse.unsqueeze(-3)
            precision = back @ precision @ back.mT
        return cls(components, axes, natural, precision)

    def look(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Squared distances and log densities, weights included, of points (B, k, d): (B, M, k) each."""
        distance = (self.natural.distance @ lift(points)).clamp_min(0)
        peak = self.natural.log_peak.unsqueeze(-1)
        log_density = student_log_density(distance, peak, self.components.nu.unsqueeze(-1), points.shape[-1])
        return distance, self.components.log_weight.unsqueeze(-1) + log_density

    def sums(self, chunks: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """`ScaleEvidence.count` and `ScaleEvidence.mass` of a sample in chunks."""
        nu, dim = self.components.nu.unsqueeze(-1), self.components.mean.shape[-1]
        count = mass = torch.zeros_like(self.components.nu)
        for chunk, multiplicity in chunks:
            distance, terms = self.look(chunk)
            held = terms.softmax(-2) * multiplicity.unsqueeze(-2)
            count = count + held.sum(-1)
            mass = mass + (held * (nu + dim) / (nu + distance)).sum(-1)
        return count, mass

    def without(
        self, points: Tensor, multiplicity: Tensor, evidence: ScaleEvidence, beside: Beside | None = None
    ) -> Tensor:
        """Log densities (B, k) of points (B, k, d), which count ``multiplicity`` (B, k), without them."""
        _, terms = self.look(points)

        def change(held: Tensor) -> Tensor:
            which = held.topk(min(_HOLDERS, held.shape[-2]), -2).indices.mT  # (B, k, h)
            changed = self._downdate(points, which, held.mT.gather(-1, which), evidence)
            return torch.zeros_like(held.mT).scatter_add(-1, which, changed).mT

        count = evidence.count if beside is None else beside.rows
        terms = terms if beside is None else terms + beside.log_density
        changes = [change] if beside is None else [change, beside.change]
        return lose(self.components.log_weight, count, terms, multiplicity, changes)

    def _downdate(self, points: Tensor, which: Tensor, held: Tensor, evidence: ScaleEvidence) -> Tensor:
        """How log densities of slots (B, k, h) change when they lose what they hold of a point."""
        dim = points.shape[-1]
        per_slot = [*(getattr(evidence, name) for name in _PER_SLOT), self.components.nu]
        known = [torch.stack(per_slot, -1), self.components.mean, self.precision.flatten(-2)]
        table = torch.cat(known, -1)  # (B, M, ...): what is known of a slot, to be looked up at once
        first = torch.arange(len(table), device=table.device).view(-1, 1, 1) * table.shape[1]
        taken: Tensor = (
            table.flatten(0, 1).index_select(0, (first + which).flatten()).unflatten(0, which.shape)
        )
        scalars, mean, precision = taken.split([part.shape[-1] for part in known], -1)  # (B, k, h, ...)
        pseudo, inflation, whole, along, ball, count, mass, nu = scalars.unbind(-1)
        count, mass = count.clamp_min(_LEAST), mass.clamp_min(_LEAST)
        offset = points.unsqueeze(-2) - mean  # (B, k, h, d)
        if self.axes is not None:
            offset = offset @ self.axes.matrix.unsqueeze(-3)
        precision = precision.unflatten(-1, (dim, dim))  # (B, k, h, d, d)
        pull = (offset.unsqueeze(-2) @ precision).squeeze(-2)
        # By the offset itself: of a slot that one point makes up, f below is tiny and rounding would count.
        distance = (pull * offset).sum(-1).clamp_min(0)
        weight = held * (nu + dim) / (nu + distance)
        left = _positive(1 - weight / mass)  # f
        step = inflation * weight / left / (count + pseudo)  # b
        lost = (step * along).unsqueeze(-1) * offset.square()  # e
        kept = _positive(1 - lost * precision.diagonal(dim1=-2, dim2=-1))  # h
        new = distance + (lost * pull.square() / kept).sum(-1)
        round_kept = _positive(1 - step * ball * new / dim)
        new = new / round_kept
        rank_one = _positive(1 - whole * step * new)  # q
        fewer = (count - held).clamp_min(0)
        ratio = (count + pseudo) / (fewer + pseudo).clamp_min(_LEAST)
        new = new / (left.square() * rank_one * ratio)
        log_det = kept.log().sum(-1) + rank_one.log() + dim * (round_kept.log() + ratio.log())
        change: Tensor = -0.5 * log_det - 0.5 * (nu + dim) * (
            torch.log1p(new / nu) - torch.log1p(distance / nu)
        )
        return change


def lose(
    log_weight: Tensor,
    count: Tensor,
    terms: Tensor,
    multiplicity: Tensor,
    changes: Sequence[Callable[[Tensor], Tensor]],
) -> Tensor:
    """Log densities (B, k) of points without them, when slots lose what they hold of each.

    Parameters
    ----------
    log_weight, count : (B, M)
    terms : (B, M, k), log densities of the points under the slots, weights included
    multiplicity : (B, k), how often the points count
    changes : from what is held (B, M, k) to what it changes in the terms (B, M, k)
    """
    held = terms.softmax(-2) * multiplicity.unsqueeze(-2)
    left = 1 - held / count.clamp_min(_LEAST).unsqueeze(-1)  # of every slot's count
    left = (left - _ROUNDING).clamp_min(
        _NOTHING
    )  # of a slot with one point nothing is left, but for rounding
    log_total = (log_weight.unsqueeze(-1).exp() * left).sum(-2).log()
    return (terms + left.log() + sum(change(held) for change in changes)).logsumexp(-2) - log_total


def _positive(tensor: Tensor) -> Tensor:
    return tensor.clamp_min(_LEAST)

"""Bounds of columns that are left out of a fit because they follow from others.

They hold for draws and queries like all bounds.  If such a column follows from a single other column, its
bounds carry over to that one.  If the bounds of the others imply them, there is nothing to do.  Otherwise
the density is cut off where it would leave them.  So with shares of a whole: z = 1 - x - y was left out, but
cannot be negative.  There is no mass where x + y > 1, and what is left is scaled up to one.  The closed-form
margins and conditionals of x and y are those of the density before the cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.columns.bounds import FREE, Bound, check_inside
from discoformer.core.checks import DataError, column_names
from discoformer.core.composed import push
from discoformer.core.fields import Density, Estimate, Field
from discoformer.core.transforms import OFF_SUPPORT, At, KeptColumns, Relation, Transform

__all__ = ["Restriction", "Shared", "restrict", "share_bounds"]

_DRAWS = 2**15  # that tell the mass within the bounds: its logarithm to 0.001 where a tenth is cut off
_LEAST = 1e-3  # of the mass: with less inside, the fit contradicts the bounds


class Shared(NamedTuple):
    """Bounds of the kept columns, the transform that leaves out the others, and where to cut off."""

    bounds: list[Bound]
    transform: KeptColumns
    restriction: Restriction | None


def share_bounds(
    points: Tensor, left_out: KeptColumns, bounds: Sequence[Bound], names: Sequence[str] | None = None
) -> Shared:
    """What the bounds of all columns of a sample (..., n, d) mean for those that are kept."""
    kept, relation = points[..., list(left_out.kept)].to(torch.float64), left_out.relation
    inner = [bounds[j] for j in left_out.kept]
    cut: list[int] = []
    for e, column in enumerate(left_out.dropped):
        if bounds[column] == FREE:
            continue
        check_inside(points[..., column], column_names([column], names), *bounds[column])
        slopes, offset, scale = relation.slopes[..., e], relation.offset[..., e], relation.scale[..., e]
        span = kept.amax(-2) - kept.amin(-2)  # (..., k)
        matters = (slopes * span).abs() > OFF_SUPPORT * scale  # (..., k)
        counts = matters.reshape(-1, len(inner)).any(0).nonzero().flatten()
        if len(counts) == 1 and points.ndim == 2:
            j = int(counts)
            implied = [(end - offset) / slopes[j] + relation.center[0, j] for end in bounds[column]]
            inner[j] = _meet(inner[j], sorted(map(float, implied)), kept[:, j])
        elif len(counts) and not _implied(relation, e, inner, counts.tolist(), bounds[column]):
            cut.append(e)
    low, high = (
        torch.tensor([bounds[j][side] for j in left_out.dropped], dtype=torch.float64) for side in (0, 1)
    )
    transform = replace(left_out, ends=(low, high))
    if not cut:
        return Shared(inner, transform, None)
    part = Relation(relation.center, *(tensor[..., cut] for tensor in relation[1:]))
    whole = torch.zeros(points.shape[:-2], dtype=torch.float64)
    return Shared(inner, transform, Restriction(part, low[cut], high[cut], whole))


def restrict(field: Field, restriction: Restriction, before: Sequence[Transform]) -> Field:
    """The field of the kept columns cut off, with its mass where it is a density, behind transforms."""
    if isinstance(field, Density):
        with torch.no_grad():
            draws = field.sample(_DRAWS, torch.Generator(restriction.low.device).manual_seed(0))
        share = restriction.holds(draws).to(torch.float64).mean(-1)
        restriction.check_mass(share)
        restriction = replace(restriction, log_mass=share.log())
    return push(field, [*before, restriction])


def _meet(bound: Bound, other: Sequence[float], x: Tensor) -> Bound:
    """Both bounds of values x (n,); what differs from the end of the sample by rounding alone is that end."""
    first, last = float(x.min()), float(x.max())
    slack = 1e-12 * (last - first) + 1e-14 * max(abs(first), abs(last))
    low = first if other[0] >= first - slack else other[0]
    high = last if other[1] <= last + slack else other[1]
    return max(bound[0], low), min(bound[1], high)


def _implied(relation: Relation, e: int, bounds: Sequence[Bound], counts: Sequence[int], own: Bound) -> bool:
    """Whether a left-out column cannot leave its bounds as long as those it follows from are in theirs."""
    center = relation.center.squeeze(-2)[..., counts]
    slopes, offset = relation.slopes[..., counts, e], relation.offset[..., e].squeeze(-1)
    slack = OFF_SUPPORT * relation.scale[..., e].squeeze(-1)
    low, high = (torch.tensor([bounds[j][side] for j in counts]).to(center) for side in (0, 1))
    ends = torch.stack([slopes * (low - center), slopes * (high - center)])
    least, most = offset + ends.amin(0).sum(-1), offset + ends.amax(0).sum(-1)
    return bool(((least >= own[0] - slack) & (most <= own[1] + slack)).all())


@dataclass(frozen=True)
class Restriction(Transform):
    """No mass where a relation of the columns (..., m, k) leaves its bounds ``low`` and ``high`` (e,).

    Attributes
    ----------
    relation : of e further columns to these k
    low, high : (e,), where these end
    log_mass : (...), logarithm of the mass inside before the cut
    """

    relation: Relation
    low: Tensor
    high: Tensor
    log_mass: Tensor

    @property
    def dim(self) -> int:
        return self.relation.slopes.shape[-2]

    def holds(self, points: Tensor) -> Tensor:
        """Whether points (..., m, k) are within, (..., m)."""
        values, slack = self.relation.complete(points), OFF_SUPPORT * self.relation.scale.to(points)
        return ((values >= self.low.to(points) - slack) & (values <= self.high.to(points) + slack)).all(-1)

    def draw(self, sample: Callable[[int], Tensor], n: int) -> Tensor:
        """The first n points (..., n, k) within, of as many draws as that takes."""
        rows = int(1.1 * n / float(self.log_mass.exp().min())) + 16
        while True:
            points = sample(rows)
            within = self.holds(points)
            if int(within.sum(-1).min()) >= n:
                first = within.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[..., :n]
                return points.gather(-2, first.unsqueeze(-1).expand(*first.shape, points.shape[-1]))
            rows *= 2

    def check_mass(self, share: Tensor) -> None:
        """Raise `DataError` if there is nearly no mass (...) within."""
        if bool((share < _LEAST).any()):
            raise DataError(
                "the fit puts no mass within the bounds of columns left out: leave out their bounds"
            )

    def normalize(self, points: Tensor) -> Tensor:
        return points

    def denormalize(self, points: Tensor) -> Tensor:
        return points

    def score_outside(self, at: At, score: Tensor) -> Tensor:
        return torch.where(self.holds(at.outside).unsqueeze(-1), score, 0.0)

    def estimate_outside(self, at: At, inside: Estimate[Tensor]) -> Estimate[Tensor]:
        log_density = inside.log_density - self.log_mass.to(at.outside).unsqueeze(-1)
        return Estimate(
            torch.where(self.holds(at.outside), log_density, -torch.inf),
            self.score_outside(at, inside.score),
        )

    def select(self, columns: Sequence[int]) -> tuple[Transform | None, list[int]]:
        return None, list(columns)

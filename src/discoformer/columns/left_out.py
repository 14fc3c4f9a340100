"""Bounds of columns that are left out of a fit because they follow from others.

They hold for draws and queries like all bounds.  If such a column follows from a single other column, its
bounds carry over to that one.  If the bounds of the others imply them, there is nothing to do.  Otherwise
the density is cut off where it would leave them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.columns.bounds import FREE, Bound, check_inside
from discoformer.core.checks import column_names
from discoformer.core.fields import Density, Field
from discoformer.core.pushforward import push
from discoformer.core.restriction import Restriction
from discoformer.core.transforms import OFF_SUPPORT, KeptColumns, Relation, Transform

__all__ = ["Shared", "restrict", "share_bounds"]

_DRAWS = 2**15  # that tell the mass within the bounds: its logarithm to 0.001 where a tenth is cut off


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

"""Cutting a sample into folds by geometry alone, so that the order of the rows cannot matter."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.frames import Standardize
from discoformer.models.mixture.landmarks import evenly_by_radius, radial_order

__all__ = ["Part", "by_radius", "hold_out"]


class Part(NamedTuple):
    """Some of the points (..., k, d) and their weights (..., k), or None."""

    points: Tensor
    weights: Tensor | None

    @property
    def first(self) -> Part:
        """Only the first of several parts (parts, ..., k, d)."""
        return Part(self.points[:1], None if self.weights is None else self.weights[:1])


def by_radius(points: Tensor, weights: Tensor | None, limit: int | None = None) -> Part:
    """The points in the order of their standardized radius, or at most ``limit``, evenly spaced in it.

    Parts dealt out in this order all look like the whole, whatever the order of the rows and the units of the
    columns.  With weights, points are chosen by weight and then count equally.
    """
    found = points.detach()
    inside = Standardize().fit(found).normalize(found)
    if limit is None or points.shape[-2] <= limit:
        order = radial_order(inside)
        weights = None if weights is None else weights.gather(-1, order)
    else:
        order, weights = evenly_by_radius(inside, weights, limit), None
    return Part(points.gather(-2, order.unsqueeze(-1).expand(*order.shape, points.shape[-1])), weights)


def hold_out(part: Part, folds: int) -> tuple[Part, Part]:
    """For every fold the points outside (folds, ..., k * (folds - 1), d) and in it (folds, ..., k, d).

    Points are dealt out in order, k to every fold; up to ``folds - 1`` are left over.  Weights outside a fold
    sum to one; those inside are unchanged.

    >>> seen, unseen = hold_out(Part(torch.arange(7.0).unsqueeze(-1), None), 3)
    >>> unseen.points.squeeze(-1).tolist()
    [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    >>> seen.points[0].squeeze(-1).tolist()
    [1.0, 4.0, 2.0, 5.0]
    """
    if folds < 2:
        raise DataError(f"{folds} fold(s): give at least 2, one to hold out and one to fit")
    each = part.points.shape[-2] // folds
    if each == 0:
        raise DataError(f"{part.points.shape[-2]} points are too few for {folds} folds")
    dealt = torch.arange(each * folds, device=part.points.device).reshape(each, folds).T
    rest = torch.stack([torch.cat([dealt[:fold], dealt[fold + 1 :]]).flatten() for fold in range(folds)])

    def take(index: Tensor) -> Part:
        points = part.points[..., index, :].movedim(-3, 0)
        return Part(points, None if part.weights is None else part.weights[..., index].movedim(-2, 0))

    seen, unseen = take(rest), take(dealt)
    if seen.weights is not None:
        total = seen.weights.sum(-1, keepdim=True)
        if not bool((total > 0).all()):
            raise DataError("a fold holds all the weight: nothing is left to fit")
        seen = seen._replace(weights=seen.weights / total)
    return seen, unseen

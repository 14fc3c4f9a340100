"""Cutting a sample into folds by geometry alone, so that the order of the rows cannot matter."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.checks import DataError
from discoformer.frames import Standardize
from discoformer.models.landmarks import even_ranks

__all__ = ["Part", "by_radius", "hold_out"]


class Part(NamedTuple):
    """Some of the points (..., k, d) and their weights (..., k), which sum to one, or None."""

    points: Tensor
    weights: Tensor | None

    @property
    def first(self) -> Part:
        """Only the first of several parts (parts, ..., k, d)."""
        return Part(self.points[:1], None if self.weights is None else self.weights[:1])


def by_radius(points: Tensor, weights: Tensor | None, limit: int | None = None) -> Part:
    """The points in the order of their standardized radius; at most ``limit``, evenly spaced in it.

    Parts that are dealt out in this order all look like the whole, whatever the order of the rows and the
    units of the columns.
    """
    found = points.detach()
    order = Standardize().fit(found).normalize(found).square().sum(-1).argsort(-1)
    if limit is not None:
        order = order[..., even_ranks(order.shape[-1], limit).to(order.device)]
    taken = points.gather(-2, order.unsqueeze(-1).expand(*order.shape, points.shape[-1]))
    return Part(taken, None if weights is None else _normalize(weights.gather(-1, order)))


def hold_out(part: Part, folds: int) -> tuple[Part, Part]:
    """For every fold the points outside (folds, ..., k * (folds - 1), d) and in it (folds, ..., k, d).

    Points are dealt out in their order, every fold the same number k; up to ``folds - 1`` are left over.

    >>> seen, unseen = hold_out(Part(torch.arange(7.0).unsqueeze(-1), None), 3)
    >>> unseen.points.squeeze(-1).tolist()
    [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    >>> seen.points[0].squeeze(-1).tolist()
    [1.0, 4.0, 2.0, 5.0]
    """
    each = part.points.shape[-2] // folds
    if each == 0:
        raise DataError(f"{part.points.shape[-2]} points are too few for {folds} folds")
    dealt = torch.arange(each * folds, device=part.points.device).reshape(each, folds).T
    rest = torch.stack([torch.cat([dealt[:fold], dealt[fold + 1 :]]).flatten() for fold in range(folds)])

    def take(index: Tensor) -> Part:
        points = part.points[..., index, :].movedim(-3, 0)
        if part.weights is None:
            return Part(points, None)
        return Part(points, _normalize(part.weights[..., index].movedim(-2, 0)))

    return take(rest), take(dealt)


def _normalize(weights: Tensor) -> Tensor:
    total = weights.sum(-1, keepdim=True)
    return weights / total.clamp_min(torch.finfo(total.dtype).tiny)  # a fold may hold no weight at all

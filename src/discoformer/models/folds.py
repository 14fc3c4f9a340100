"""Cutting a sample into folds by geometry alone, so that the order of the rows cannot matter."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.frames import Standardize

__all__ = ["Part", "fold_indices", "split_fold"]


class Part(NamedTuple):
    """Some of the points (..., k, d) and their weights (..., k), which sum to one, or None."""

    points: Tensor
    weights: Tensor | None


def fold_indices(points: Tensor, folds: int, limit: int | None = None) -> list[Tensor]:
    """Indices (..., k) of each fold: every ``folds``-th point in the order of standardized radius.

    Every fold then looks like the whole, whatever the order of the rows and the units of the columns.
    With ``limit`` only about so many points are used, evenly spaced in the same order.
    """
    points = points.detach()
    order = Standardize().fit(points).normalize(points).square().sum(-1).argsort(-1)
    if limit is not None:
        order = order[..., :: -(-order.shape[-1] // limit)]
    return [order[..., fold::folds] for fold in range(folds)]


def split_fold(points: Tensor, weights: Tensor | None, parts: list[Tensor], fold: int) -> tuple[Part, Part]:
    """The points outside a fold, and those in it."""
    rest = torch.cat([part for index, part in enumerate(parts) if index != fold], -1)
    return _take(points, weights, rest), _take(points, weights, parts[fold])


def _take(points: Tensor, weights: Tensor | None, index: Tensor) -> Part:
    taken = points.gather(-2, index.unsqueeze(-1).expand(*index.shape, points.shape[-1]))
    if weights is None:
        return Part(taken, None)
    share = weights.gather(-1, index)
    return Part(taken, share / share.sum(-1, keepdim=True))

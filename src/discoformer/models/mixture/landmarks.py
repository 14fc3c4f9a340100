"""Where the slots start: farthest-point landmarks, a geometric rule without randomness.

Only distances decide, so permuting or rotating the sample cannot change which points are chosen.  Ties, as
on a lattice, are broken along a fixed direction, where distances that differ only by rounding count as ties.
So neither the order of the rows nor the last bit decides anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from discoformer.scale.ranks import even_ranks, generic_direction, radius_key

__all__ = [
    "POOL",
    "evenly_by_radius",
    "farthest_in_views",
    "farthest_points",
    "gather_rows",
    "landmark_spacing",
    "pool_of",
    "radial_order",
]

_TIED = 1e-9  # relative difference of distances, and absolute one of places, that rounding can make
POOL = 4096  # farthest points are sought among at most this many


def radial_order(points: Tensor) -> Tensor:
    """Indices (..., n) that sort points (..., n, d) by their radius, those of the same one along a direction.

    >>> radial_order(torch.tensor([[2.0], [1.0], [-1.0]])).tolist()
    [2, 1, 0]
    """
    radius = radius_key(points.square().sum(-1))
    order = radius.argsort(-1)
    if bool((radius.gather(-1, order).diff(dim=-1) != 0).all()):
        return order
    order = (points @ generic_direction(points.shape[-1]).to(points)).argsort(dim=-1, stable=True)
    return order.gather(-1, radius.gather(-1, order).argsort(dim=-1, stable=True))


def evenly_by_radius(points: Tensor, weights: Tensor | None, limit: int) -> Tensor:
    """Indices (..., k) of at most ``limit`` points (..., n, d), evenly spaced in the order of their radius.

    With weights (..., n) they are evenly spaced in weight, so that each stands for the same mass.  There are
    at most as many as the effective sample size.

    >>> points = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    >>> evenly_by_radius(points, torch.tensor([0.0, 0.5, 0.5, 0.0]), 2).tolist()
    [1, 2]
    """
    order = radial_order(points)
    if weights is None or bool((weights == weights[..., :1]).all()):
        return order[..., even_ranks(order.shape[-1], limit).to(order.device)]
    worth = weights.sum(-1).square() / weights.square().sum(-1)
    count = max(1, min(limit, round(float(worth.min()))))
    steps = (torch.arange(count, dtype=weights.dtype, device=weights.device) + 0.5) / count
    along = weights.gather(-1, order).cumsum(-1)
    rank = torch.searchsorted(along, steps * along[..., -1:], right=True)
    return order.gather(-1, rank)


def pool_of(points: Tensor) -> Tensor:
    """The points (B, n, d), or `POOL` of more, evenly by radius: landmarks are sought among them."""
    if points.shape[1] <= POOL:
        return points
    return gather_rows(points, evenly_by_radius(points.detach(), None, POOL))


def farthest_points(points: Tensor, count: int) -> Tensor:
    """Choose ``count`` of the points (B, n, d) greedily, each farthest from those before: (B, count, d).

    Distances are measured after compressing radii, x -> x log(1 + r)/r with r = |x|/sqrt(d), so that
    a few far outliers do not take all the landmarks.

    >>> farthest_points(torch.tensor([[[0.0], [0.1], [2.0], [-1.0]]]), 3).flatten().tolist()
    [0.0, 2.0, -1.0]
    """
    return gather_rows(points, farthest_in_views([points.detach()], [count]))


def gather_rows(points: Tensor, index: Tensor) -> Tensor:
    """Rows (B, k, d) of points (B, n, d) by their numbers (B, k)."""
    return points.gather(1, index.unsqueeze(-1).expand(-1, -1, points.shape[-1]))


def farthest_in_views(views: Sequence[Tensor], counts: Sequence[int]) -> Tensor:
    """Numbers (B, sum of counts) of landmarks, some sought in each view (B, n, d) of the same points.

    Each landmark is the point farthest, in its view and with radii compressed, from all those chosen before
    in either view.  The very first is the point nearest to the center.

    >>> points = torch.tensor([[[0.0], [0.1], [9.0], [-1.0], [-1.1], [1.0], [1.1]]])
    >>> farthest_in_views([points], [2]).tolist()
    [[0, 2]]
    """
    chosen: list[Tensor] = []
    for view, count in zip(views, counts, strict=True):
        radius = view.norm(dim=-1, keepdim=True) / math.sqrt(view.shape[-1])
        compressed = view * (torch.log1p(radius) / radius.clamp_min(1e-6))
        along = compressed @ generic_direction(view.shape[-1]).to(view)  # (B, n): decides ties
        columns = compressed.mT.contiguous()  # (B, d, n): sums over columns run along memory
        distance = torch.full_like(along, torch.inf)
        for index in chosen:
            distance = torch.minimum(distance, _square_distance(columns, index))
        for _ in range(count):
            index = _largest(distance if chosen else -radius.squeeze(-1), along)
            chosen.append(index)
            distance = torch.minimum(distance, _square_distance(columns, index))
    return torch.stack(chosen, 1)


def _largest(values: Tensor, along: Tensor) -> Tensor:
    """Number (B,) of the largest of values (B, n); of those that rounding may have set apart, of ``along``.

    So in a symmetric sample, or one with ties, neither the order of the rows nor the last bit decides.
    """
    most = values.amax(1, keepdim=True)
    tied = values >= most - _TIED * most.abs() - _TIED**2
    return torch.where(tied, along, -torch.inf).argmax(1)


def _square_distance(columns: Tensor, index: Tensor) -> Tensor:
    """From all points, in columns (B, d, n), to the one with the number (B,) given: (B, n)."""
    place = columns.gather(-1, index.view(-1, 1, 1).expand(-1, columns.shape[1], 1))
    return (columns - place).square_().sum(1)


def landmark_spacing(landmarks: Tensor) -> Tensor:
    """Mean distance (B,) from a landmark (B, M, d) to its nearest neighbour; sqrt(d) if alone.

    >>> landmark_spacing(torch.tensor([[[0.0], [1.0], [3.0], [5.0]]])).tolist()
    [1.5]
    """
    count, dim = landmarks.shape[1:]
    if count == 1:
        return torch.full_like(landmarks[:, 0, 0], math.sqrt(dim))
    itself = torch.eye(count, dtype=torch.bool, device=landmarks.device)
    # by differences: products would lose half the digits
    distance = torch.cdist(landmarks, landmarks, compute_mode="donot_use_mm_for_euclid_dist")
    distance = distance.masked_fill(itself, torch.inf)
    return distance.amin(-1).mean(-1)

"""Where the slots start: farthest-point landmarks, a geometric rule without chance.

Only distances decide, so permuting or rotating the sample cannot change the set that is chosen.  Among
points that are equally far, as on a lattice, the first counts: who wants permutations exact there too puts
the points into `radial_order` first, as `discoformer.models.mixture.stack` does.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from discoformer.scale.ranks import even_ranks

__all__ = ["POOL", "evenly_by_radius", "farthest_points", "landmark_spacing", "radial_order"]

POOL = 4096  # farthest points are sought among at most this many


def radial_order(points: Tensor) -> Tensor:
    """Indices (..., n) that sort points (..., n, d) by their radius, those of the same one by coordinates.

    >>> radial_order(torch.tensor([[2.0], [1.0], [-1.0]])).tolist()
    [2, 1, 0]
    """
    radius = points.square().sum(-1)
    order = radius.argsort(-1)
    if bool((radius.gather(-1, order).diff(dim=-1) != 0).all()):
        return order
    for key in (*points.flip(-1).unbind(-1), radius):  # the last key counts most
        order = order.gather(-1, key.gather(-1, order).argsort(stable=True, dim=-1))
    return order


def evenly_by_radius(points: Tensor, weights: Tensor | None, limit: int) -> Tensor:
    """Indices (..., k) of at most ``limit`` points (..., n, d), evenly spaced in the order of their radius.

    With weights (..., n) they are evenly spaced in weight, so that each stands for as much as any other, and
    no more of them than the equally weighted points that the weights are worth.

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


def farthest_points(points: Tensor, count: int) -> Tensor:
    """Choose ``count`` of the points (B, n, d) greedily, each farthest from those before: (B, count, d).

    Distances are measured after compressing radii, x -> x log(1 + r)/r with r = |x|/sqrt(d), so that
    a few far outliers do not take all the landmarks.  Beyond 4096 points the choice is made among
    points evenly spaced in the order of their radius, which again depends on distances only.

    >>> farthest_points(torch.tensor([[[0.0], [0.1], [2.0], [-1.0]]]), 3).flatten().tolist()
    [0.0, 2.0, -1.0]
    """
    index = _choose(points.detach(), count).unsqueeze(-1)
    return points.gather(1, index.expand(-1, -1, points.shape[-1]))


def _choose(points: Tensor, count: int) -> Tensor:
    """Indices (B, count) of the landmarks."""
    dim = points.shape[-1]
    radius = points.norm(dim=-1, keepdim=True) / math.sqrt(dim)
    if points.shape[1] > POOL:
        pool = evenly_by_radius(points, None, POOL)
        picked = pool.unsqueeze(-1)
        points, radius = points.gather(1, picked.expand(-1, -1, dim)), radius.gather(1, picked)
    else:
        pool = None
    compressed = points * (torch.log1p(radius) / radius.clamp_min(1e-6))
    batch = torch.arange(len(points), device=points.device)
    index = radius.squeeze(-1).argmin(1)
    chosen = [index]
    distance = torch.full_like(radius.squeeze(-1), torch.inf)
    for _ in range(count - 1):
        offset = compressed - compressed[batch, index].unsqueeze(1)
        distance = torch.minimum(distance, offset.square().sum(-1))
        index = distance.argmax(1)
        chosen.append(index)
    result = torch.stack(chosen, 1)
    return result if pool is None else pool.gather(1, result)


def landmark_spacing(landmarks: Tensor) -> Tensor:
    """Mean distance (B,) from a landmark (B, M, d) to its nearest neighbour; sqrt(d) if alone.

    >>> landmark_spacing(torch.tensor([[[0.0], [1.0], [3.0], [5.0]]])).tolist()
    [1.5]
    """
    count, dim = landmarks.shape[1:]
    if count == 1:
        return torch.full_like(landmarks[:, 0, 0], math.sqrt(dim))
    itself = torch.eye(count, dtype=torch.bool, device=landmarks.device)
    distance = torch.cdist(landmarks, landmarks).masked_fill(itself, torch.inf)
    return distance.amin(-1).mean(-1)

"""Outlines of the set where a density of two columns is at least a level, by marching squares.

Between neighbouring points of a grid, of which one is inside, the outline crosses where the log density is
the level by linear interpolation.  Every cell links the crossings on its sides, and the links close to
polygons, since everything beyond the grid counts as outside.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.core.fields import PointDensity

__all__ = ["outlines"]

_STEPS = 96  # of the grid, in both columns
_MARGIN = 0.1  # of the grid around the draws inside
_FAR = 50.0  # what is further below the level in logarithms is as good as that

Crossing = tuple[int, int, int]  # 0 for a side along the first column, 1 for one along the second; its corner


def outlines(density: PointDensity, level: float, points: Tensor) -> list[NDArray[np.float64]]:
    """Closed polygons (k, 2), the first point again at the end, around where the log density is a level.

    Parameters
    ----------
    density : of two columns
    level : a log density
    points : (m, 2), draws; the grid covers those inside

    >>> from discoformer.baselines.kde import KDE
    >>> field = KDE(1.0).fit([[0.0, 0.0], [0.0, 0.0]])
    >>> draws = field.sample(1000, torch.Generator().manual_seed(0))
    >>> level = float(field.log_density(torch.tensor([[2.0, 0.0]], dtype=torch.float64)))
    >>> [circle] = outlines(field, level, draws)
    >>> bool((abs(np.hypot(*circle.T) - 2) < 0.01).all())
    True
    """
    held = points[density.log_density(points) >= level].numpy()
    x, y = (_grid(column) for column in held.T)
    mesh = torch.from_numpy(np.stack(np.meshgrid(x, y), -1).reshape(-1, 2))
    height = np.clip(density.log_density(mesh).numpy() - level, -_FAR, _FAR).reshape(len(y), len(x))
    height = np.pad(height, 1, constant_values=-_FAR)
    x, y = (np.concatenate([grid[:1], grid, grid[-1:]]) for grid in (x, y))
    links = _links(height)
    found = []
    while links:
        first = current = next(iter(links))
        polygon = []
        while current in links:
            polygon.append(_place(current, height, x, y))
            ahead = links.pop(current)
            current = next((crossing for crossing in ahead if crossing in links), first)
        found.append(np.array([*polygon, polygon[0]]))
    return found


def _grid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    low, high = values.min(), values.max()
    margin = _MARGIN * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, _STEPS)


def _links(height: NDArray[np.float64]) -> dict[Crossing, list[Crossing]]:
    """The two crossings that every crossing is linked with."""
    inside = height >= 0
    corners = np.stack([inside[:-1, :-1], inside[:-1, 1:], inside[1:, 1:], inside[1:, :-1]], -1)
    links: dict[Crossing, list[Crossing]] = {}
    for i, j in np.argwhere(corners.any(-1) & ~corners.all(-1)).tolist():
        around = corners[i, j]
        sides = [(0, i, j), (1, i, j + 1), (0, i + 1, j), (1, i, j)]
        cut = [sides[k] for k in range(4) if around[k] != around[(k + 1) % 4]]
        if len(cut) == 4 and (height[i : i + 2, j : j + 2].mean() >= 0) != around[0]:
            cut = [*cut[3:], *cut[:3]]  # a saddle: its middle says which corners belong together
        for one, other in zip(cut[::2], cut[1::2], strict=True):
            links.setdefault(one, []).append(other)
            links.setdefault(other, []).append(one)
    return links


def _place(
    crossing: Crossing, height: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.float64]
) -> tuple[float, float]:
    along, i, j = crossing
    k, m = (i + 1, j) if along else (i, j + 1)
    part = height[i, j] / (height[i, j] - height[k, m])
    return float(x[j] + part * (x[m] - x[j])), float(y[i] + part * (y[k] - y[i]))

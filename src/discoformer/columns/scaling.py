"""Columns with gaps in units of their own spread, which is that of what is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from discoformer.core.transforms import ColumnMap, ColumnMaps

__all__ = ["Scaling", "fit_scaling"]


@dataclass(frozen=True)
class Scaling(ColumnMap):
    """u = (x - center) / scale."""

    center: Tensor
    scale: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.center) / self.scale

    def inverse(self, u: Tensor) -> Tensor:
        return self.center + self.scale * u

    def log_derivative(self, x: Tensor, u: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return -self.scale.log().expand_as(x), torch.zeros_like(x)


def fit_scaling(points: Tensor, weights: Tensor | None, periods: Sequence[float]) -> ColumnMaps:
    """Maps of the first columns of points (n, d), NaN where there is a gap, to mean zero and variance one.

    A column with a period is a circle, which still begins at zero.

    >>> maps = fit_scaling(torch.tensor([[1.0], [torch.nan], [3.0]], dtype=torch.float64), None, [0.0])
    >>> maps.normalize(torch.tensor([[2.0], [4.0]], dtype=torch.float64)).tolist()
    [[0.0], [2.0]]
    """
    free = torch.tensor(torch.inf, dtype=points.dtype, device=points.device)
    maps: dict[int, ColumnMap] = {}
    for j, period in enumerate(periods):
        there = ~points[:, j].isnan()
        x = points[there, j]
        share = torch.full_like(x, 1 / len(x)) if weights is None else weights[there] / weights[there].sum()
        middle = 0.5 * (x.amin() + x.amax())  # guards the squares against overflow
        width = (x - middle).abs().amax()
        unit = (x - middle) / width
        mean = (share * unit).sum()
        spread = (share * (unit - mean).square()).sum().sqrt()
        center = torch.zeros_like(mean) if period else middle + width * mean
        maps[j] = Scaling(-free, free, center, width * spread)
    return ColumnMaps(maps, points.shape[-1])

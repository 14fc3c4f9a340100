"""A ring in the plane, by a change to polar coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate
from discoformer.priors.base import Distribution

__all__ = ["Ring"]


@dataclass(frozen=True, eq=False)
class Ring(Distribution):
    """Angle uniform, log r ~ N(log R, s^2), so that with u = (log r - log R) / s and phi the normal density

        f(y) = phi(u) / (2 pi s r^2),    score(y) = -(u / s + 2) y / r^2.

    Parameters
    ----------
    radius : R, (...), positive
    width : s, (...), positive: the width of the ring relative to its radius.

    >>> ring = Ring(torch.tensor(2.0), torch.tensor(0.1))
    >>> ring.sample(100, torch.Generator().manual_seed(0)).norm(dim=-1).median().round().item()
    2.0
    """

    radius: Tensor
    width: Tensor

    def __post_init__(self) -> None:
        if self.radius.shape != self.width.shape:
            raise DataError(
                f"radius {tuple(self.radius.shape)} and width {tuple(self.width.shape)} "
                "of a Ring need the same shape"
            )
        if not bool((self.radius > 0).all() and (self.width > 0).all()):
            raise DataError("radius and width of a Ring must be positive")

    @property
    def dim(self) -> int:
        return 2

    @property
    def batch_shape(self) -> torch.Size:
        return self.radius.shape

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        radius, width = self.radius.unsqueeze(-1), self.width.unsqueeze(-1)
        shape, dtype = (*self.batch_shape, n), radius.dtype
        r = radius * torch.exp(width * torch.randn(shape, generator=generator, dtype=dtype))
        angle = 2 * math.pi * torch.rand(shape, generator=generator, dtype=dtype)
        return torch.stack([r * angle.cos(), r * angle.sin()], -1)

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        radius, width = self.radius.to(queries).unsqueeze(-1), self.width.to(queries).unsqueeze(-1)
        # r = peak |unit|: squares of the unit vector neither overflow nor vanish, however far or near.  The
        # density vanishes at the center faster than any power; the clamps keep log r finite there.
        peak = queries.detach().abs().amax(-1, keepdim=True).clamp_min(torch.finfo(queries.dtype).tiny)
        unit = queries / peak
        squared = unit.square().sum(-1, keepdim=True).clamp_min(1)
        log_r = (peak.log() + 0.5 * squared.log()).squeeze(-1)
        u = (log_r - radius.log()) / width
        log_density = -0.5 * u.square() - 1.5 * math.log(2 * math.pi) - width.log() - 2 * log_r
        # Dividing the point first gives 0, not 0 times infinity, at the center.
        return Estimate(log_density, unit / squared / peak * -(u / width + 2).unsqueeze(-1))

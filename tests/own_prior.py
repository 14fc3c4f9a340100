"""A prior as a user would write one: for the tests that name it by its import path."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from discoformer.priors import OwnPrior


class Stripes:
    """x is standard normal times a scale, y = sin(3 x + phase) + noise: no mixture of few Gaussians."""

    noise = 0.15

    def __init__(self, phase: Tensor) -> None:
        self.phase = phase  # (batch, 1)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        normal = torch.randn(len(self.phase), n, 2, generator=generator, dtype=self.phase.dtype)
        x = normal[..., 0]
        return torch.stack([x, torch.sin(3 * x + self.phase) + self.noise * normal[..., 1]], -1)

    def log_density(self, points: Tensor) -> Tensor:
        x, y = points.unbind(-1)
        residual = (y - torch.sin(3 * x + self.phase.to(points))) / self.noise
        return -0.5 * (x.square() + residual.square()) - math.log(2 * math.pi * self.noise)


@dataclass(frozen=True)
class StripePrior(OwnPrior):
    turn: float = 1.0

    def distributions(
        self, batch: int, dim: int, generator: torch.Generator | None, dtype: torch.dtype
    ) -> Stripes:
        return Stripes(self.turn * 2 * math.pi * torch.rand(batch, 1, generator=generator, dtype=dtype))

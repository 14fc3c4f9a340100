"""Standardized families on R^d: centered, without parameters of location and scale.

Each one samples and answers log density and score in closed form; `LocationScaleMixture` gives
them location, scale and rotation.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.private import standard_gamma

__all__ = ["Family", "Laplace", "Logistic", "Normal", "Quartic", "StudentT"]


class Family(ABC):
    """A centered distribution on R^d, for any d.

    >>> family = StudentT(3.0)
    >>> points = family.sample((5, 2), torch.Generator().manual_seed(0), torch.float64)
    >>> log_density, score = family.estimate(points)
    >>> log_density.shape, score.shape
    (torch.Size([5]), torch.Size([5, 2]))
    """

    @abstractmethod
    def sample(self, shape: Sequence[int], generator: torch.Generator | None, dtype: torch.dtype) -> Tensor:
        """Independent points; the last entry of ``shape`` is d."""

    @abstractmethod
    def estimate(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Log density (...) and score (..., d) at points (..., d)."""


@dataclass(frozen=True)
class Normal(Family):
    """The standard Gaussian."""

    def sample(self, shape: Sequence[int], generator: torch.Generator | None, dtype: torch.dtype) -> Tensor:
        return torch.randn(tuple(shape), generator=generator, dtype=dtype)

    def estimate(self, points: Tensor) -> tuple[Tensor, Tensor]:
        constant = 0.5 * points.shape[-1] * math.log(2 * math.pi)
        return -0.5 * points.square().sum(-1) - constant, -points


@dataclass(frozen=True)
class Laplace(Family):
    """Independent Laplace coordinates of unit variance, exp(-sqrt(2)|t|) / sqrt(2); the score is 0 at t=0."""

    def sample(self, shape: Sequence[int], generator: torch.Generator | None, dtype: torch.dtype) -> Tensor:
        # A difference of exponentials needs no logarithm of a uniform, which is infinite at 0.
        first = _exponential(shape, generator, dtype)
        return (first - _exponential(shape, generator, dtype)) / math.sqrt(2)

    def estimate(self, points: Tensor) -> tuple[Tensor, Tensor]:
        root = math.sqrt(2)
        constant = 0.5 * points.shape[-1] * math.log(2)
        return -root * points.abs().sum(-1) - constant, -root * points.sign()


@dataclass(frozen=True)
class Logistic(Family):
    """Independent logistic coordinates of unit variance."""

    def sample(self, shape: Sequence[int], generator: torch.Generator | None, dtype: torch.dtype) -> Tensor:
        # The log ratio of two exponentials is logistic; an exponential rounded to 0 stays finite.
        tiny = torch.finfo(dtype).tiny
        first = _exponential(shape, generator, dtype).clamp_min(tiny).log()
        second = _exponential(shape, generator, dtype).clamp_min(tiny).log()
        return (first - second) * (math.sqrt(3) / math.pi)

    def estimate(self, points: Tensor) -> tuple[Tensor, Tensor]:
        rate = math.pi / math.sqrt(3)
        magnitude = rate * points.abs()
        tail = torch.exp(-magnitude)  # one exponential serves both: tanh(y / 2) = (1 - e^-y) / (1 + e^-y)
        log_density = points.shape[-1] * math.log(rate) - (magnitude + 2 * torch.log1p(tail)).sum(-1)
        return log_density, -rate * points.sign() * (1 - tail) / (1 + tail)


@dataclass(frozen=True)
class StudentT(Family):
    """The multivariate (elliptical) Student t with identity scale matrix.

    The covariance is nu / (nu - 2) times the identity for nu > 2 and infinite below.

    Parameters
    ----------
    nu : float
        Degrees of freedom, positive.
    """

    nu: float

    def __post_init__(self) -> None:
        if not self.nu > 0:
            raise DataError(f"degrees of freedom nu = {self.nu} must be positive")

    def sample(self, shape: Sequence[int], generator: torch.Generator | None, dtype: torch.dtype) -> Tensor:
        normal = torch.randn(tuple(shape), generator=generator, dtype=dtype)
        gamma = _gamma(0.5 * self.nu, (*shape[:-1], 1), generator, dtype)
        # Only for nu well below 1 does a gamma variate underflow; the point is then finite and far out.
        return normal * (2 * gamma.clamp_min(torch.finfo(dtype).tiny) / self.nu).rsqrt()

    def estimate(self, points: Tensor) -> tuple[Tensor, Tensor]:
        nu, dim = self.nu, points.shape[-1]
        # With z = x / sqrt(nu), 1 + |z|^2 = p^2 (|z / p|^2 + 1 / p^2) for any p.  The largest |z_i| as p
        # keeps the squares of far points finite; p is 1 near the center, where log1p keeps the digits.
        standard = points / math.sqrt(nu)
        peak = standard.detach().abs().amax(-1, keepdim=True).clamp_min(1)
        unit = standard / peak
        excess = unit.square().sum(-1, keepdim=True) + (peak**-2 - 1)
        constant = math.lgamma((nu + dim) / 2) - math.lgamma(nu / 2) - 0.5 * dim * math.log(nu * math.pi)
        log_density = constant - 0.5 * (nu + dim) * (torch.log1p(excess) + 2 * peak.log()).squeeze(-1)
        return log_density, unit / peak * (-(nu + dim) / math.sqrt(nu) / (1 + excess))


@dataclass(frozen=True)
class Quartic(Family):
    """Independent coordinates with density exp(-t^4) / (2 Gamma(5/4)): almost a box, with light tails."""

    def sample(self, shape: Sequence[int], generator: torch.Generator | None, dtype: torch.dtype) -> Tensor:
        magnitude = _gamma(0.25, shape, generator, dtype) ** 0.25
        sign = torch.randint(0, 2, tuple(shape), generator=generator, dtype=dtype) * 2 - 1
        return sign * magnitude

    def estimate(self, points: Tensor) -> tuple[Tensor, Tensor]:
        constant = points.shape[-1] * (math.log(2) + math.lgamma(1.25))
        cubed = points**3
        return -(cubed * points).sum(-1) - constant, -4 * cubed


def _exponential(shape: Sequence[int], generator: torch.Generator | None, dtype: torch.dtype) -> Tensor:
    # By inversion, several times faster than `exponential_`; the uniform is below 1, so this is finite.
    return -torch.log1p(-torch.rand(tuple(shape), generator=generator, dtype=dtype))


def _gamma(
    concentration: float, shape: Sequence[int], generator: torch.Generator | None, dtype: torch.dtype
) -> Tensor:
    return standard_gamma(torch.full(tuple(shape), concentration, dtype=dtype), generator)

"""Smooth invertible maps with exact Jacobians, and distributions bent by them.

If x has density f and y = warp(x) with Jacobian J(x) = dy/dx, then at y = warp(x)

    log density(y) = log f(x) - log|det J(x)|,    score(y) = J(x)^(-T) (score_f(x) - grad log|det J(x)|).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate
from discoformer.priors.base import Derived

__all__ = ["Affine", "Banana", "Linear", "Rotated", "Skew", "Warp", "Warped"]


class Warp(ABC):
    """An invertible map of R^d; parameters carry the batch dimensions of the distribution."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Map x (..., n, d) to y."""

    @abstractmethod
    def inverse(self, y: Tensor) -> Tensor:
        """Map y (..., n, d) back to x."""

    @abstractmethod
    def _push(self, x: Tensor, y: Tensor, log_density: Tensor, score: Tensor) -> tuple[Tensor, Tensor]:
        """Log density and score at y = forward(x), from those of the base at x."""


@dataclass(frozen=True, eq=False)
class Warped(Derived):
    """The distribution of ``warp.forward(x)`` for x from ``base``.

    >>> from discoformer.priors.location_scale import gaussian
    >>> bent = Warped(gaussian(torch.zeros(2), torch.eye(2)), Banana(torch.tensor(0.5), torch.tensor(1.0)))
    >>> bent.sample(3, torch.Generator().manual_seed(0)).shape
    torch.Size([3, 2])
    >>> bent.score(torch.tensor([[0.0, -0.5]])).abs().tolist()  # the top of the banana
    [[0.0, 0.0]]
    """

    warp: Warp

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        return self.warp.forward(self.base.sample(n, generator))

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        x = self.warp.inverse(queries)
        log_density, score = self.base._estimate(x)
        assert log_density is not None  # every distribution knows its density
        return Estimate(*self.warp._push(x, queries, log_density, score))


@dataclass(frozen=True, eq=False)
class Skew(Warp):
    """Sinh-arcsinh skew of every coordinate, y = c sinh(asinh(x / c) + s).

    Far out on the right the map stretches by exp(s), on the left it shrinks by exp(-s), and the other
    way round for negative s; tails keep their kind.

    Parameters
    ----------
    strength : s, (..., d)
    scale : c, (..., d), positive: where the map turns from one slope to the other.
    """

    strength: Tensor
    scale: Tensor

    def __post_init__(self) -> None:
        if not bool((self.scale > 0).all()):
            raise DataError("scale of a Skew must be positive")

    def _map(self, points: Tensor, sign: int) -> Tensor:
        scale, strength = self.scale.to(points).unsqueeze(-2), self.strength.to(points).unsqueeze(-2)
        return scale * torch.sinh(torch.asinh(points / scale) + sign * strength)

    def forward(self, x: Tensor) -> Tensor:
        return self._map(x, 1)

    def inverse(self, y: Tensor) -> Tensor:
        return self._map(y, -1)

    def _push(self, x: Tensor, y: Tensor, log_density: Tensor, score: Tensor) -> tuple[Tensor, Tensor]:
        # J = sqrt(c^2 + y^2) / sqrt(c^2 + x^2), so d log J / dx = J y / (c^2 + y^2) - x / (c^2 + x^2).
        squared = self.scale.to(y).square().unsqueeze(-2)
        at_x, at_y = squared + x.square(), squared + y.square()
        jacobian = (at_y / at_x).sqrt()
        return (
            log_density - jacobian.log().sum(-1),
            (score + x / at_x) / jacobian - y / at_y,
        )


@dataclass(frozen=True, eq=False)
class Banana(Warp):
    """One coordinate bends another, y_target = x_target + b (x_source^2 / c - c); the Jacobian is one.

    Parameters
    ----------
    strength : b, (...)
    scale : c, (...), positive; about the spread of the source coordinate, whose square it centers.
    source, target : the two columns, different.
    """

    strength: Tensor
    scale: Tensor
    source: int = 0
    target: int = 1

    def __post_init__(self) -> None:
        if self.source == self.target or min(self.source, self.target) < 0:
            raise DataError(
                f"source {self.source} and target {self.target} must be two different column numbers"
            )
        if not bool((self.scale > 0).all()):
            raise DataError("scale of a Banana must be positive")

    def _map(self, points: Tensor, sign: int) -> Tensor:
        if points.shape[-1] <= max(self.source, self.target):
            raise DataError(
                f"columns {self.source} and {self.target} of a Banana need more than "
                f"{points.shape[-1]} column(s)"
            )
        strength, scale = self.strength.to(points).unsqueeze(-1), self.scale.to(points).unsqueeze(-1)
        bend = strength * (points[..., self.source].square() / scale - scale)
        return points + sign * bend.unsqueeze(-1) * _unit_vector(points, self.target)

    def forward(self, x: Tensor) -> Tensor:
        return self._map(x, 1)

    def inverse(self, y: Tensor) -> Tensor:
        return self._map(y, -1)

    def _push(self, x: Tensor, y: Tensor, log_density: Tensor, score: Tensor) -> tuple[Tensor, Tensor]:
        strength, scale = self.strength.to(y).unsqueeze(-1), self.scale.to(y).unsqueeze(-1)
        slope = 2 * strength / scale * x[..., self.source]
        moved = (slope * score[..., self.target]).unsqueeze(-1) * _unit_vector(score, self.source)
        return log_density, score - moved


@dataclass(frozen=True, eq=False)
class Rotated(Warp):
    """The orthogonal map y = Q x with Q (..., d, d): bends and skews along any direction."""

    rotation: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.rotation.to(x).mT

    def inverse(self, y: Tensor) -> Tensor:
        return y @ self.rotation.to(y)

    def _push(self, x: Tensor, y: Tensor, log_density: Tensor, score: Tensor) -> tuple[Tensor, Tensor]:
        return log_density, score @ self.rotation.to(y).mT


@dataclass(frozen=True, eq=False)
class Affine(Warp):
    """y = scale * x + shift per coordinate, both (..., d), scales positive."""

    scale: Tensor
    shift: Tensor

    def __post_init__(self) -> None:
        if not bool((self.scale > 0).all()):
            raise DataError("scale of an Affine must be positive")

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale.to(x).unsqueeze(-2) + self.shift.to(x).unsqueeze(-2)

    def inverse(self, y: Tensor) -> Tensor:
        return (y - self.shift.to(y).unsqueeze(-2)) / self.scale.to(y).unsqueeze(-2)

    def _push(self, x: Tensor, y: Tensor, log_density: Tensor, score: Tensor) -> tuple[Tensor, Tensor]:
        scale = self.scale.to(y)
        return log_density - scale.log().sum(-1, keepdim=True), score / scale.unsqueeze(-2)


@dataclass(frozen=True, eq=False)
class Linear(Warp):
    """y = M x with any invertible M (..., d, d): correlations of any strength, columns in any order.

    The inverse is found once and in double precision, so that columns may be all but collinear.

    >>> shear = Linear(torch.tensor([[1.0, 0.0], [0.9, 0.1]]))
    >>> shear.inverse(shear.forward(torch.tensor([[1.0, 2.0]]))).round(decimals=4).tolist()
    [[1.0, 2.0]]
    """

    matrix: Tensor

    def __post_init__(self) -> None:
        if self.matrix.ndim < 2 or self.matrix.shape[-1] != self.matrix.shape[-2]:
            raise DataError(f"matrix of a Linear must be square, not {tuple(self.matrix.shape)}")
        if not bool((torch.linalg.slogdet(self.matrix.double())[0] != 0).all()):
            raise DataError("matrix of a Linear is singular: its columns must be independent")

    @cached_property
    def _inverse(self) -> Tensor:
        inverse: Tensor = torch.linalg.inv(self.matrix.double())
        return inverse

    @cached_property
    def _log_det(self) -> Tensor:
        log_det: Tensor = torch.linalg.slogdet(self.matrix.double())[1]
        return log_det.unsqueeze(-1)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.matrix.to(x).mT

    def inverse(self, y: Tensor) -> Tensor:
        return y @ self._inverse.to(y).mT

    def _push(self, x: Tensor, y: Tensor, log_density: Tensor, score: Tensor) -> tuple[Tensor, Tensor]:
        return log_density - self._log_det.to(y), score @ self._inverse.to(y)


def _unit_vector(like: Tensor, column: int) -> Tensor:
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)[column]

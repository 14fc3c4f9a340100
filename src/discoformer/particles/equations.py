"""Equations as small objects: a velocity from positions and scores.

A deterministic particle method writes a kinetic equation as transport, df/dt + div(f u) = 0, with a
velocity u that depends on f through its score s = grad log f.  An equation is that velocity:

    Fokker-Planck   df/dt = -div(f b) + D lap f        u = b(x) - D s
    Landau          df/dt = div int A(v-w) (...) dw    u = -(1/n) sum_j A(v - v_j) (s - s_j)

Bring your own by deriving from `Equation`; `velocity` is all it must define.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.particles.collisions import STRENGTH, maxwell_velocity, pair_velocity

__all__ = ["DoubleWell", "Equation", "FokkerPlanck", "Landau", "OrnsteinUhlenbeck"]


class Equation(ABC):
    """A transport equation whose velocity needs the score of the density it transports."""

    @property
    def name(self) -> str:
        """Name in reports and checkpoints."""
        return type(self).__name__

    @abstractmethod
    def velocity(self, points: Tensor, scores: Tensor) -> Tensor:
        """Velocity (..., n, d) of particles at ``points`` (..., n, d) with ``scores`` (..., n, d)."""

    def energy(self, points: Tensor) -> Tensor:
        """Mean energy per particle (...): kinetic, |x|^2 / 2, unless the equation overrides it."""
        return 0.5 * points.square().sum(-1).mean(-1)


class FokkerPlanck(Equation):
    """Drift and diffusion: dX = b(X) dt + sqrt(2 D) dW, as transport u = b(x) - D s.

    Parameters
    ----------
    drift : function of points (..., n, d) that returns b, same shape
    diffusion : D, a number or a symmetric matrix (d, d)
    potential : function of points that returns V (..., n), if b = -grad V; then the energy is E[V]

    >>> free = FokkerPlanck(drift=torch.zeros_like, diffusion=0.5)
    >>> free.velocity(torch.ones(1, 2), torch.tensor([[2.0, -2.0]])).tolist()
    [[-1.0, 1.0]]
    """

    def __init__(
        self,
        drift: Callable[[Tensor], Tensor],
        diffusion: float | Tensor = 1.0,
        potential: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        matrix = torch.as_tensor(diffusion, dtype=torch.float64)
        if not bool(torch.isfinite(matrix).all()) or matrix.ndim not in (0, 2):
            raise DataError("diffusion must be a finite number or a matrix (d, d)")
        if not torch.equal(matrix, matrix.mT if matrix.ndim else matrix):
            raise DataError("the diffusion matrix must be symmetric")
        lowest = torch.linalg.eigvalsh(matrix)[0] if matrix.ndim else matrix
        if float(lowest) < 0:
            raise DataError("diffusion must not be negative: the equation would be ill-posed")
        self.drift = drift
        self.diffusion = matrix
        self.potential = potential

    def velocity(self, points: Tensor, scores: Tensor) -> Tensor:
        diffusion = self.diffusion.to(scores)
        if diffusion.ndim and diffusion.shape[-1] != points.shape[-1]:
            raise DataError(
                f"the diffusion matrix has {diffusion.shape[-1]} columns, the particles {points.shape[-1]}"
            )
        spread = scores @ diffusion if diffusion.ndim else scores * diffusion
        return self.drift(points) - spread

    def energy(self, points: Tensor) -> Tensor:
        """E[V] if the potential is known, else E|x|^2 / 2."""
        return super().energy(points) if self.potential is None else self.potential(points).mean(-1)


class OrnsteinUhlenbeck(FokkerPlanck):
    """Linear drift to a center, b(x) = -rate (x - center); the stationary law is N(center, (D / rate) I).

    >>> OrnsteinUhlenbeck(rate=2.0).velocity(torch.ones(1, 1), -torch.ones(1, 1)).tolist()
    [[-1.0]]
    """

    def __init__(self, rate: float = 1.0, diffusion: float = 1.0, center: float | Tensor = 0.0) -> None:
        if not rate > 0:
            raise DataError(f"rate is {rate}, but only a positive one has a steady state")
        self.rate = rate
        self.center = torch.as_tensor(center, dtype=torch.float64)
        super().__init__(self._drift, diffusion, self._potential)

    def _drift(self, points: Tensor) -> Tensor:
        return -self.rate * (points - self.center.to(points))

    def _potential(self, points: Tensor) -> Tensor:
        return 0.5 * self.rate * (points - self.center.to(points)).square().sum(-1)


class DoubleWell(FokkerPlanck):
    """Two wells at +-1 along the first axis: V(x) = height (x_1^2 - 1)^2 + stiffness/2 sum_{k>1} x_k^2.

    >>> DoubleWell().velocity(torch.tensor([[-1.0, 2.0]]), torch.zeros(1, 2)).tolist()
    [[-0.0, -2.0]]
    """

    def __init__(self, height: float = 1.0, diffusion: float = 1.0, stiffness: float = 1.0) -> None:
        if not (height > 0 and stiffness > 0):
            raise DataError("height and stiffness must be positive: otherwise the particles run away")
        self.height = height
        self.stiffness = stiffness
        super().__init__(self._drift, diffusion, self._potential)

    def _drift(self, points: Tensor) -> Tensor:
        first, rest = points[..., :1], points[..., 1:]
        return torch.cat([4 * self.height * first * (1 - first.square()), -self.stiffness * rest], -1)

    def _potential(self, points: Tensor) -> Tensor:
        first, rest = points[..., 0], points[..., 1:]
        return self.height * (first.square() - 1).square() + 0.5 * self.stiffness * rest.square().sum(-1)


class Landau(Equation):
    """Homogeneous Landau equation with the kernel A(z) = C |z|^gamma (|z|^2 I - z z'), d >= 2.

    Momentum is conserved, and so is energy up to the time step: forward Euler adds dt^2 / 2 E|u|^2 per
    step.  `name` names Maxwell (gamma 0) and Coulomb (gamma -3), and gives C if it is not the paper's 1/24.

    Parameters
    ----------
    gamma : power of the distance; 0 is computed by moments in O(n d^2), others by pairs in O(n^2 d)
    strength : C

    >>> Landau(gamma=-3).name, Landau().name, Landau(gamma=-2, strength=0.5).name
    ('Landau Coulomb', 'Landau Maxwell', 'Landau gamma=-2 C=0.5')
    """

    def __init__(self, gamma: float = 0.0, strength: float = STRENGTH) -> None:
        if not strength > 0:
            raise DataError(f"the collision strength C is {strength}, it must be positive")
        if not math.isfinite(gamma):
            raise DataError(f"gamma is {gamma}, it must be a number: 0 for Maxwell, -3 for Coulomb")
        self.gamma = gamma
        self.strength = strength

    @property
    def name(self) -> str:
        kind = {0.0: "Maxwell", -3.0: "Coulomb"}.get(float(self.gamma), f"gamma={self.gamma:g}")
        return f"Landau {kind}" + (f" C={self.strength:g}" if self.strength != STRENGTH else "")

    def velocity(self, points: Tensor, scores: Tensor) -> Tensor:
        if points.shape[-1] < 2:
            raise DataError("Landau collisions need at least 2 dimensions: in one, nothing can scatter")
        if points.shape != scores.shape:
            raise DataError(f"scores {tuple(scores.shape)} do not match points {tuple(points.shape)}")
        if self.gamma == 0:
            return maxwell_velocity(points, scores, self.strength)
        return pair_velocity(points, scores, self.gamma, self.strength)

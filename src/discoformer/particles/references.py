"""Solutions known in closed form, to judge particles by.

- Maxwell molecules: the covariance of *any* solution relaxes exponentially (`maxwell_covariance`).
- Maxwell molecules, isotropic: a solution in full, due to Bobylev, Krook and Wu (`BKW`).
- Ornstein-Uhlenbeck: a Gaussian mixture stays one, with moving means and variances.

For Coulomb collisions there is no closed form: see `discoformer.particles.monte_carlo`.  A Gaussian does
*not* stay Gaussian under Landau collisions, so -S(t)^-1 v is the exact score at the start only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from discoformer.core.checks import DataError, check_points
from discoformer.core.fields import Estimate
from discoformer.core.frames import Whiten
from discoformer.particles.collisions import STRENGTH
from discoformer.particles.history import covariance
from discoformer.priors import Distribution, LocationScaleMixture, Normal

__all__ = [
    "BKW",
    "STARTS",
    "landau_start",
    "match_moments",
    "maxwell_covariance",
    "ornstein_uhlenbeck",
    "ornstein_uhlenbeck_covariance",
]

STARTS = ("gaussian", "two-mode")


def landau_start(kind: str, dim: int) -> LocationScaleMixture:
    """The paper's anisotropic start: variances 1.8, 0.2, 1, ..., 1, as one Gaussian or as two modes.

    The two modes 1/2 N(+-e_1, diag(.8, .2, 1, ...)) have the covariance of the single Gaussian.

    >>> landau_start("two-mode", 3).means[:, 0].tolist()
    [1.0, -1.0]
    """
    if dim < 2:
        raise DataError(f"dim is {dim}: the start has an anisotropy between the first two of at least 2 axes")
    if kind not in STARTS:
        raise DataError(f"start {kind!r} is unknown: use one of {', '.join(STARTS)}")
    variances = torch.ones(dim, dtype=torch.float64)
    variances[1] = 0.2
    if kind == "gaussian":
        variances[0] = 1.8
        means = torch.zeros(1, dim, dtype=torch.float64)
    else:
        variances[0] = 0.8
        means = torch.zeros(2, dim, dtype=torch.float64)
        means[:, 0] = torch.tensor([1.0, -1.0])
    count = len(means)
    weights = torch.full((count,), 1 / count, dtype=torch.float64)
    return LocationScaleMixture(weights, means, variances.sqrt().expand(count, dim))


def match_moments(points: Any, mean: Tensor, target: Tensor) -> Tensor:
    """Points (..., n, d) moved by an affine map to this mean (..., d) and covariance (..., d, d).

    The map S^(-1/2) T^(1/2) is the identity when nothing has to change.  Use it to start a large reference
    sample from a small sample's own moments.

    >>> x = match_moments([[0.0], [2.0]], torch.tensor([5.0]), torch.tensor([[4.0]]))
    >>> x.flatten().tolist()
    [3.0, 7.0]
    """
    sample = check_points(points, "points", min_rows=2)
    center = Whiten().fit(sample).center  # Whiten for its errors: a singular covariance has no such map
    inverse = torch.linalg.inv(_symmetric_root(covariance(sample)))
    moved: Tensor = (sample - center) @ inverse @ _symmetric_root(target.to(sample))
    return moved + mean.to(sample).unsqueeze(-2)


def maxwell_covariance(
    initial: Tensor, times: Sequence[float] | Tensor, strength: float = STRENGTH
) -> Tensor:
    """Covariance (k, ..., d, d) at ``times`` after a start with covariance ``initial`` (..., d, d).

    S(t) = S_inf - (S_inf - S_0) exp(-4 d C t) with S_inf = tr(S_0) / d I, for Maxwell molecules and any
    start.

    >>> maxwell_covariance(torch.diag(torch.tensor([1.5, 0.5])), [0.0, 1e9]).diagonal(0, -2, -1).tolist()
    [[1.5, 0.5], [1.0, 1.0]]
    """
    dim = initial.shape[-1]
    when = torch.as_tensor(times, dtype=initial.dtype, device=initial.device)
    decay = torch.exp(-4 * dim * strength * when).reshape(-1, *[1] * initial.ndim)
    trace = initial.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    final = trace * torch.eye(dim, dtype=initial.dtype, device=initial.device)
    return final + (initial - final) * decay


class BKW(Distribution):
    """The isotropic solution of Maxwell molecules by Bobylev, Krook and Wu, at one time.

        f(v) = (2 pi K)^(-d/2) exp(-|v|^2 / 2K) (P + Q |v|^2),    K = 1 - exp(-2 (d-1) C t),
        P = ((d+2) K - d) / 2K,    Q = (1 - K) / 2K^2

    Mean zero and covariance I at all times; a density from `earliest` on, and N(0, I) in the long run.

    Parameters
    ----------
    time : t
    dim : d, at least 2
    strength : C

    >>> BKW(8.4, dim=2).score(torch.zeros(1, 2)).tolist()
    [[0.0, 0.0]]
    """

    def __init__(self, time: float, dim: int, strength: float = STRENGTH) -> None:
        if dim < 2:
            raise DataError(f"dim is {dim}: the BKW solution needs at least 2 dimensions")
        if not time > self.earliest(dim, strength):
            earliest = self.earliest(dim, strength)
            raise DataError(f"BKW is a density only after t = {earliest:.4f}, got {time:g}: start later")
        self.time = time
        self.strength = strength
        self._dim = dim

    @staticmethod
    def earliest(dim: int, strength: float = STRENGTH) -> float:
        """Earliest time at which the solution is a density.

        >>> round(BKW.earliest(2), 3), round(BKW.earliest(3), 3)
        (8.318, 5.498)
        """
        return math.log((dim + 2) / 2) / (2 * (dim - 1) * strength)

    @property
    def dim(self) -> int:
        return self._dim

    @property
    def batch_shape(self) -> torch.Size:
        return torch.Size()

    @property
    def _coefficients(self) -> tuple[float, float, float]:
        """K, P and Q."""
        k = -math.expm1(-2 * (self.dim - 1) * self.strength * self.time)
        return k, max(0.0, ((self.dim + 2) * k - self.dim) / (2 * k)), (1 - k) / (2 * k * k)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """The term P is a Gaussian, the term Q one whose squared radius has two more degrees of freedom."""
        k, p, _ = self._coefficients
        normal = torch.randn(n, self.dim, generator=generator, dtype=torch.float64)
        extra = torch.randn(n, 2, generator=generator, dtype=torch.float64)
        wide = torch.rand(n, 1, generator=generator, dtype=torch.float64) >= p
        square = normal.square().sum(-1, keepdim=True)
        stretch = torch.where(wide, 1 + extra.square().sum(-1, keepdim=True) / square, 1.0)
        return normal * (k * stretch).sqrt()

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        k, p, q = self._coefficients
        square = queries.square().sum(-1)
        bracket = (p + q * square).clamp_min(torch.finfo(queries.dtype).tiny)
        log_density = bracket.log() - 0.5 * (square / k + self.dim * math.log(2 * math.pi * k))
        return Estimate(log_density, queries * (2 * q / bracket - 1 / k).unsqueeze(-1))


def ornstein_uhlenbeck(
    initial: LocationScaleMixture,
    time: float,
    rate: float = 1.0,
    diffusion: float = 1.0,
    center: float | Tensor = 0.0,
) -> LocationScaleMixture:
    """A Gaussian mixture after the time ``time`` of dX = -rate (X - center) dt + sqrt(2 D) dW.

    >>> start = landau_start("two-mode", 2)
    >>> [round(v, 6) for v in ornstein_uhlenbeck(start, 50.0).std[0].tolist()]
    [1.0, 1.0]
    """
    if not isinstance(initial.family, Normal):
        raise DataError(
            f"the closed form needs Gaussian components, these are {type(initial.family).__name__}"
        )
    decay = math.exp(-rate * time)
    fixed = torch.as_tensor(center, dtype=initial.means.dtype)
    variance = initial.std.square() * decay**2 + diffusion / rate * (1 - decay**2)
    return replace(initial, means=fixed + (initial.means - fixed) * decay, std=variance.sqrt())


def ornstein_uhlenbeck_covariance(
    initial: Tensor, times: Sequence[float] | Tensor, rate: float = 1.0, diffusion: float = 1.0
) -> Tensor:
    """Covariance (k, ..., d, d) after any start with covariance ``initial`` (..., d, d).

    >>> ornstein_uhlenbeck_covariance(torch.eye(1) * 3, [0.0, 50.0]).flatten().tolist()
    [3.0, 1.0]
    """
    when = torch.as_tensor(times, dtype=initial.dtype, device=initial.device)
    decay = torch.exp(-2 * rate * when).reshape(-1, *[1] * initial.ndim)
    final = diffusion / rate * torch.eye(initial.shape[-1], dtype=initial.dtype, device=initial.device)
    return final + (initial - final) * decay


def _symmetric_root(matrix: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(matrix)
    root: Tensor = (vectors * values.clamp(min=0).sqrt().unsqueeze(-2)) @ vectors.mT
    return root

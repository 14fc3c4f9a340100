"""Coulomb (and any other) collisions by pair Monte Carlo: the reference where there is no closed form.

In a time step every particle meets one other, drawn at random.  Their relative velocity z keeps its
length and turns by a random angle, so momentum and energy are conserved to rounding.  The law of the
angle is von Mises-Fisher's on the sphere, with the mean cosine of the Landau diffusion on it,

    E cos = exp(-4 (d-1) C |z|^g dt).

Cost is linear in the number of particles, and the law is right to first order in dt for any d >= 2.  With
g < 0, pairs closer than (4 (d-1) C dt)^(-1/g) turn less than to first order, as no angle is large enough.
Relaxation is then too slow unless few pairs are that close; several rounds of pairs per step make them few.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.core.checks import DataError, check_points
from discoformer.particles.collisions import STRENGTH

__all__ = ["Collided", "concentration", "pair_monte_carlo"]

Array = NDArray[np.float64]
_KNOTS = 2**15  # of the table of concentrations: linear interpolation to a relative 1e-7
_SMALL, _LARGE = 1e-4, 1e6  # in units of d: outside, the first term of the series is as accurate as the table


class Collided(NamedTuple):
    """Times (k,), covariance (k, d, d) and energy (k,) over time, and the particles (n, d) at the end."""

    times: Tensor
    covariance: Tensor
    energy: Tensor
    points: Tensor


def pair_monte_carlo(
    start: Any,
    *,
    dt: float,
    steps: int,
    gamma: float = -3.0,
    strength: float = STRENGTH,
    rounds: int = 1,
    seed: int = 0,
) -> Collided:
    """Landau collisions of a sample by random pairs.

    Parameters
    ----------
    start : (n, d), d >= 2
    dt, steps : length and number of time steps
    gamma, strength : of the kernel C |z|^gamma (|z|^2 I - z z')
    rounds : of pairs within a step, each over a time dt / rounds
    seed : of pairs and angles

    >>> x = torch.randn(100, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> run = pair_monte_carlo(x, dt=1.0, steps=5)
    >>> bool(torch.allclose(run.energy, run.energy[0], rtol=1e-13))
    True
    """
    points = check_points(start, "start", min_rows=2)
    if points.ndim != 2 or points.shape[-1] < 2:
        raise DataError(f"start has shape {tuple(points.shape)}, expected (n, d) with d of at least 2")
    if not (dt > 0 and steps >= 1 and rounds >= 1 and strength > 0):
        raise DataError("dt, steps, rounds and strength must be positive")
    rng = np.random.default_rng(seed)
    v = points.detach().cpu().to(torch.float64).numpy().copy()
    covariances, energies = [_covariance(v)], [_energy(v)]
    for _ in range(steps):
        for _ in range(rounds):
            _collide(v, dt / rounds, gamma, strength, rng)
        covariances.append(_covariance(v))
        energies.append(_energy(v))
    return Collided(
        dt * torch.arange(steps + 1, dtype=torch.float64),
        torch.from_numpy(np.stack(covariances)),
        torch.tensor(energies, dtype=torch.float64),
        torch.from_numpy(v),
    )


def concentration(mean_cosine: Array, dim: int) -> Array:
    """Concentration kappa of the von Mises-Fisher law on the sphere in R^dim with this E cos.

    Inverts E cos = I_{d/2}(kappa) / I_{d/2-1}(kappa).

    >>> k = concentration(np.array([0.5]), 3)  # in three dimensions E cos = coth(k) - 1 / k
    >>> round(float((1 / np.tanh(k) - 1 / k)[0]), 6)
    0.5
    """
    small, large = mean_cosine * dim, 0.5 * (dim - 1) / np.maximum(1 - mean_cosine, 1e-300)
    log_kappa, odds = _table(dim)
    with np.errstate(divide="ignore"):
        at = np.log(mean_cosine) - np.log1p(-mean_cosine)
    kappa = np.exp(np.interp(at, odds, log_kappa))
    return np.where(at < odds[0], small, np.where(at > odds[-1], large, kappa))


@lru_cache(maxsize=8)
def _table(dim: int) -> tuple[Array, Array]:
    """Logarithm of kappa on a grid and the log odds of its mean cosine, nearly linear in each other."""
    log_kappa = np.linspace(np.log(_SMALL * dim), np.log(_LARGE * dim), _KNOTS)
    rest = _one_minus_mean_cosine(np.exp(log_kappa), dim)
    return log_kappa, np.log1p(-rest) - np.log(rest)


def _one_minus_mean_cosine(kappa: Array, dim: int) -> Array:
    """1 - I_{d/2}(kappa) / I_{d/2-1}(kappa), by downward recurrence, or scaled functions for large kappa."""
    from scipy.special import ive  # scikit-learn brings scipy; loading it costs, so only here

    ratio = np.zeros_like(kappa)
    for order in range(80, -1, -1):
        ratio = kappa / (dim + 2 * order + kappa * ratio)
    large = kappa > dim
    ratio[large] = ive(dim / 2, kappa[large]) / ive(dim / 2 - 1, kappa[large])
    # where the ratio is one to rounding, its asymptotic series is exact
    series = (dim - 1) / (2 * kappa) - (dim - 1) * (dim - 3) / (8 * kappa**2)
    rest: Array = np.where(kappa > 1e3 * dim * dim, series, 1 - ratio)
    return rest


def _collide(v: Array, dt: float, gamma: float, strength: float, rng: np.random.Generator) -> None:
    """One round of pairs in place."""
    n, dim = v.shape
    order = rng.permutation(n)
    pairs = n // 2
    first, second = order[:pairs], order[pairs : 2 * pairs]
    center, z = 0.5 * (v[first] + v[second]), v[first] - v[second]
    square = (z * z).sum(1)
    apart = square > 0  # coinciding particles have no direction to turn
    first, second, center, z, square = (a[apart] for a in (first, second, center, z, square))
    length = np.sqrt(square)
    # with an odd number one particle rests; the others make up for it
    rate = 4 * (dim - 1) * strength * dt * n / (2 * pairs)
    half = 0.5 * _turn(z, length, np.exp(-rate * length**gamma), rng)
    v[first], v[second] = center + half, center - half


def _turn(z: Array, length: Array, mean_cosine: Array, rng: np.random.Generator) -> Array:
    """Turn z (p, d) by von Mises-Fisher angles with the given mean cosines (p,)."""
    versine = _versine(concentration(mean_cosine, z.shape[1]), z.shape[1], rng)
    unit = z / length[:, None]
    normal = rng.standard_normal(z.shape)
    normal -= (normal * unit).sum(1, keepdims=True) * unit
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    sine = np.sqrt(versine * (2 - versine))
    turned = (1 - versine)[:, None] * unit + sine[:, None] * normal
    # restore |z| to the last bit: it carries the energy
    exact: Array = turned * (length / np.linalg.norm(turned, axis=1))[:, None]
    return exact


def _versine(kappa: Array, dim: int, rng: np.random.Generator) -> Array:
    """Draws of 1 - cos under the density exp(kappa cos) sin^(d-2), by Wood's rejection (1994).

    Written for 1 - cos throughout, which keeps the small angles of large kappa exact.  In three dimensions
    it has a truncated exponential law, which needs no rejection.
    """
    if dim == 3:
        rate = np.maximum(kappa, 1e-300)
        drawn: Array = -np.log1p(rng.random(len(rate)) * np.expm1(-2 * rate)) / rate
        return drawn
    b = (dim - 1) / (2 * kappa + np.sqrt(4 * kappa**2 + (dim - 1) ** 2))
    x = (1 - b) / (1 + b)
    gap = 2 * b / (1 + b)  # 1 - x
    result = np.empty_like(kappa)
    open_ = np.arange(len(kappa))
    while len(open_):
        k, bo, xo, go = (a[open_] for a in (kappa, b, x, gap))
        beta = rng.beta(0.5 * (dim - 1), 0.5 * (dim - 1), len(open_))
        versine = 2 * bo * beta / (1 - (1 - bo) * beta)
        # kappa (cos - x) + (d-1) log((1 - x cos) / (1 - x^2))
        log_accept = k * (go - versine) + (dim - 1) * np.log((go + xo * versine) / (go * (1 + xo)))
        accepted = np.log(rng.random(len(open_))) <= log_accept
        result[open_[accepted]] = versine[accepted]
        open_ = open_[~accepted]
    return result


def _covariance(v: Array) -> Array:
    centered = v - v.mean(0)
    covariance: Array = centered.T @ centered / len(v)
    return covariance


def _energy(v: Array) -> float:
    return float(0.5 * (v * v).sum() / len(v))

"""Collision kernels: the pair sum, its conservation laws, its units."""

import itertools

import pytest
import torch
from helpers import normal
from torch import Tensor

from discoformer import KDE
from discoformer.particles import (
    Landau,
    collisions,
    integrate,
    landau_start,
)

C = 1 / 24


def pair_sum(v: Tensor, s: Tensor, gamma: float) -> Tensor:
    """-(1/n) sum_j A(v_i - v_j)(s_i - s_j) with the matrices A written out."""
    z, ds = v[:, None] - v, s[:, None] - s
    r2 = z.square().sum(-1)[..., None, None]
    power = torch.where(r2 > 0, r2, 1.0) ** (gamma / 2)
    a = C * power * (r2 * torch.eye(v.shape[-1], dtype=v.dtype) - z[..., :, None] * z[..., None, :])
    return -(a @ ds.unsqueeze(-1)).squeeze(-1).mean(1)


@pytest.mark.parametrize("dim", [2, 3, 7])
@pytest.mark.parametrize("gamma", [0.0, -3.0, -1.5])
def test_velocity_is_the_pair_sum(gamma: float, dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    v, s = normal(30, dim) + 5, normal(30, dim, seed=1)  # any scores, not only those of a density
    expected = pair_sum(v, s, gamma)
    for block in (7, 30, 64):  # blocks that do not divide n, that equal it, that exceed it
        monkeypatch.setattr(collisions, "_BLOCK", block)
        torch.testing.assert_close(Landau(gamma).velocity(v, s), expected, rtol=1e-10, atol=1e-12)


def test_maxwell_by_moments_equals_maxwell_by_pairs() -> None:
    v, s = normal(4, 50, 3), normal(4, 50, 3, seed=1)
    by_pairs = collisions.pair_velocity(v, s, 0.0, C)
    torch.testing.assert_close(collisions.maxwell_velocity(v, s, C), by_pairs, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("gamma", [0.0, -3.0])
def test_a_batch_is_its_samples(gamma: float) -> None:
    v, s = normal(2, 3, 20, 2), normal(2, 3, 20, 2, seed=1)
    batch = Landau(gamma).velocity(v, s)
    for i, j in itertools.product(range(2), range(3)):
        torch.testing.assert_close(batch[i, j], Landau(gamma).velocity(v[i, j], s[i, j]))


@pytest.mark.parametrize("gamma", [0.0, -3.0])
def test_momentum_and_energy(gamma: float) -> None:
    """Momentum stays; the energy rate is zero, so that Euler gains exactly dt^2 / 2 E|u|^2 a step."""
    start, equation = landau_start("two-mode", 3).sample(300, torch.Generator().manual_seed(0)), Landau(gamma)
    velocity = equation.velocity(start, KDE().fit(start).score(start))
    assert velocity.mean(0).abs().max() < 1e-15
    assert (velocity * start).sum(-1).mean().abs() < 1e-14
    dt = 0.1
    run = integrate(equation, start, KDE(), dt=dt, steps=3)
    assert (run.mean - run.mean[0]).abs().max() < 1e-12
    gain = 0.5 * dt**2 * velocity.square().sum(-1).mean()
    torch.testing.assert_close(run.energy[1] - run.energy[0], gain, rtol=1e-8, atol=1e-14)


def test_coinciding_particles_do_not_matter_to_each_other() -> None:
    v, s = normal(40, 3), normal(40, 3, seed=1)
    twice = Landau(-3.0).velocity(torch.cat([v, v]), torch.cat([s, s]))
    torch.testing.assert_close(twice[:40], Landau(-3.0).velocity(v, s), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("gamma", [0.0, -3.0])
def test_velocity_scales_with_the_units(gamma: float) -> None:
    """u(a v) = a^(g+1) u(v) because scores scale like 1/a: no absolute length hides in the guard."""
    v, s = normal(40, 3), normal(40, 3, seed=1)
    for a in (1e-6, 1e6):
        scaled = Landau(gamma).velocity(a * v, s / a) / a ** (gamma + 1)
        torch.testing.assert_close(scaled, Landau(gamma).velocity(v, s), rtol=1e-8, atol=1e-12)


def test_covariance_rate_of_maxwell_molecules() -> None:
    """On nodes with all moments of a Gaussian up to degree 5, dS/dt = -4dC (S - S_inf) to rounding."""
    node = [0.0, 0.0, 0.0, 0.0, 3**0.5, -(3**0.5)]  # Gauss-Hermite's weights as multiplicities
    standard = torch.tensor(list(itertools.product(node, repeat=3)), dtype=torch.float64)
    mix = normal(3, 3)
    v, precision = standard @ mix, torch.linalg.inv(mix.T @ mix)
    u = Landau().velocity(v, -v @ precision)
    rate = (u.T @ v + v.T @ u) / len(v)
    s = mix.T @ mix
    expected = -4 * 3 * C * (s - s.trace() / 3 * torch.eye(3, dtype=torch.float64))
    torch.testing.assert_close(rate, expected, rtol=1e-11, atol=1e-12)

"""Pair collisions by Monte Carlo."""

import math

import numpy as np
import pytest
import torch

from discoformer.particles import (
    landau_start,
    match_moments,
    maxwell_covariance,
    monte_carlo,
    pair_monte_carlo,
)


@pytest.mark.parametrize("dim", [2, 3, 4, 10, 60])
def test_concentration_gives_the_mean_cosine(dim: int) -> None:
    """By quadrature of exp(k cos) sin^(d-2) over the angle, from nearly uniform to nearly fixed."""
    for cosine in (1e-3, 0.05, 0.5, 0.95, 0.9999):
        k = float(monte_carlo.concentration(np.array([cosine]), dim)[0])
        peak = math.acos(math.sqrt(1 + ((dim - 2) / (2 * k)) ** 2) - (dim - 2) / (2 * k))

        def density(angle: float, k: float = k, peak: float = peak) -> float:
            if dim == 2:
                return math.exp(k * (math.cos(angle) - 1))
            ratio = math.sin(angle) / math.sin(peak)
            return math.exp(k * (math.cos(angle) - math.cos(peak))) * ratio ** (dim - 2)

        grid = np.linspace(0, min(math.pi, peak + 60 / math.sqrt(k)), 20_001)
        weight = np.array([density(a) for a in grid])
        rest = np.trapezoid(weight * (1 - np.cos(grid)), grid) / np.trapezoid(weight, grid)
        assert rest == pytest.approx(1 - cosine, rel=2e-5), (cosine, k)


@pytest.mark.parametrize("dim", [2, 3, 10])
def test_turns_have_the_prescribed_mean_cosine(dim: int) -> None:
    rng = np.random.default_rng(0)
    for rest in (1e-9, 1e-3, 0.3, 0.999999):
        z = rng.standard_normal((20_000, dim))
        length = np.linalg.norm(z, axis=1)
        turned = monte_carlo._turn(z, length, np.full(len(z), 1 - rest), rng)
        np.testing.assert_allclose(np.linalg.norm(turned, axis=1), length, rtol=1e-14)
        # 1 - cos = |z' - z|^2 / 2 |z|^2 without cancellation
        versine = 0.5 * ((turned - z) ** 2).sum(1) / length**2
        assert abs(versine.mean() - rest) < 5 * versine.std() / len(z) ** 0.5
        sideways = (turned - z) / length[:, None]
        assert abs(sideways.mean(0)).max() < 5 * sideways.std() / len(z) ** 0.5 + 0.02 * rest


@pytest.mark.parametrize("gamma", [0.0, -3.0])
@pytest.mark.parametrize("n", [1000, 1001])
def test_pair_monte_carlo_conserves_momentum_and_energy(n: int, gamma: float) -> None:
    start = landau_start("two-mode", 3).sample(n, torch.Generator().manual_seed(0)) + 1
    run = pair_monte_carlo(start, dt=0.5, steps=20, gamma=gamma)
    assert (run.points.mean(0) - start.mean(0)).abs().max() < 1e-13
    assert (run.energy / run.energy[0] - 1).abs().max() < 1e-13
    assert (run.points - start).abs().max() > 0.1


@pytest.mark.parametrize("dim", [2, 3, 10])
def test_pair_monte_carlo_relaxes_maxwell_at_the_closed_form_rate(dim: int) -> None:
    start = landau_start("gaussian", dim).sample(20_001, torch.Generator().manual_seed(0))
    run = pair_monte_carlo(start, dt=0.05, steps=40, gamma=0.0, seed=1)
    exact = maxwell_covariance(run.covariance[0], run.times)
    assert (run.covariance - exact).abs().max() < 0.05, "five standard errors of a variance"
    decayed = run.covariance[0, 0, 0] - run.covariance[-1, 0, 0]
    assert decayed == pytest.approx(float(exact[0, 0, 0] - exact[-1, 0, 0]), abs=0.04)


def test_rounds_are_shorter_steps() -> None:
    start = landau_start("gaussian", 3).sample(201, torch.Generator().manual_seed(0))
    whole = pair_monte_carlo(start, dt=1.0, steps=3, rounds=2)
    halves = pair_monte_carlo(start, dt=0.5, steps=6)
    assert torch.equal(whole.covariance, halves.covariance[::2])
    assert torch.equal(whole.times, halves.times[::2])


def test_coulomb_matches_the_tabulated_reference() -> None:
    """Sigma_11 at t = 25 is 1.513 +- .01 (a long reference run) from the population's covariance."""
    law = landau_start("gaussian", 3)
    large = law.sample(20_000, torch.Generator().manual_seed(0))
    start = match_moments(large, torch.zeros(3), torch.diag(law.std[0] ** 2))
    assert pair_monte_carlo(start, dt=1.0, steps=25).covariance[-1, 0, 0] == pytest.approx(1.513, abs=0.025)

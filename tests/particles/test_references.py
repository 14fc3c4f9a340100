"""References: closed forms solve their equations, pair Monte Carlo conserves and relaxes as it must."""

import math

import pytest
import torch
from scipy import integrate as quadrature
from torch import Tensor

from discoformer import DataError
from discoformer.particles import (
    BKW,
    landau_start,
    match_moments,
    maxwell_covariance,
    ornstein_uhlenbeck,
    ornstein_uhlenbeck_covariance,
    pair_monte_carlo,
)
from discoformer.priors import LocationScaleMixture, StudentT, random_rotations

C = 1 / 24


def divergence(values: Tensor, points: Tensor) -> Tensor:
    """Divergence (n,) of a vector field whose values depend on each point alone."""
    rows = [
        torch.autograd.grad(values[:, k].sum(), points, retain_graph=True)[0][:, k]
        for k in range(points.shape[1])
    ]
    return torch.stack(rows).sum(0)


@pytest.mark.parametrize(("dim", "time"), [(2, 8.4), (3, 5.5), (5, 10.0)])
def test_bkw_is_a_density_with_unit_covariance(dim: int, time: float) -> None:
    law = BKW(time, dim)
    surface = 2 * math.pi ** (dim / 2) / math.gamma(dim / 2)

    def radial(r: float) -> float:
        point = torch.zeros(1, dim, dtype=torch.float64)
        point[0, 0] = r
        return surface * r ** (dim - 1) * math.exp(law.log_density(point).item())

    assert quadrature.quad(radial, 0, 12)[0] == pytest.approx(1, abs=1e-8)
    assert quadrature.quad(lambda r: r * r * radial(r), 0, 12)[0] == pytest.approx(dim, abs=1e-7)


@pytest.mark.parametrize(("dim", "time"), [(2, 8.4), (3, 5.5), (5, 10.0)])
def test_bkw_score_is_the_gradient_and_solves_the_equation(dim: int, time: float) -> None:
    """d/dt log f + div u + u.s = 0 with u = -C (d-1)(s + v), what Maxwell collisions do to isotropic f."""
    points = BKW(time, dim).sample(40, torch.Generator().manual_seed(0)).requires_grad_()
    log_density, score = BKW(time, dim).estimate(points)
    (gradient,) = torch.autograd.grad(log_density.sum(), points, create_graph=True)
    torch.testing.assert_close(score, gradient)
    velocity = -C * (dim - 1) * (score + points)
    change = (BKW(time + 1e-5, dim).log_density(points) - BKW(time - 1e-5, dim).log_density(points)) / 2e-5
    residual = change + divergence(velocity, points) + (velocity * score).sum(-1)
    # near its earliest time the density nearly vanishes at the origin, and its logarithm changes fast
    assert bool((residual.abs() <= 1e-4 * (1 + change.abs())).all())


def test_bkw_sample_has_its_moments() -> None:
    for dim, time in ((2, 8.4), (3, 7.0)):
        x = BKW(time, dim).sample(20_000, torch.Generator().manual_seed(0))
        k = 1 - math.exp(-2 * (dim - 1) * C * time)
        radius = x.square().sum(-1)
        assert (x.T @ x / len(x) - torch.eye(dim)).abs().max() < 0.05
        sd = float(radius.square().std()) / len(x) ** 0.5
        assert abs(radius.square().mean() - dim * (dim + 2) * k * (2 - k)) < 5 * sd


def test_maxwell_covariance_solves_its_equation() -> None:
    mix = torch.tensor([[1.0, 0.5, 0.0], [0.0, 0.7, 0.2], [0.1, 0.0, 1.5]], dtype=torch.float64)
    initial = torch.stack([mix.T @ mix, torch.diag(torch.tensor([1.8, 0.2, 1.0]).double())])
    before, now, after = maxwell_covariance(initial, [0.999, 1.0, 1.001])
    trace = initial.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None]
    # dS/dt = 2 C E[|z|^2 I - d z z'] with E[z z'] = 2 S
    expected = 2 * C * (2 * trace * torch.eye(3, dtype=torch.float64) - 3 * 2 * now)
    torch.testing.assert_close((after - before) / 0.002, expected, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(maxwell_covariance(initial, [0.0])[0], initial)
    assert maxwell_covariance(initial, [2.0])[0, 1, 0, 0].item() == pytest.approx(1 + 0.8 * math.exp(-1))


def test_both_starts_have_the_same_covariance() -> None:
    for dim in (2, 3, 10):
        two = landau_start("two-mode", dim)
        spread = torch.diag(two.std[0] ** 2) + two.means.T @ two.means / 2
        torch.testing.assert_close(spread, torch.diag(landau_start("gaussian", dim).std[0] ** 2))


def test_match_moments() -> None:
    x = landau_start("two-mode", 3).sample(200, torch.Generator().manual_seed(0))
    mean, target = torch.tensor([1.0, -2.0, 0.5]).double(), torch.diag(torch.tensor([2.0, 1.0, 0.5]).double())
    moved = match_moments(x, mean, target)
    torch.testing.assert_close(moved.mean(0), mean)
    torch.testing.assert_close(torch.cov(moved.T, correction=0), target)
    same = match_moments(x, x.mean(0), torch.cov(x.T, correction=0))
    torch.testing.assert_close(same, x)


def test_ornstein_uhlenbeck_mixture_solves_fokker_planck() -> None:
    """d/dt log f = -div b - b.s + D (div s + |s|^2), at any points, for rotated components and a center."""
    generator = torch.Generator().manual_seed(0)
    start = LocationScaleMixture(
        torch.tensor([0.3, 0.7]).double(),
        torch.tensor([[2.0, 0.0], [-1.0, 1.0]]).double(),
        torch.tensor([[0.5, 1.5], [0.3, 0.8]]).double(),
        random_rotations((2,), 2, generator, torch.float64),
    )
    rate, diffusion, center = 0.7, 0.4, torch.tensor([0.5, -1.0]).double()

    def at(time: float) -> LocationScaleMixture:
        return ornstein_uhlenbeck(start, time, rate, diffusion, center)

    x = start.sample(30, generator).requires_grad_()
    score = at(0.8).score(x)
    drift = -rate * (x - center)
    change = (at(0.8001).log_density(x) - at(0.7999).log_density(x)) / 0.0002
    expected = 2 * rate - (drift * score).sum(-1)
    expected = expected + diffusion * (divergence(score, x) + score.square().sum(-1))
    torch.testing.assert_close(change, expected, rtol=1e-5, atol=1e-6)


def test_ornstein_uhlenbeck_covariance_is_that_of_the_mixture() -> None:
    start = landau_start("two-mode", 2)
    initial = torch.diag(torch.tensor([1.8, 0.2]).double())
    for time, s in zip(
        [0.0, 0.5, 3.0], ornstein_uhlenbeck_covariance(initial, [0.0, 0.5, 3.0], 2.0, 0.5), strict=True
    ):
        law = ornstein_uhlenbeck(start, time, 2.0, 0.5)
        torch.testing.assert_close(torch.diag(law.std[0] ** 2) + law.means.T @ law.means / 2, s)


def test_bad_input_is_one_clear_line() -> None:
    x = torch.zeros(4, 3)
    for build, message in (
        (lambda: BKW(8.0, 2), "density only after t = 8.3178"),
        (lambda: BKW(8.0, 1), "at least 2 dimensions"),
        (lambda: landau_start("ring", 2), "use one of gaussian, two-mode"),
        (lambda: landau_start("gaussian", 1), "at least 2 axes"),
        (lambda: pair_monte_carlo(x[:, :1], dt=1.0, steps=1), "expected \\(n, d\\)"),
        (lambda: pair_monte_carlo(x[None], dt=1.0, steps=1), "expected \\(n, d\\)"),
        (lambda: pair_monte_carlo(x, dt=0.0, steps=1), "must be positive"),
        (lambda: match_moments(x, torch.zeros(3), torch.eye(3)), "constant"),
        (
            lambda: ornstein_uhlenbeck(
                LocationScaleMixture(
                    torch.ones(1), torch.zeros(1, 1), torch.ones(1, 1), family=StudentT(3.0)
                ),
                1.0,
            ),
            "needs Gaussian components",
        ),
    ):
        with pytest.raises(DataError, match=message):
            build()

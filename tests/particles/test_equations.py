"""Equations: potentials, diffusion, steady states, one's own."""

import pytest
import torch
from helpers import normal
from torch import Tensor

from discoformer import DataError
from discoformer.particles import (
    SBTM,
    DoubleWell,
    Equation,
    FokkerPlanck,
    GaussianClosure,
    Landau,
    OrnsteinUhlenbeck,
    integrate,
    landau_start,
)


def test_fokker_planck_energy_is_its_potential() -> None:
    x = normal(50, 3).requires_grad_()
    for equation in (OrnsteinUhlenbeck(2.0, center=torch.tensor([1.0, 0.0, 0.0])), DoubleWell(height=2.0)):
        assert equation.potential is not None
        (gradient,) = torch.autograd.grad(equation.energy(x) * len(x), x)
        torch.testing.assert_close(equation.drift(x.detach()), -gradient)


def test_diffusion_matrix() -> None:
    matrix = torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=torch.float64)
    s = normal(5, 2)
    free = FokkerPlanck(torch.zeros_like, diffusion=matrix)
    torch.testing.assert_close(free.velocity(s, s), -s @ matrix)
    with pytest.raises(DataError, match="matrix has 2 columns, the particles 3"):
        free.velocity(normal(5, 3), normal(5, 3))


def test_steady_state_does_not_move() -> None:
    """In the double well at rest the score is -grad V / D, and nothing moves."""
    equation = DoubleWell(diffusion=0.5)
    x = normal(20, 2)
    assert equation.velocity(x, equation.drift(x) / 0.5).abs().max() < 1e-12


def test_bad_equations_are_refused() -> None:
    for build, message in (
        (lambda: Landau(strength=0.0), "must be positive"),
        (lambda: Landau(gamma=float("nan")), "0 for Maxwell"),
        (lambda: FokkerPlanck(torch.zeros_like, -1.0), "must not be negative"),
        (lambda: FokkerPlanck(torch.zeros_like, torch.tensor([[1.0, 2.0], [0.0, 1.0]])), "symmetric"),
        (lambda: OrnsteinUhlenbeck(rate=0.0), "only a positive one"),
        (lambda: DoubleWell(height=-1.0), "must be positive"),
        (lambda: SBTM(landau_start("gaussian", 2), steps=0), "positive steps"),
    ):
        with pytest.raises(DataError, match=message):
            build()


def test_ones_own_equation() -> None:
    """Twenty lines of the guide: the heat equation spreads a Gaussian by 2 D t."""

    class Heat(Equation):
        def velocity(self, points: Tensor, scores: Tensor) -> Tensor:
            return -0.5 * scores

    run = integrate(Heat(), normal(100, 2), GaussianClosure(), dt=0.01, steps=100, scheme="heun")
    expected = run.covariance[0] + torch.eye(2, dtype=torch.float64)
    torch.testing.assert_close(run.covariance[-1], expected, rtol=1e-4, atol=1e-4)

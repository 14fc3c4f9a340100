"""Scores calibrated by Stein's identity."""

import pytest
import torch
from helpers import normal
from torch import Tensor

from discoformer import KDE, DataError
from discoformer.core.frames import Whiten
from discoformer.particles import (
    Calibrated,
    GaussianClosure,
    OrnsteinUhlenbeck,
    integrate,
    landau_start,
    ornstein_uhlenbeck_covariance,
)
from discoformer.particles.oracles import as_oracle
from discoformer.priors import gaussian


def test_calibrated_score_obeys_steins_identity() -> None:
    """Mean of f s^T is minus the mean gradient of f (by autograd), for f = 1, y, |y|^2 y in whitened y."""
    x = normal(2, 40, 3) @ normal(2, 3, 3, seed=1) + 7
    frame = Whiten().fit(x)
    white = frame.normalize(x)

    def tests(y: Tensor) -> Tensor:
        return torch.cat([torch.ones(1, dtype=y.dtype), y, y.square().sum() * y])

    for source in (KDE(), GaussianClosure(), lambda points, time: torch.sin(points)):
        score = Calibrated(source).estimate(x, 0.0).score @ frame.inverse.mT
        for y, s in zip(white, score, strict=True):
            gradient = torch.stack([torch.func.jacrev(tests)(point) for point in y]).mean(0)
            moments = torch.stack([tests(point) for point in y]).mT @ s / len(y)
            torch.testing.assert_close(moments, -gradient, rtol=1e-9, atol=1e-9)


def test_calibrated_leaves_a_right_score_and_every_log_density() -> None:
    law = gaussian(torch.zeros(1, 2), torch.eye(2)[None])
    x = law.sample(20_000, torch.Generator().manual_seed(0))[0]
    plain, better = (make(KDE()).estimate(x[:500], 0.0) for make in (as_oracle, Calibrated))
    assert torch.equal(plain.log_density, better.log_density)
    exact = Calibrated(lambda points, time: -points).estimate(x, 0.0).score
    assert (exact + x).square().mean() < 1e-3


def test_calibrated_follows_affine_maps() -> None:
    """Whitening leaves a rotation open, and the test functions turn with it: scores change as covectors."""
    x, matrix = normal(60, 3), normal(3, 3, seed=1)
    before, after = (Calibrated(GaussianClosure()).estimate(y, 0.0).score for y in (x, x @ matrix + 5))
    assert (before - GaussianClosure().fit(x).score(x)).abs().max() > 0.01
    torch.testing.assert_close(after @ matrix.T, before)


def test_calibrated_moves_the_covariance_of_fokker_planck_exactly() -> None:
    """dS/dt = 2D I - 2 rate S needs E[s x'] = -I and nothing else, which a kernel estimate misses."""
    start = landau_start("two-mode", 2).sample(100, torch.Generator().manual_seed(0))
    errors = []
    for oracle in (KDE(), Calibrated(KDE())):
        run = integrate(OrnsteinUhlenbeck(2.0, 0.5), start, oracle, dt=0.02, steps=25, scheme="heun")
        exact = ornstein_uhlenbeck_covariance(run.covariance[0], run.times, 2.0, 0.5)
        errors.append(float((run.covariance - exact).abs().max()))
    assert errors[0] > 0.02 and errors[1] < 1e-3


def test_calibrated_refuses_what_it_cannot_do() -> None:
    angle = 2 * torch.pi * torch.rand(50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    circle = torch.stack([angle.cos(), angle.sin()], -1)
    circle = torch.cat([circle, -circle])
    circle = torch.cat([circle, circle.flip(-1) * torch.tensor([1.0, -1.0])])  # white as it is
    for points, oracle, message in (
        (normal(5, 2), KDE(), "more than 5"),
        (circle, KDE(), "on one ellipsoid"),
        (circle @ normal(2, 2, seed=1), KDE(), "on one ellipsoid"),
        (normal(20, 2), lambda x, t: x[:1], "one score per particle"),
    ):
        with pytest.raises(DataError, match=message):
            Calibrated(oracle).estimate(points, 0.0)

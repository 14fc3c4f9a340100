"""What is recorded along a run."""

import torch
from helpers import normal

from discoformer import KDE
from discoformer.particles import (
    GaussianClosure,
    Landau,
    OrnsteinUhlenbeck,
    integrate,
    match_moments,
)
from discoformer.priors import gaussian


def test_entropy_and_its_production() -> None:
    """For a Gaussian with matched moments the entropy changes by the integral of its production."""
    law = gaussian(torch.zeros(2, dtype=torch.float64), torch.diag(torch.tensor([4.0, 0.25]).double()))
    start = match_moments(
        law.sample(100, torch.Generator().manual_seed(0)), torch.zeros(2), torch.diag(law.std[0] ** 2)
    )
    run = integrate(OrnsteinUhlenbeck(), start, GaussianClosure(), dt=0.01, steps=100, scheme="heun")
    grown = torch.trapezoid(run.production, run.times)
    torch.testing.assert_close(run.entropy[-1] - run.entropy[0], grown, rtol=0, atol=1e-3)
    exact = 0.5 * torch.logdet(2 * torch.pi * torch.e * run.covariance[-1])
    torch.testing.assert_close(run.entropy[-1], exact)
    landau = integrate(Landau(), start, KDE(), dt=0.1, steps=3)
    assert bool((landau.production > 0).all()), "Landau never destroys entropy, whatever the score"


def test_entropy_is_nan_for_scores_alone() -> None:
    run = integrate(OrnsteinUhlenbeck(), normal(10, 2), lambda x, t: -x, dt=0.1, steps=2)
    assert bool(run.entropy.isnan().all()) and bool(run.production.isfinite().all())

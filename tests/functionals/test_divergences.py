"""Divergences: closed forms with exact fields, and standard errors that count both samples."""

import math

import pytest
import torch
from helpers import MaximumLikelihood, normal, random_covariance, within

from discoformer.baselines.kde import KDE
from discoformer.functionals import (
    jensen_shannon,
    kl_divergence,
    relative_fisher_information,
)
from discoformer.priors import LocationScaleMixture, gaussian

SPLITS = ["none", "folds", "balanced"]


def test_divergences_of_exact_gaussians() -> None:
    a, b = random_covariance(2), random_covariance(2, seed=5)
    shift = torch.tensor([0.5, -0.3], dtype=torch.float64)
    f, g = gaussian(torch.zeros(2, dtype=torch.float64), a), gaussian(shift, b)
    x, y = (h.sample(4000, torch.Generator().manual_seed(s)) for s, h in enumerate((f, g)))
    inverse = torch.linalg.inv(b)
    kl = 0.5 * float((inverse @ a).trace() - 2 + shift @ inverse @ shift + torch.logdet(b) - torch.logdet(a))
    assert within(kl_divergence(x, y, f, g), kl)
    gap = inverse - torch.linalg.inv(a)
    rfi = float((gap @ a @ gap).trace() + (inverse @ shift).square().sum())
    assert within(relative_fisher_information(x, y, f, g), rfi)


def test_jensen_shannon_by_quadrature_and_symmetry() -> None:
    f = gaussian(torch.zeros(1).double(), torch.eye(1).double())
    g = LocationScaleMixture(
        torch.ones(2).double(), torch.tensor([[-1.0], [2.0]]).double(), torch.ones(2, 1).double()
    )
    grid = torch.linspace(-12, 12, 20001, dtype=torch.float64).unsqueeze(-1)
    log_f, log_g = f.log_density(grid), g.log_density(grid)
    log_m = torch.logaddexp(log_f, log_g) - math.log(2)
    truth = torch.trapezoid(log_f.exp() * (log_f - log_m) + log_g.exp() * (log_g - log_m), grid[:, 0]) / 2
    x, y = (h.sample(4000, torch.Generator().manual_seed(s)) for s, h in enumerate((f, g)))
    assert within(jensen_shannon(x, y, f, g), float(truth))
    one, other = jensen_shannon(x, y, KDE()), jensen_shannon(y, x, KDE())
    torch.testing.assert_close(torch.stack(one), torch.stack(other))


def test_jensen_shannon_of_one_law_is_never_below_zero_and_of_two_loses_nothing() -> None:
    """Errors of an estimated ratio lower the divergence; shrunk, it is at least what it would be without."""
    x, y = normal(12, 300, 2), normal(12, 300, 2, seed=1)
    same, apart = (jensen_shannon(x, y + shift, KDE()) for shift in (0.0, 1.0))
    assert float(same.value.min()) >= 0
    assert float((same.value / same.standard_error.clamp_min(1e-12)).mean()) < 1.5
    f, g = (gaussian(torch.full((2,), c).double(), torch.eye(2).double()) for c in (0.0, 1.0))
    truth = jensen_shannon(x.flatten(0, 1), y.flatten(0, 1) + 1, f, g)
    assert abs(float(apart.value.mean() - truth.value)) < 0.2 * float(truth.value)


@pytest.mark.parametrize("split", SPLITS)
def test_standard_error_of_relative_fisher_information_counts_both_samples(split: str) -> None:
    x, y = normal(800, 300, 1), normal(800, 200, 1, seed=1) + 0.5
    value, error = relative_fisher_information(x, y, MaximumLikelihood(), split=split)
    # The influence function knows no family: in one as small as this the value varies a little less.
    assert 0.95 < float(error.mean() / value.std()) < 1.25


def test_a_sample_that_nothing_is_fitted_to_adds_no_error() -> None:
    f, g = (gaussian(torch.full((1,), c).double(), torch.eye(1).double()) for c in (0.0, 1.0))
    x, y = normal(100, 1), normal(100, 1, seed=1)
    for call in (kl_divergence, relative_fisher_information):
        for source in (f, MaximumLikelihood()):
            torch.testing.assert_close(call(x, y, source, g), call(x, y[:10], source, g))
    log_ratio = f.log_density(x) - g.log_density(x)
    torch.testing.assert_close(kl_divergence(x, y, f, g).standard_error, log_ratio.std() / 10)
    square = (f.score(x) - g.score(x)).square().sum(-1)
    error = relative_fisher_information(x, y, f, g).standard_error
    torch.testing.assert_close(error, square.std() / 10, atol=1e-12, rtol=0)

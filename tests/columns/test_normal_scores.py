"""Normal scores of a column: increasing, exactly invertible, with the derivative of the map itself."""

import math

import pytest
import torch
from scipy import stats

from discoformer.columns.normal_scores import NormalScores, log_ndtr_inverse

F64 = torch.float64


def margin(seed: int, count: int = 12) -> NormalScores:
    generator = torch.Generator().manual_seed(seed)
    free = torch.tensor(math.inf, dtype=F64)

    def uniform() -> torch.Tensor:
        return torch.rand(count, generator=generator, dtype=F64)

    return NormalScores(
        -free,
        free,
        torch.log_softmax(3 * uniform(), -1),
        8 * uniform() - 4,
        uniform() + 0.02,
        2 + 200 * uniform() ** 4,
    )


FAR = torch.tensor([-1e9, -1e6, -1e3, 1e3, 1e6, 1e9], dtype=F64)


@pytest.mark.parametrize("seed", range(5))
def test_slope_and_bend_are_the_derivatives(seed: int) -> None:
    x = torch.cat([torch.linspace(-9, 9, 201, dtype=F64), FAR]).requires_grad_()
    scores = margin(seed)
    log_slope, bend = scores.log_derivative(x)
    (slope,) = torch.autograd.grad(scores.forward(x).sum(), x, retain_graph=True)
    torch.testing.assert_close(slope.log(), log_slope, rtol=1e-10, atol=1e-10)
    (change,) = torch.autograd.grad(log_slope.sum(), x)
    torch.testing.assert_close(change, bend, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_inverse_and_order(seed: int) -> None:
    x = torch.cat([FAR[:3], torch.linspace(-9, 9, 301, dtype=F64), FAR[3:]])
    scores = margin(seed)
    u = scores.forward(x)
    assert u.isfinite().all() and (u.diff() > 0).all()
    torch.testing.assert_close(scores.inverse(u), x, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(scores.forward(scores.inverse(u)), u, rtol=1e-10, atol=1e-10)


def test_it_is_nearly_students_distribution_function() -> None:
    scores = margin(0)
    x = torch.linspace(-10, 10, 101, dtype=F64)
    parts = zip(
        *(t.tolist() for t in (scores.log_weight.exp(), scores.mean, scores.scale, scores.nu)), strict=True
    )
    expected = sum(w * stats.t(nu).cdf((x.numpy() - m) / s) for w, m, s, nu in parts)
    torch.testing.assert_close(
        torch.special.ndtr(scores.forward(x)), torch.as_tensor(expected), rtol=0, atol=5e-3
    )


def test_the_density_integrates_to_one() -> None:
    scores = margin(3)
    x = torch.linspace(-400, 400, 400_001, dtype=F64)
    u, (log_slope, _) = scores.forward(x), scores.log_derivative(x)
    density = (log_slope - 0.5 * u.square()).exp() / math.sqrt(2 * math.pi)
    assert float(torch.trapezoid(density, x)) == pytest.approx(1.0, abs=2e-4)


def test_far_tails() -> None:
    z = torch.tensor([-38.0, -80.0, -300.0], dtype=F64)
    torch.testing.assert_close(log_ndtr_inverse(torch.special.log_ndtr(z)), z)
    free, one = torch.tensor(math.inf, dtype=F64), torch.ones(1, dtype=F64)
    gaussian = NormalScores(-free, free, 0 * one, 0 * one, one, 1e12 * one)
    x = torch.tensor([-60.0, 55.0], dtype=F64)
    torch.testing.assert_close(gaussian.forward(x), x, rtol=1e-6, atol=0)


def test_scores_no_value_can_have_lead_to_finite_values_in_order() -> None:
    free, one = torch.tensor(math.inf, dtype=F64), torch.ones(1, dtype=F64)
    for nu in (2.5, 40.0, 1e6):
        scores = NormalScores(-free, free, 0 * one, 0 * one, one, nu * one)
        x = scores.inverse(torch.tensor([-1e7, -300.0, -30.0, 0.0, 30.0, 300.0, 1e7], dtype=F64))
        assert bool(x.isfinite().all() and (x.diff() >= 0).all())

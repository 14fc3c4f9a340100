"""The spline flow is a density with its score."""

import numpy as np
import pytest
import torch

from discoformer.baselines import SplineFlow
from discoformer.baselines.flow import FlowDensity
from discoformer.core.composed import PushedDensity


def test_the_flow_integrates_to_one_and_its_score_is_the_gradient_and_it_can_be_drawn() -> None:
    pytest.importorskip("zuko")
    rng = np.random.default_rng(0)
    sample = 1000 + 50 * np.concatenate([rng.normal(-2, 0.5, (150, 1)), rng.normal(2, 1, (150, 1))])
    state = torch.get_rng_state()
    field = SplineFlow(transforms=1, hidden=(16,), lr=1e-2, epochs=30).fit(sample)
    assert torch.equal(torch.get_rng_state(), state)  # training leaves the global generator alone
    grid = np.linspace(0, 2000, 20001)[:, None]
    assert np.trapezoid(np.exp(field.log_density(grid)), grid[:, 0]) == pytest.approx(1, abs=1e-3)
    queries = torch.from_numpy(sample[:20]).requires_grad_()
    log_density, score = field.estimate(queries)
    (gradient,) = torch.autograd.grad(log_density.sum(), queries)
    torch.testing.assert_close(score, gradient, rtol=1e-5, atol=1e-6)
    assert isinstance(field, PushedDensity)
    assert isinstance(field.base, FlowDensity)
    drawn = field.transforms[0].denormalize(field.base.sample(4000, torch.Generator().manual_seed(0)))
    inside = (grid[:, 0] < 1000) * np.exp(field.log_density(grid))
    assert float((drawn < 1000).double().mean()) == pytest.approx(np.trapezoid(inside, grid[:, 0]), abs=0.03)
    step = 0.5  # the score is the slope of the density it returns, in the units of the data
    up, down = (field.log_density(sample[:20] + s) for s in (step, -step))
    slope = (up - down) / (2 * step)
    assert np.corrcoef(slope, field.score(sample[:20])[:, 0])[0, 1] > 0.99

"""Particles: conservation laws, chunked equals naive, orders of the schemes, resumed equals unbroken."""

import numpy as np
import pytest
import torch
from helpers import normal
from torch import Tensor

from discoformer import KDE, DataError
from discoformer.particles import (
    BKW,
    ExactOracle,
    Landau,
    OrnsteinUhlenbeck,
    integrate,
    landau_start,
    match_moments,
    ornstein_uhlenbeck,
)
from discoformer.priors import gaussian
from discoformer.views import plot_relaxation

C = 1 / 24


@pytest.mark.parametrize(("dim", "start"), [(2, 8.4), (3, 5.5)])
def test_exact_scores_follow_the_exact_solution(dim: int, start: float) -> None:
    """With the BKW score, the covariance stays and the fourth moment grows as BKW's does."""
    points = BKW(start, dim).sample(4000, torch.Generator().manual_seed(0))
    points = match_moments(points, torch.zeros(dim), torch.eye(dim))
    oracle = ExactOracle(lambda t: BKW(t, dim))
    run = integrate(Landau(), points, oracle, dt=0.5, steps=12, time=start, scheme="heun")
    eye = torch.eye(dim, dtype=torch.float64)
    torch.testing.assert_close(run.covariance[-1], eye, rtol=0, atol=0.03)

    def fourth(t: float) -> float:  # E|v|^4 = d (d + 2) K (2 - K)
        k = 1 - np.exp(-2 * (dim - 1) * C * t)
        return float(dim * (dim + 2) * k * (2 - k))

    grown = run.points.square().sum(-1).square().mean() - points.square().sum(-1).square().mean()
    assert abs(grown - (fourth(start + 6) - fourth(start))) < 0.1 * (fourth(start + 6) - fourth(start))


@pytest.mark.parametrize(("scheme", "order"), [("euler", 1), ("heun", 2)])
def test_order_of_the_schemes(scheme: str, order: int) -> None:
    """With the exact score, particles of a Gaussian keep to its standard deviation: 2^-order as dt halves."""
    start = gaussian(torch.zeros(1), 4 * torch.eye(1)).sample(50, torch.Generator().manual_seed(0)).double()
    law = gaussian(torch.zeros(1, dtype=torch.float64), 4 * torch.eye(1, dtype=torch.float64))
    oracle = ExactOracle(lambda t: ornstein_uhlenbeck(law, t))
    exact = start * ornstein_uhlenbeck(law, 1.0).std.item() / 2
    errors = []
    for steps in (20, 40):
        run = integrate(OrnsteinUhlenbeck(), start, oracle, dt=1 / steps, steps=steps, scheme=scheme)
        errors.append(float((run.points - exact).norm()))
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.15


def test_adaptive_steps_keep_their_tolerance_and_save_scores() -> None:
    law = landau_start("two-mode", 2)
    start = law.sample(50, torch.Generator().manual_seed(0))

    def solve(tolerance: float | None, steps: int) -> tuple[Tensor, int]:
        calls = []

        def score(points: Tensor, time: float) -> Tensor:
            calls.append(time)
            return ornstein_uhlenbeck(law, time).score(points)

        run = integrate(
            OrnsteinUhlenbeck(), start, score, dt=4 / steps, steps=steps, scheme="heun", tolerance=tolerance
        )
        assert len(run.times) == steps + 1
        return run.points, len(calls)

    exact, _ = solve(None, 500)
    errors, calls = [], []
    for tolerance in (1e-3, 1e-5):
        points, count = solve(tolerance, 4)
        errors.append(float((points - exact).square().mean().sqrt()))
        calls.append(count)
    assert errors[0] < 1e-2 and errors[1] < 2e-4
    assert calls[0] < calls[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dt": 0.0}, "dt is 0.0"),
        ({"dt": float("nan")}, "dt is nan"),
        ({"time": float("inf")}, "time is inf"),
        ({"steps": 0}, "at least one"),
        ({"scheme": "leapfrog"}, "use 'euler' or 'heun'"),
        ({"tolerance": 1e-3}, "needs scheme='heun'"),
        ({"scheme": "heun", "tolerance": 0.0}, "must be positive"),
        ({"start": [[0.0, float("nan")], [1.0, 2.0]]}, "start has a NaN"),
        ({"start": [[0.0, 1.0]]}, "at least 2 are needed"),
        ({"start": [[0.0], [1.0]]}, "at least 2 dimensions"),
        ({"oracle": 7}, "no score oracle"),
        ({"oracle": lambda x, t: x[:1]}, "one score per particle"),
        ({"oracle": lambda x, t: x / 0}, "smaller dt or another oracle"),
        ({"resume": True}, "resume needs the checkpoint"),
    ],
)
def test_bad_input_is_one_clear_line(arguments: dict[str, object], message: str) -> None:
    given = {"start": normal(10, 2), "oracle": KDE(), "dt": 0.1, "steps": 1} | arguments
    with pytest.raises(DataError, match=message):
        integrate(Landau(), given.pop("start"), given.pop("oracle"), **given)


def test_a_batch_of_runs_is_its_runs() -> None:
    start = normal(2, 30, 2)
    batch = integrate(Landau(), start, KDE(), dt=0.1, steps=3)
    for b in range(2):
        single = integrate(Landau(), start[b], KDE(), dt=0.1, steps=3)
        torch.testing.assert_close(batch.points[b], single.points)
        torch.testing.assert_close(batch.entropy[:, b], single.entropy)
    with pytest.raises(DataError, match="this is a batch \\(2,\\)"):
        batch.table()
    with pytest.raises(DataError, match="one sample"):
        plot_relaxation(batch)

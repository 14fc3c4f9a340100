"""What samplers take: estimators as well as fields, and nothing that would go wrong without a word."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import F64, normal
from torch import Tensor

from discoformer import KDE, DiScoFormer, load_model
from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate, PointDensity
from discoformer.priors import gaussian
from discoformer.samplers import annealed, kernel_stein_discrepancy, langevin, svgd

LAW = gaussian(torch.zeros(2, dtype=F64), torch.eye(2, dtype=F64))
EST = DiScoFormer(model="kde-scott").fit(normal(40, 2))
SAMPLERS: list[Callable[..., Any]] = [
    lambda score, start: langevin(score, start, steps=3, generator=torch.Generator().manual_seed(0)),
    lambda score, start: annealed(score, start, steps=2, generator=torch.Generator().manual_seed(0)),
    partial(svgd, steps=3),
]
ALL = [*SAMPLERS, lambda score, points: torch.tensor(kernel_stein_discrepancy(points, score))]


@pytest.mark.parametrize("ask", ALL)
def test_a_fitted_estimator_is_its_field(ask: Callable[..., Any]) -> None:
    points = normal(20, 2, seed=1)
    assert bool((ask(EST, points) == ask(EST.field_, points)).all())


@pytest.mark.parametrize("ask", SAMPLERS)
@pytest.mark.parametrize("score", [LAW, LAW.score])
def test_points_that_are_all_the_same_are_refused(ask: Callable[..., Any], score: Any) -> None:
    start = normal(20, 2)
    start[:, 1] = 3.0
    with pytest.raises(DataError, match="same value in column 1, spread them"):
        ask(score, start)


@pytest.mark.parametrize("ask", ALL)
@pytest.mark.parametrize(
    "score, message",
    [
        (lambda x: torch.where(x > x.amin(), -x, torch.nan), r"NaN or infinite at row \d+ \(1 such"),
        (lambda x: -x[:, :1], r"returns \(20, 1\), expected a tensor of shape \(20, 2\)"),
        (lambda x: (-x).numpy(), "returns ndarray"),
        (DiScoFormer(), "a DiScoFormer has no score: give a field, a fitted"),
        ("default", "a str has no score"),
        (KDE(), "a KDE has no score: give a field, a fitted"),
        (load_model("default"), "a Views has no score: give a field, a fitted"),
        (KDE().fit(normal(20, 3)), "have 2 column.* but the density has 3"),
    ],
)
def test_bad_scores_are_refused(ask: Callable[..., Any], score: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ask(score, normal(20, 2))


def test_columns_along_which_points_cannot_move_are_refused() -> None:
    table = pd.DataFrame({"size": normal(66, 1)[:, 0], "kind": ["a", "b", "c"] * 22})
    with pytest.raises(DataError, match="fit the continuous ones"):
        langevin(DiScoFormer().fit(table), normal(20, 2), steps=2)


def test_a_start_without_an_answer_is_refused() -> None:
    class Lost(PointDensity):
        dim = 2

        def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
            return Estimate(queries.sum(-1) * torch.nan, queries)

    with pytest.raises(DataError, match="no finite answer"):
        langevin(Lost(), normal(20, 2), steps=2)


def test_a_batch_of_particles_moves_as_one_set_at_a_time() -> None:
    start = torch.stack([normal(20, 2), 1 + 0.1 * normal(20, 2, seed=1)])
    both = svgd(LAW.score, start, steps=5)
    for one, alone in zip(both, start, strict=True):
        torch.testing.assert_close(one, svgd(LAW.score, alone, steps=5))


BOUNDED = DiScoFormer(model="kde-scott", bounds={1: (0, None)}).fit(normal(50, 2).exp())


@pytest.mark.parametrize("ask", [svgd, partial(langevin, adjusted=False)])
def test_a_score_alone_does_not_keep_points_inside_bounds(ask: Callable[..., Any]) -> None:
    with pytest.raises(DataError, match="without bounds, column 1 has some: fit its logarithm"):
        ask(BOUNDED, normal(20, 2).exp(), steps=2)


def test_steins_identity_fails_at_an_edge() -> None:
    with pytest.raises(DataError, match="kernel_stein_discrepancy needs a density without bounds"):
        kernel_stein_discrepancy(normal(20, 2).exp(), BOUNDED)


@pytest.mark.parametrize("sampler", [langevin, annealed])
def test_moves_that_are_accepted_or_rejected_stay_inside(sampler: Callable[..., Any]) -> None:
    start = normal(30, 2, seed=1).exp()
    points = sampler(BOUNDED, start, steps=20, generator=torch.Generator().manual_seed(0))
    assert bool((points[:, 1] > 0).all()) and bool((points != start).any())
    start[3, 1] = -0.1
    with pytest.raises(DataError, match=r"no density at row 3 \(1 such.*start inside the bounds"):
        sampler(BOUNDED, start, steps=2)


@pytest.mark.parametrize("ask", ALL)
def test_a_score_may_be_found_by_autograd(ask: Callable[..., Any]) -> None:
    def by_autograd(points: Tensor) -> Tensor:
        return torch.autograd.grad(LAW.log_density(points.requires_grad_()).sum(), points)[0]

    points = normal(20, 2, seed=1)
    found = ask(by_autograd, points)
    torch.testing.assert_close(found, ask(LAW.score, points))
    assert not found.requires_grad and not points.requires_grad


@pytest.mark.parametrize("sampler", [langevin, annealed, svgd])
def test_numbers_of_numpy_are_numbers(sampler: Callable[..., Any]) -> None:
    assert sampler(LAW, normal(20, 2), steps=np.int64(2)).shape == (20, 2)

"""How a fit is asked at its own sample: what has been seen, the bias left, the spread over samples."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from helpers import F64, MaximumLikelihood, normal
from torch import Tensor

from discoformer import DiScoFormer
from discoformer.baselines.kde import KDE
from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate, Field, Method, PointDensity
from discoformer.functionals import (
    Functional,
    conditional_mutual_information,
    entropy,
    fisher_information,
    jensen_shannon,
    kl_divergence,
    mutual_information,
    relative_fisher_information,
    total_correlation,
)
from discoformer.priors import gaussian

SPLITS = ["none", "folds", "balanced"]


class Remembers(Method):
    """Log density 1 at points it was fitted to, 0 elsewhere; the score at a point is the point."""

    def _fit(self, context: Tensor, weights: Tensor | None) -> Field:
        return RemembersField(context)


class RemembersField(PointDensity):
    def __init__(self, context: Tensor) -> None:
        self.context = context

    @property
    def dim(self) -> int:
        return self.context.shape[-1]

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        seen = (queries.unsqueeze(-2) == self.context.unsqueeze(-3)).all(-1).any(-1)
        return Estimate(seen.to(queries.dtype), queries)


@pytest.mark.parametrize("rows, folds", [(20, 2), (23, 5), (23, 23)])
def test_held_out_points_have_not_been_seen(rows: int, folds: int) -> None:
    x = normal(rows, 2)
    answers = {s: -entropy(x, Remembers(), split=s, folds=folds).value.item() for s in SPLITS}
    assert answers == {"none": 1.0, "folds": 0.0, "balanced": 0.5}


@pytest.mark.parametrize("split", SPLITS)
def test_answers_come_back_in_the_order_of_the_rows(split: str) -> None:
    x = normal(3, 23, 2)  # the scores are the points, so their difference to the points vanishes
    result = relative_fisher_information(x, x, Remembers(), RemembersField(x), split=split)
    torch.testing.assert_close(result.value, torch.zeros(3).double(), atol=0, rtol=0)


def test_leave_one_out_is_cross_fitting_with_as_many_folds_as_rows() -> None:
    x, y, method = normal(30, 2), normal(20, 2, seed=1), KDE(0.7)  # a rule would change with every fold
    torch.testing.assert_close(entropy(x, method, split="loo"), entropy(x, method, split="folds", folds=30))
    torch.testing.assert_close(
        kl_divergence(x, y, method, split="loo"), kl_divergence(x, y, method, split="folds", folds=30)
    )


def test_balanced_cancels_the_bias_of_maximum_likelihood() -> None:
    n, dim = 100, 4
    x = normal(2000, n, dim)
    truth = 0.5 * dim * math.log(2 * math.pi * math.e)
    bias = {s: float((entropy(x, MaximumLikelihood(), split=s).value - truth).mean()) for s in SPLITS}
    parameters = dim + dim * (dim + 1) / 2
    assert bias["none"] == pytest.approx(-parameters / (2 * n), rel=0.15)
    assert bias["folds"] > 0
    assert abs(bias["balanced"]) < 0.3 * min(-bias["none"], bias["folds"])


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_standard_errors_are_the_spread_over_samples(shift: float) -> None:
    x, y = normal(800, 300, 1), normal(800, 200, 1, seed=1) + shift
    method = MaximumLikelihood()
    pairs = {
        "entropy": entropy(x, method),
        "fisher": fisher_information(x, method, split="none"),
        "mutual information": mutual_information(x, 0.5 * x + y[:, :1] + normal(800, 300, 1, seed=2), method),
    }
    if shift:  # the first order of a divergence vanishes between equal densities
        pairs |= {"kl": kl_divergence(x, y, method), "js": jensen_shannon(x, y, method)}
    for name, (value, error) in pairs.items():
        assert float(error.mean() / value.std()) == pytest.approx(1, rel=0.15), name


# Weights: equal ones change nothing, whole ones are repetitions, zeros are not there.

X, Y = normal(40, 3), normal(50, 3, seed=1) + 0.3
LAW = gaussian(torch.zeros(3, dtype=F64), torch.eye(3, dtype=F64))
OTHER = gaussian(torch.ones(3, dtype=F64), 2 * torch.eye(3, dtype=F64))
METHOD = KDE(0.7)

ONE: dict[str, Callable[..., Functional]] = {
    "entropy": lambda x, **how: entropy(x, METHOD, **how),
    "Fisher": lambda x, **how: fisher_information(x, METHOD, **how),
    "mutual": lambda x, **how: mutual_information(x[:, :1], x[:, 1:], METHOD, **how),
    "joint": lambda x, **how: mutual_information(x[:, :1], x[:, 1:], METHOD, "joint", **how),
    "conditional": lambda x, **how: conditional_mutual_information(*x.split(1, -1), METHOD, **how),
    "total": lambda x, **how: total_correlation(x, METHOD, **how),
}
TWO: dict[str, Callable[..., Functional]] = {
    "KL": kl_divergence,
    "relative Fisher": relative_fisher_information,
    "Jensen-Shannon": jensen_shannon,
}


def _close(found: Functional, expected: Functional, **how: Any) -> None:
    torch.testing.assert_close(torch.stack(list(found)), torch.stack(list(expected)), **how)


@pytest.mark.parametrize("split", ["none", "folds", "balanced"])
@pytest.mark.parametrize("name", ONE)
def test_equal_weights_change_nothing(name: str, split: str) -> None:
    _close(ONE[name](X, weights=torch.full((40,), 7.0), split=split), ONE[name](X, split=split))


@pytest.mark.parametrize("name", TWO)
def test_equal_weights_of_two_samples_change_nothing(name: str) -> None:
    weights = (torch.ones(40), torch.full((50,), 2.0))
    _close(TWO[name](X, Y, METHOD, weights=weights), TWO[name](X, Y, METHOD))
    _close(TWO[name](X, Y, METHOD, weights=(weights[0], None)), TWO[name](X, Y, METHOD))


@pytest.mark.parametrize("name", ONE)
def test_rows_without_weight_are_not_there(name: str) -> None:
    there = torch.arange(40) < 30
    found, expected = (
        ONE[name](*what, split="none", **how)
        for what, how in (((X,), {"weights": there.to(F64)}), ((X[:30],), {}))
    )
    _close(found, expected)


def test_whole_weights_are_repetitions() -> None:
    """The value of what is asked of fields as they are; errors count rows, not repetitions."""
    often = torch.tensor([1, 2, 3, 4] * 10)
    again = X.repeat_interleave(often, 0)
    for ask in (
        lambda x, w: entropy(x, LAW, weights=w),
        lambda x, w: fisher_information(x, LAW, weights=w),
        lambda x, w: kl_divergence(x, Y, LAW, OTHER, weights=(w, None)),
        lambda x, w: relative_fisher_information(x, Y, LAW, OTHER, weights=(w, None)),
        lambda x, w: jensen_shannon(x, Y, LAW, OTHER, weights=(w, None)),
        lambda x, w: mutual_information(x[:, :2], x[:, 2:], METHOD, weights=w, split="none"),
    ):
        torch.testing.assert_close(ask(X, often).value, ask(again, None).value)


def test_importance_weights_aim_at_another_law() -> None:
    draws = OTHER.sample(20_000, torch.Generator().manual_seed(0))
    weights = (LAW.log_density(draws) - OTHER.log_density(draws)).exp()
    value, error = entropy(draws, LAW, weights=weights)
    exact = 1.5 * float(np.log(2 * np.pi * np.e))
    assert abs(float(value) - exact) < 4 * float(error) < 0.2


def test_leave_one_out_knows_weights() -> None:
    weights = torch.rand(40, dtype=F64, generator=torch.Generator().manual_seed(0)) + 0.5
    field = METHOD.fit(X, weights)
    expected = -(weights / weights.sum() * field.left_out(X, weights / weights.sum())).sum()
    torch.testing.assert_close(entropy(X, METHOD, weights=weights, split="loo").value, expected)


def test_two_samples_need_a_pair_of_weights() -> None:
    with pytest.raises(DataError, match="give a pair"):
        kl_divergence(X, Y, METHOD, weights=torch.ones(40))  # type: ignore[arg-type]


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    truth = 0.5 * math.log(2 * math.pi * math.e)
    x = torch.randn(400, 150, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    low, high = entropy(x, MaximumLikelihood(), split="balanced").interval(0.9)
    assert abs(float(((low < truth) & (truth < high)).double().mean()) - 0.9) < 0.05
    with pytest.raises(DataError, match="between 0 and 1"):
        Functional(1.0, 0.1).interval(90)


@pytest.mark.parametrize("source", ["default", KDE, DiScoFormer()])
def test_what_is_no_density_is_refused(source: Any) -> None:
    x = np.random.default_rng(0).normal(size=(50, 1))
    for ask in (entropy, fisher_information, total_correlation):
        with pytest.raises(DataError, match="pass a method such as"):
            ask(x, source)
    for compare in (kl_divergence, jensen_shannon, relative_fisher_information):
        with pytest.raises(DataError, match="pass a method such as"):
            compare(x, x, source)

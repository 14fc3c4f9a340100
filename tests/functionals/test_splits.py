"""How a fit is asked at its own sample: what has been seen, the bias left, the spread over samples."""

import math

import pytest
import torch
from helpers import MaximumLikelihood, normal
from torch import Tensor

from discoformer.baselines.kde import KDE
from discoformer.core.fields import Estimate, Field, Method, PointDensity
from discoformer.functionals import (
    entropy,
    fisher_information,
    jensen_shannon,
    kl_divergence,
    mutual_information,
    relative_fisher_information,
)

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

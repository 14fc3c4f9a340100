"""A row of large weight does not vouch for itself: it is judged by a fit without it."""

import numpy as np
import pytest
import torch

from discoformer import DiScoFormer
from discoformer.detection.heavy_rows import HEAVY, heavy_rows
from discoformer.functionals import entropy
from discoformer.methods import resolve

X = np.random.default_rng(0).normal(size=(200, 2))
X[0] = [3.0, 0.0]


def weighted(heavy: float) -> np.ndarray:
    weights = np.ones(len(X))
    weights[0] = heavy
    return weights


@pytest.mark.parametrize("heavy", [20.0, 200.0, 1e6])
def test_a_heavy_row_is_judged_by_the_fit_without_it(heavy: float) -> None:
    est = DiScoFormer().fit(X, sample_weight=weighted(heavy))
    alone = DiScoFormer().fit(X[1:]).log_density(X[:1])
    np.testing.assert_allclose(est.loo_log_density_[:1], alone, atol=1e-6)
    assert est.level(X[:1])[0] < 0.05


@pytest.mark.filterwarnings("ignore::discoformer.RangeWarning")
def test_equal_weights_are_no_weights_also_of_few_rows() -> None:
    few = X[:8]
    plain, weighted = DiScoFormer().fit(few), DiScoFormer().fit(few, sample_weight=np.full(8, 3.0))
    np.testing.assert_allclose(plain.loo_log_density_, weighted.loo_log_density_)


def test_copies_leave_together_and_fewer_than_twenty_rows_are_heavy() -> None:
    rows = torch.arange(60.0).unsqueeze(-1)
    rows[5] = rows[4]
    weights = torch.ones(60)
    weights[[4, 5, 9]] = 5.0
    found = heavy_rows(rows, weights / weights.sum())
    assert [group.tolist() for group in found] == [[4, 5], [9]]
    random = torch.distributions.Exponential(1.0).sample((1000,)) ** 4
    assert len(heavy_rows(torch.randn(1000, 1), random / random.sum())) < 1 / HEAVY
    assert heavy_rows(rows, None) == []


def test_functionals_leave_heavy_rows_out_too() -> None:
    """A single far row of almost no chance, but a tenth of the weight, adds its surprise to the entropy."""
    x = X.copy()
    x[0] = [9.0, 0.0]
    method, weights = resolve("default").method, weighted(22.0)
    share = torch.from_numpy(weights / weights.sum())
    rows = torch.from_numpy(x)
    field = method.fit(rows, share)
    own = field.left_out(rows, share)
    own[0] = method.fit(rows[1:]).log_density(rows[:1])[0]
    found = entropy(x, method, weights=weights, split="loo")
    np.testing.assert_allclose(found.value, -float((share * own).sum()), rtol=1e-6)

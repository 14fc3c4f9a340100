"""Kernel sums in blocks: no block changes an answer or a gradient, no distance loses its digits."""

import math

import numpy as np
import pytest
import torch
from helpers import far_sample

from discoformer.baselines import KDE
from discoformer.core import kernel_sums as sums_module
from discoformer.core.kernel_sums import kernel_sums


def tensor(array):
    return torch.tensor(array, dtype=torch.float64)


@pytest.mark.parametrize("rule", ["scott", "scott-full", 0.8])
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("memory", [sums_module.MEMORY, 600])  # all queries in one block, one at a time
def test_gradients_of_both_outputs_reach_queries_and_context(rule, far, memory, monkeypatch):
    if far:
        monkeypatch.setattr(sums_module, "_near_limit", lambda dtype: 0.0)
    x = tensor(far_sample(7, 2) / 10).requires_grad_()
    y = tensor(far_sample(3, 2, seed=1) / 10).requires_grad_()

    def both(x, y):
        return tuple(KDE(rule, memory=memory).fit(x).estimate(y))

    assert torch.autograd.gradcheck(both, (x, y))
    assert torch.autograd.gradgradcheck(lambda y: both(x.detach(), y), (y,))


@pytest.mark.parametrize("memory", [1, 8_000])  # blocks of queries, of samples
def test_recomputed_blocks_give_the_same_gradients(memory):
    def gradients(**options):
        x = tensor(far_sample(15, 2, batch=(5,))).requires_grad_()
        y = tensor(far_sample(6, 2, seed=1, batch=(5,))).requires_grad_()
        log_density, score = KDE(**options).fit(x).estimate(y)
        return torch.autograd.grad(log_density.sum() + score.square().sum(), (x, y))

    for result, expected in zip(gradients(memory=memory), gradients(), strict=True):
        torch.testing.assert_close(result, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("memory", [1, 100, 3_000, 50_000])
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_blocks_cannot_change_the_answer(memory, far, batch, monkeypatch):
    if far:
        monkeypatch.setattr(sums_module, "_near_limit", lambda dtype: 0.0)
    x, y = far_sample(33, 2, batch=batch), far_sample(21, 2, seed=1, batch=batch)
    w = np.random.default_rng(2).uniform(size=(*batch, 33))
    whole, pieces = KDE().fit(x, w), KDE(memory=memory).fit(x, w)
    for expected, result in zip(whole.estimate(y), pieces.estimate(y), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(pieces.loo_log_density(), whole.loo_log_density(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("distance", [1e3, 1e6, 1e15])
def test_far_queries_are_finite_and_right(dtype, distance):
    x = tensor(far_sample(30, 2) - 50).to(dtype)
    y = torch.tensor([[distance, 0.0], [0.0, -distance]], dtype=dtype)
    log_density, score = KDE(1.0).fit(x).estimate(y)
    exact = torch.cdist(y.double(), x.double()).square().amin(-1) / 2
    torch.testing.assert_close(log_density.double(), -exact, rtol=1e-2, atol=0)
    torch.testing.assert_close(score, -y, rtol=1e-1, atol=0.1 * distance)


def test_queries_whose_squares_overflow_are_finite():
    log_density, score = KDE(1e-6).fit(far_sample(30, 2)).estimate(np.array([[1e149, 0.0]]))
    assert np.isfinite(log_density).all() and log_density[0] < -1e300
    assert np.isfinite(score).all()
    np.testing.assert_allclose(score[0, 0], -1e149 / 1e-12, rtol=1e-6)


def test_clusters_many_bandwidths_apart_keep_their_digits():
    """Products alone would lose all digits of |y - x|^2 next to |y|^2 = 1e16."""
    rng = np.random.default_rng(0)
    left, right = rng.integers(-4, 5, (40, 2)) / 4 - 1e8, rng.integers(-4, 5, (40, 2)) / 4 + 1e8
    x = np.concatenate([left, right])
    together, alone = KDE(1.0).fit(x).estimate(left), KDE(1.0).fit(left + 1e8).estimate(left + 1e8)
    np.testing.assert_allclose(together.log_density, alone.log_density - math.log(2), rtol=1e-7)
    np.testing.assert_allclose(together.score, alone.score, atol=1e-6)


def test_kernel_sums_leave_their_inputs_alone():
    x, y, a = tensor(far_sample(9)), tensor(far_sample(4, seed=1)), torch.zeros(9, dtype=torch.float64)
    copies = [t.clone() for t in (y, x, a)]
    kernel_sums(y, x, a)
    for before, after in zip(copies, (y, x, a), strict=True):
        assert torch.equal(before, after)

"""The paper's propositions on attention and kernel density estimates, to 1e-10 in float64."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.neighbors import KernelDensity

from discoformer.baselines import KDE
from discoformer.core.frames import Identity, Standardize, Whiten
from discoformer.core.transforms import Frame
from discoformer_paper.theory import (
    attention_weights,
    frame_bandwidth,
    framed_kde,
    kde_block,
    kernel_weights,
    lift,
    three_points,
)

TOLERANCE = {"rtol": 1e-10, "atol": 1e-10}
shapes = st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 12), st.integers(0, 10**6))


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def close(actual, expected):
    torch.testing.assert_close(actual, expected, **TOLERANCE)


# --- Proposition 3.3 and Corollary 3.4 ------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(shapes, st.integers(0, 4))
def test_cross_attention_is_a_reweighted_kernel(shape, rank):
    d, m, n, seed = shape
    factor = normal(d, min(rank, d), seed=seed)  # any rank, zero included: B is only semi-definite
    form = factor @ factor.T
    y, x = normal(m, d, seed=seed + 1), normal(n, d, seed=seed + 2)
    close(attention_weights(y, x, form), kernel_weights(y, x, form, reweighted=True))


@settings(max_examples=30, deadline=None)
@given(shapes, st.floats(0.3, 3.0))
def test_attention_is_the_kernel_on_a_context_of_constant_norm(shape, h):
    d, m, n, seed = shape
    factor = normal(d, d, seed=seed) + 2 * torch.eye(d)
    form = factor @ factor.T / h**2
    y, x = normal(m, d, seed=seed + 1), normal(n, d, seed=seed + 2)
    x = x / ((x @ form) * x).sum(-1, keepdim=True).sqrt()
    close(attention_weights(y, x, form), kernel_weights(y, x, form, reweighted=False))


def test_attention_is_not_the_kernel_in_general():
    y, x, form = normal(5, 2), normal(7, 2, seed=1), torch.eye(2, dtype=torch.float64)
    difference = attention_weights(y, x, form) - kernel_weights(y, x, form, reweighted=False)
    assert difference.abs().max() > 0.01


# --- Proposition 3.5 ------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(shapes, st.floats(0.2, 3.0), st.booleans())
def test_the_block_is_the_kernel_density_estimate(shape, h, linear):
    d, m, n, seed = shape
    y, x = normal(m, d, seed=seed), normal(n + 1, d, seed=seed + 1)
    result, expected = kde_block(d, h, linear=linear).estimate(y, x), KDE(h).fit(x).estimate(y)
    close(result.log_density, expected.log_density)
    close(result.score, expected.score)


@pytest.mark.parametrize("linear", [False, True])
def test_the_block_equals_scikit_learn_and_autograd(linear):
    y, x, h = normal(20, 3), normal(50, 3, seed=1), 0.4
    y.requires_grad_()
    log_density, score = kde_block(3, h, linear=linear).estimate(y, x)
    sklearn_kde = KernelDensity(bandwidth=h, rtol=0).fit(x.numpy())
    np.testing.assert_allclose(
        log_density.detach().numpy(), sklearn_kde.score_samples(y.detach().numpy()), rtol=1e-10
    )
    close(score, torch.autograd.grad(log_density.sum(), y)[0])


@pytest.mark.parametrize("linear", [False, True])
def test_width_and_biases_are_those_of_the_proposition(linear):
    d = 3
    block = kde_block(d, 0.5, linear=linear)
    width = 2 * d + 2 if linear else 2 * d + 1
    assert lift(normal(4, d), constant=linear).shape == (4, width)
    assert block.attention.query.shape == block.attention.key.shape == (width, d + 1)
    has_bias = bool(block.attention.query_bias.any()), block.density_bias != 0
    assert has_bias == ((False, False) if linear else (True, True))


def test_one_block_serves_every_sample_size_and_batches():
    block = kde_block(2, 0.7)
    x, y = normal(3, 4, 9, 2), normal(3, 4, 5, 2, seed=1)
    for n in (2, 9):
        result, expected = block.estimate(y, x[..., :n, :]), KDE(0.7).fit(x[..., :n, :]).estimate(y)
        close(result.log_density, expected.log_density)
        close(result.score, expected.score)


def test_without_the_lift_the_block_is_not_the_estimate():
    """Remark A.4: the key-only quadratic is what the squared-norm coordinate supplies."""
    y, x = normal(5, 2), normal(8, 2, seed=1)
    block = kde_block(2, 0.7).attention
    tokens = lift(x)
    tokens[..., 2] = 0
    output, _ = block(lift(y), tokens)
    assert (output - block(lift(y), lift(x))[0]).abs().max() > 0.01


# --- Corollary 3.6 and Remark A.5, on the normalizer ------------------------------------------------------


def test_self_attention_exposes_the_normalizer_on_its_diagonal():
    """With Y = X, a_ii = 1 / Z_i, so the weights alone give the density at the sample points."""
    x, h = normal(12, 2), 0.6
    close(kde_block(2, h).estimate(x, x).score, KDE(h).fit(x).score(x))
    weights = kernel_weights(x, x, torch.eye(2, dtype=torch.float64) / h**2, reweighted=False)
    log_density = -weights.diagonal().log() - math.log(12) - math.log(2 * math.pi * h**2)
    close(log_density, KDE(h).fit(x).log_density(x))


@pytest.mark.parametrize("h", [0.5, 1.0, 2.0])
def test_three_points_share_the_output_but_not_the_density(h):
    spreads = [0.1, 1.0, 3.0]
    outputs, log_densities = zip(*(three_points(a, h) for a in spreads), strict=True)
    for a, output, log_density in zip(spreads, outputs, log_densities, strict=True):
        assert output.abs().max() < 1e-15
        assert log_density.exp().item() == pytest.approx(norm.pdf(0, [0, a, -a], h).mean(), rel=1e-10)
    assert log_densities[0] > log_densities[1] > log_densities[2]


def test_away_from_the_sample_not_even_all_weights_give_the_density():
    """Contexts on spheres of two radii about the query: the same weights, different densities."""
    directions = normal(6, 2)
    directions = directions / directions.norm(dim=-1, keepdim=True)
    y, form = torch.zeros(1, 2, dtype=torch.float64), torch.eye(2, dtype=torch.float64)
    small, large = (kernel_weights(y, r * directions, form, reweighted=False) for r in (1.0, 2.0))
    close(small, large)
    block = kde_block(2, 1.0)
    gap = block.estimate(y, directions).log_density - block.estimate(y, 2 * directions).log_density
    close(gap, torch.full((1,), 1.5, dtype=torch.float64))  # (2^2 - 1^2) / 2


# --- Proposition B.1: whitening is a bandwidth matrix -----------------------------------------------------


def scatter_frame(x):
    """The frame of the paper's listing: S = Xc' Xc, not divided by n."""
    center = x.mean(-2, keepdim=True)
    values, vectors = torch.linalg.eigh((x - center).mT @ (x - center))
    matrix, inverse = ((vectors * values**power) @ vectors.mT for power in (-0.5, 0.5))
    return Frame(center, matrix, inverse, -0.5 * values.log().sum())


@pytest.mark.parametrize("fit", [Whiten().fit, Standardize().fit, Identity().fit, scatter_frame])
@pytest.mark.parametrize("h", [0.2, 1.0])
def test_a_scalar_bandwidth_in_a_frame_is_a_bandwidth_matrix(fit, h):
    mix = normal(3, 3, seed=2)
    x, y = normal(30, 3) @ mix + 4, normal(10, 3, seed=1) @ mix + 4
    frame = fit(x)
    result, expected = framed_kde(y, x, frame, h), KDE(frame_bandwidth(frame, h)).fit(x).estimate(y)
    close(result.log_density, expected.log_density)
    close(result.score, expected.score)


def test_the_bandwidth_matrix_of_whitening_is_h2_times_the_covariance():
    x = normal(40, 3) @ normal(3, 3, seed=1)
    covariance = torch.from_numpy(np.cov(x.numpy().T, bias=True))
    close(frame_bandwidth(Whiten().fit(x), 0.5), 0.25 * covariance)
    centered = x - x.mean(0)
    close(frame_bandwidth(scatter_frame(x), 0.5), 0.25 * centered.T @ centered)

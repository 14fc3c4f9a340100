"""Bandwidth rules against scipy, the paper and their definition."""

import numpy as np
import pytest
import torch
from helpers import far_sample
from scipy.stats import gaussian_kde

from discoformer.baselines import KDE
from discoformer.core.checks import DataError

RTOL = 1e-10


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("rule, scipy_rule", [("scott-full", "scott"), ("silverman", "silverman")])
@pytest.mark.parametrize("weighted", [False, True])
def test_full_covariance_rules_equal_scipy(d, rule, scipy_rule, weighted):
    x, y = far_sample(80, d), far_sample(30, d, seed=1)
    w = np.random.default_rng(2).uniform(0.1, 3, 80) if weighted else None
    scipy_kde = gaussian_kde(x.T, bw_method=scipy_rule, weights=w)
    field = KDE(rule).fit(x, w)
    np.testing.assert_allclose(field.log_density(y), scipy_kde.logpdf(y.T), rtol=RTOL)
    np.testing.assert_allclose(field.bandwidth.numpy(), scipy_kde.covariance, rtol=RTOL)


def test_scott_is_the_papers():
    x = far_sample(50, 4)
    h = x.std(0, ddof=1) * 50 ** (-1 / 8)
    np.testing.assert_allclose(KDE().fit(x).bandwidth.numpy(), np.diag(h**2), rtol=RTOL)


def test_scott_with_weights_is_the_diagonal_of_scipys():
    x, w = far_sample(50, 4), np.random.default_rng(1).exponential(size=50)
    expected = np.diag(gaussian_kde(x.T, weights=w).covariance)
    np.testing.assert_allclose(KDE("scott").fit(x, w).bandwidth.diagonal().numpy(), expected, rtol=RTOL)


@pytest.mark.parametrize("rule, shape", [("loo", "scott"), ("loo-full", "scott-full")])
@pytest.mark.parametrize("d", [1, 3])
def test_loo_rule_maximizes_the_leave_one_out_likelihood(rule, shape, d):
    rng = np.random.default_rng(d)
    x = np.concatenate([rng.normal(size=(60, d)), rng.normal(size=(60, d)) * 0.2 + 3])
    H = KDE(shape).fit(x).bandwidth

    def likelihood(multiple):
        return KDE(multiple**2 * H).fit(x).loo_log_density().mean().item()

    best = max(np.geomspace(0.02, 4, 400), key=likelihood)
    chosen = KDE(rule).fit(x).bandwidth
    multiple = (chosen[0, 0] / H[0, 0]).sqrt().item()
    torch.testing.assert_close(chosen, multiple**2 * H)
    assert multiple == pytest.approx(best, rel=0.015)
    assert likelihood(multiple) >= likelihood(best) - 1e-5


def test_loo_rule_finds_clusters_a_thousand_times_tighter_than_their_distance():
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], size=(200, 1)) + 1e-4 * rng.normal(size=(200, 1))
    assert 1e-5 < KDE("loo").fit(x).bandwidth.sqrt().item() < 1e-4


def test_loo_rule_survives_copies():
    """Each value occurs often: the naive likelihood is unbounded as h goes to zero."""
    x = np.round(np.random.default_rng(0).normal(size=(500, 1)), 1)
    assert 0.05 < KDE("loo").fit(x).bandwidth.sqrt().item() < 1.0


def test_loo_rule_on_a_large_sample_leaves_out_a_part_and_ignores_order(monkeypatch):
    from discoformer.baselines import bandwidths

    x = np.random.default_rng(0).normal(size=(600, 2))
    full = KDE("loo").fit(x).bandwidth[0, 0].sqrt().item()
    monkeypatch.setattr(bandwidths, "_LOO_ROWS", 200)
    monkeypatch.setattr(bandwidths, "_LOO_PAIRS", 1)
    part = KDE("loo").fit(x).bandwidth[0, 0].sqrt().item()
    assert part == pytest.approx(full, rel=0.25) and part != full
    assert KDE("loo").fit(x[::-1].copy()).bandwidth[0, 0].sqrt().item() == pytest.approx(part, rel=1e-6)


@pytest.mark.parametrize(
    "bandwidth, words",
    [
        ("scot", "unknown: use one of scott"),
        (0.0, "positive"),
        (-1.0, "positive"),
        (float("nan"), "finite"),
        ([1.0, 2.0], "2 value"),
        ([1.0, -2.0, 1.0], "positive"),
        (np.eye(2), "expected (3, 3)"),
        (np.diag([1.0, 1.0, -1.0]), "positive definite"),
        (np.triu(np.ones((3, 3))), "symmetric"),
        ([[1.0], [1.0, 2.0]], "not a number"),
    ],
)
def test_bad_bandwidths_are_named(bandwidth, words):
    with pytest.raises(DataError) as error:
        KDE(bandwidth).fit(far_sample(10))
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("rule", ["scott-full", "silverman", "loo-full"])
def test_singular_covariances_are_refused(rule):
    with pytest.raises(DataError, match="at least 4 rows"):
        KDE(rule).fit(far_sample(3))
    x = far_sample(20)
    x[:, 2] = x[:, 0] + x[:, 1]
    with pytest.raises(DataError, match="linear combination"):
        KDE(rule).fit(x)

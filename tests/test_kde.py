"""Kernel density estimates against scipy, scikit-learn, autograd and sums written out in full."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import gaussian_kde, kstest, multivariate_normal, norm
from sklearn.neighbors import KernelDensity

from discoformer.baselines import KDE, KDEField, oracle_bandwidth
from discoformer.baselines import kernel_sums as sums_module
from discoformer.baselines.kernel_sums import kernel_sums
from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate, Field

RTOL = 1e-10
RULES = ["scott", "scott-full", "silverman", "loo", "loo-full"]


def sample(n=60, d=3, seed=0, batch=()):
    """Correlated columns on different scales, far from the origin."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(d, d)) * np.geomspace(0.1, 10, d)
    return rng.normal(size=(*batch, n, d)) @ mix + 50.0


def tensor(array):
    return torch.tensor(array, dtype=torch.float64)


def brute_force(x, y, H, w=None):
    """Log density and score as the formulas say, one pair at a time."""
    w = np.full(len(x), 1 / len(x)) if w is None else w / w.sum()
    logs = np.array([[multivariate_normal(xj, H).logpdf(yi) for xj in x] for yi in y])
    with np.errstate(divide="ignore"):
        logs = logs + np.log(w)
    p = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    return logsumexp(logs, axis=1), (p @ x - y) @ np.linalg.inv(H)


# --- values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("rule, scipy_rule", [("scott-full", "scott"), ("silverman", "silverman")])
@pytest.mark.parametrize("weighted", [False, True])
def test_full_covariance_rules_equal_scipy(d, rule, scipy_rule, weighted):
    x, y = sample(80, d), sample(30, d, seed=1)
    w = np.random.default_rng(2).uniform(0.1, 3, 80) if weighted else None
    scipy_kde = gaussian_kde(x.T, bw_method=scipy_rule, weights=w)
    field = KDE(rule).fit(x, w)
    np.testing.assert_allclose(field.log_density(y), scipy_kde.logpdf(y.T), rtol=RTOL)
    np.testing.assert_allclose(field.bandwidth.numpy(), scipy_kde.covariance, rtol=RTOL)


@pytest.mark.parametrize("d", [1, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_number_equals_scikit_learn(d, weighted):
    x, y = sample(80, d), sample(30, d, seed=1)
    w = np.random.default_rng(2).uniform(0.1, 3, 80) if weighted else None
    sklearn_kde = KernelDensity(bandwidth=0.7, rtol=0).fit(x, sample_weight=w)
    np.testing.assert_allclose(KDE(0.7).fit(x, w).log_density(y), sklearn_kde.score_samples(y), rtol=RTOL)


def test_number_vector_and_matrix_equal_the_sum_written_out():
    x, y, w = sample(12), sample(5, seed=1), np.arange(12.0)  # the first weight is zero
    root = np.random.default_rng(3).normal(size=(3, 3))
    for bandwidth, H in [
        (2.0, 4.0 * np.eye(3)),
        ([1.0, 2.0, 3.0], np.diag([1.0, 4.0, 9.0])),
        (root @ root.T + np.eye(3), root @ root.T + np.eye(3)),
    ]:
        log_density, score = KDE(bandwidth).fit(x, w).estimate(y)
        expected = brute_force(x, y, H, w)
        np.testing.assert_allclose(log_density, expected[0], rtol=RTOL)
        np.testing.assert_allclose(score, expected[1], rtol=RTOL, atol=RTOL * np.abs(expected[1]).max())


def test_scott_is_the_papers():
    x = sample(50, 4)
    h = x.std(0, ddof=1) * 50 ** (-1 / 8)
    np.testing.assert_allclose(KDE().fit(x).bandwidth.numpy(), np.diag(h**2), rtol=RTOL)


def test_scott_with_weights_is_the_diagonal_of_scipys():
    x, w = sample(50, 4), np.random.default_rng(1).exponential(size=50)
    expected = np.diag(gaussian_kde(x.T, weights=w).covariance)
    np.testing.assert_allclose(KDE("scott").fit(x, w).bandwidth.diagonal().numpy(), expected, rtol=RTOL)


def test_whole_weights_repeat_rows_up_to_the_bandwidth():
    x, y, w = sample(20), sample(10, seed=1), np.arange(20)
    H = KDE("scott-full").fit(x).bandwidth
    repeated = KDE(H).fit(np.repeat(x, w, axis=0)).log_density(y)
    np.testing.assert_allclose(KDE(H).fit(x, w).log_density(y), repeated, rtol=RTOL)


def test_rows_of_weight_zero_change_nothing():
    x, y, w = sample(30), sample(10, seed=1), np.ones(30)
    w[20:] = 0
    x[20:] *= 1e6
    for rule in RULES:
        result, expected = KDE(rule).fit(x, w).estimate(y), KDE(rule).fit(x[:20]).estimate(y)
        np.testing.assert_allclose(result.log_density, expected.log_density, rtol=1e-9)
        np.testing.assert_allclose(result.score, expected.score, rtol=1e-7)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 12), st.floats(0.05, 5.0), st.integers(0, 10**6))
def test_density_integrates_to_one(n, h, seed):
    x = np.random.default_rng(seed).uniform(-3, 3, size=(n, 1))
    field = KDE(h).fit(x)
    grid = np.linspace(-3 - 12 * h, 3 + 12 * h, 20001)[:, None]
    assert np.trapezoid(np.exp(field.log_density(grid)), grid[:, 0]) == pytest.approx(1, abs=1e-6)


# --- score ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [*RULES, 0.5])
@pytest.mark.parametrize("shift", [0.0, 1e4], ids=["near", "far"])
def test_score_is_the_gradient_of_the_log_density(rule, shift):
    field = KDE(rule).fit(sample(40))
    y = tensor(sample(15, seed=1) + shift).requires_grad_()
    log_density, score = field.estimate(y)
    (gradient,) = torch.autograd.grad(log_density.sum(), y)
    torch.testing.assert_close(score, gradient, rtol=RTOL, atol=RTOL * float(gradient.abs().max()))


@pytest.mark.parametrize("rule", ["scott", "scott-full", 0.8])
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("memory", [sums_module.MEMORY, 600])  # all queries in one block, one at a time
def test_gradients_of_both_outputs_reach_queries_and_context(rule, far, memory, monkeypatch):
    if far:
        monkeypatch.setattr(sums_module, "_near_limit", lambda dtype: 0.0)
    x = tensor(sample(7, 2) / 10).requires_grad_()
    y = tensor(sample(3, 2, seed=1) / 10).requires_grad_()

    def both(x, y):
        return tuple(KDE(rule, memory=memory).fit(x).estimate(y))

    assert torch.autograd.gradcheck(both, (x, y))
    assert torch.autograd.gradgradcheck(lambda y: both(x.detach(), y), (y,))


@pytest.mark.parametrize("memory", [1, 8_000])  # blocks of queries, of samples
def test_recomputed_blocks_give_the_same_gradients(memory):
    def gradients(**options):
        x = tensor(sample(15, 2, batch=(5,))).requires_grad_()
        y = tensor(sample(6, 2, seed=1, batch=(5,))).requires_grad_()
        log_density, score = KDE(**options).fit(x).estimate(y)
        return torch.autograd.grad(log_density.sum() + score.square().sum(), (x, y))

    for result, expected in zip(gradients(memory=memory), gradients(), strict=True):
        torch.testing.assert_close(result, expected, rtol=1e-9, atol=1e-9)


def test_gradients_of_the_weights_are_right_next_to_a_weight_of_zero():
    x, y = tensor(sample(8, 2)), tensor(sample(1, 2, seed=1))
    w = torch.arange(8, dtype=torch.float64).requires_grad_()
    (gradient,) = torch.autograd.grad(KDE(20.0).fit(x, w).log_density(y).sum(), w)
    kernel = torch.exp(-torch.cdist(y, x)[0].square() / (2 * 20.0**2))
    expected = kernel / (w.detach() @ kernel) - 1 / w.detach().sum()
    assert bool(torch.isfinite(gradient).all())
    torch.testing.assert_close(gradient[1:], expected[1:], rtol=1e-9, atol=1e-12)


# --- blocks, batches, arrays --------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [1, 100, 3_000, 50_000])
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_blocks_cannot_change_the_answer(memory, far, batch, monkeypatch):
    if far:
        monkeypatch.setattr(sums_module, "_near_limit", lambda dtype: 0.0)
    x, y = sample(33, 2, batch=batch), sample(21, 2, seed=1, batch=batch)
    w = np.random.default_rng(2).uniform(size=(*batch, 33))
    whole, pieces = KDE().fit(x, w), KDE(memory=memory).fit(x, w)
    for expected, result in zip(whole.estimate(y), pieces.estimate(y), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(pieces.loo_log_density(), whole.loo_log_density(), rtol=1e-12, atol=0)


def test_a_large_sample_takes_several_blocks_and_equals_scipy():
    x, y = sample(5000, 2), sample(700, 2, seed=1)  # more than one block of rows and of columns
    np.testing.assert_allclose(
        KDE("scott-full").fit(x).log_density(y), gaussian_kde(x.T).logpdf(y.T), rtol=RTOL
    )


@pytest.mark.parametrize("rule", RULES)
def test_a_batch_is_a_loop(rule):
    x, y = sample(25, batch=(2, 3)), sample(8, seed=1, batch=(2, 3))
    w = np.random.default_rng(2).uniform(size=(2, 3, 25))
    field = KDE(rule).fit(x, w)
    log_density, score = field.estimate(y)
    loo = field.loo_log_density()
    for b in np.ndindex(2, 3):
        one = KDE(rule).fit(x[b], w[b])
        np.testing.assert_allclose(log_density[b], one.log_density(y[b]), rtol=RTOL)
        np.testing.assert_allclose(score[b], one.score(y[b]), rtol=1e-8)
        torch.testing.assert_close(loo[b], one.loo_log_density(), rtol=RTOL, atol=0)


def test_one_context_for_a_batch_of_queries_and_the_reverse():
    x, y = sample(25, batch=(4,)), sample(8, seed=1, batch=(4,))
    shared_context, shared_queries = KDE(2.0).fit(x[0]).log_density(y), KDE(2.0).fit(x).log_density(y[0])
    assert shared_context.shape == shared_queries.shape == (4, 8)
    for b in range(4):
        np.testing.assert_allclose(shared_context[b], KDE(2.0).fit(x[0]).log_density(y[b]), rtol=RTOL)
        np.testing.assert_allclose(shared_queries[b], KDE(2.0).fit(x[b]).log_density(y[0]), rtol=RTOL)


def test_a_batch_of_bandwidth_matrices():
    x = sample(25, batch=(2,))
    H = KDE("scott-full").fit(x).bandwidth
    assert H.shape == (2, 3, 3)
    np.testing.assert_allclose(
        KDE(H).fit(x).log_density(x), KDE("scott-full").fit(x).log_density(x), rtol=RTOL
    )


def test_arrays_give_arrays_and_tensors_give_tensors():
    x, y = sample(20), sample(5, seed=1)
    field = KDE().fit(x)
    arrays, tensors = field.estimate(y), field.estimate(tensor(y))
    for array, result in zip(arrays, tensors, strict=True):
        assert isinstance(array, np.ndarray) and isinstance(result, torch.Tensor)
        np.testing.assert_array_equal(array, result.numpy())


def test_float32_stays_float32_and_close():
    x, y = tensor(sample(200) - 50), tensor(sample(50, seed=1) - 50)
    single, double = KDE().fit(x.float()).estimate(y.float()), KDE().fit(x).estimate(y)
    assert single.log_density.dtype == single.score.dtype == torch.float32
    torch.testing.assert_close(single.log_density.double(), double.log_density, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(single.score.double(), double.score, rtol=1e-3, atol=1e-3)


# --- extremes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("distance", [1e3, 1e6, 1e15])
def test_far_queries_are_finite_and_right(dtype, distance):
    x = tensor(sample(30, 2) - 50).to(dtype)
    y = torch.tensor([[distance, 0.0], [0.0, -distance]], dtype=dtype)
    log_density, score = KDE(1.0).fit(x).estimate(y)
    exact = torch.cdist(y.double(), x.double()).square().amin(-1) / 2
    torch.testing.assert_close(log_density.double(), -exact, rtol=1e-2, atol=0)
    torch.testing.assert_close(score, -y, rtol=1e-1, atol=0.1 * distance)


def test_queries_whose_squares_overflow_are_finite():
    log_density, score = KDE(1e-6).fit(sample(30, 2)).estimate(np.array([[1e149, 0.0]]))
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


@pytest.mark.parametrize("d", [30, 100])
def test_high_dimension_stays_in_log_space(d):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, d)), rng.normal(size=(20, d))
    log_density, score = KDE().fit(x).estimate(y)
    h = x.std(0, ddof=1) * 300 ** (-1 / (d + 4))
    expected = brute_force(x, y[:3], np.diag(h**2))
    np.testing.assert_allclose(log_density[:3], expected[0], rtol=RTOL)
    np.testing.assert_allclose(score[:3], expected[1], rtol=1e-9, atol=1e-9)


def test_fewer_rows_than_columns_is_fine_per_column():
    log_density, score = KDE("scott").fit(sample(5, 20)).estimate(sample(3, 20, seed=1))
    assert np.isfinite(log_density).all() and np.isfinite(score).all()


# --- leave-one-out ----------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_loo_log_density_is_the_estimate_without_the_point(weighted):
    x = sample(15, 2)
    w = np.random.default_rng(1).uniform(0.1, 1, 15) if weighted else np.ones(15)
    field = KDE(1.5).fit(x, w)
    assert isinstance(field, KDEField)
    for i, value in enumerate(field.loo_log_density().tolist()):
        rest = KDE(1.5).fit(np.delete(x, i, 0), np.delete(w, i)).log_density(x[i : i + 1])
        assert value == pytest.approx(float(rest[0]), rel=RTOL)


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


# --- oracle -----------------------------------------------------------------------------------------


class StandardNormal(Field):
    """The exact answer for N(0, I)."""

    def __init__(self, dim):
        self._dim = dim

    @property
    def dim(self):
        return self._dim

    def _estimate(self, queries):
        log_density = -0.5 * (queries.square().sum(-1) + self.dim * math.log(2 * math.pi))
        return Estimate(log_density, -queries)


@pytest.mark.parametrize("by", ["score", "log_density"])
@pytest.mark.parametrize("d", [1, 100])
def test_oracle_is_the_best_of_its_grid(by, d):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 150, d)), rng.normal(size=(2, 80, d))
    grid = [0.5, 0.7, 1.0, 1.4, 2.0]
    H = oracle_bandwidth(x, StandardNormal(d), y, by=by, multiples=grid)
    truth = StandardNormal(d).estimate(y)

    def error(bandwidth, b):
        result = KDE(bandwidth).fit(x[b]).estimate(y[b])
        return np.square(getattr(result, by) - getattr(truth, by)[b]).mean()

    for b in range(2):
        scott = KDE("scott").fit(x[b]).bandwidth
        best = min(error(c**2 * scott, b) for c in grid)
        assert error(H[b], b) == pytest.approx(best, rel=1e-9)


def test_oracle_recovers_a_bandwidth():
    x = sample(100)
    truth = KDE("scott-full").fit(x)
    H = oracle_bandwidth(x, truth, x, rule="scott-full")
    torch.testing.assert_close(H, truth.bandwidth)


# --- errors -----------------------------------------------------------------------------------------


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
        KDE(bandwidth).fit(sample(10))
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("rule", RULES)
def test_samples_without_a_density_are_refused(rule):
    constant = sample(10)
    constant[:, 1] = 7.0
    with pytest.raises(DataError, match="column 1"):
        KDE(rule).fit(constant)
    with pytest.raises(DataError, match="weight is on one row"):
        KDE(rule).fit(sample(10), np.eye(10)[3])
    varying = constant.copy()
    varying[0, 1] = 8.0
    with pytest.raises(DataError, match="column 1"):  # constant where the weight is
        KDE(rule).fit(varying, np.r_[0.0, np.ones(9)])


@pytest.mark.parametrize("rule", ["scott-full", "silverman", "loo-full"])
def test_singular_covariances_are_refused(rule):
    with pytest.raises(DataError, match="at least 4 rows"):
        KDE(rule).fit(sample(3))
    x = sample(20)
    x[:, 2] = x[:, 0] + x[:, 1]
    with pytest.raises(DataError, match="linear combination"):
        KDE(rule).fit(x)


def test_other_errors():
    x = sample(10)
    with pytest.raises(DataError, match="2 column"):
        KDE().fit(x).estimate(x[:, :2])
    with pytest.raises(DataError, match="left out"):
        KDE(1.0).fit(x, np.eye(10)[0]).loo_log_density()
    for multiples in ([], [0.0, 1.0], [1.0, -1.0], [math.nan]):
        with pytest.raises(DataError, match="positive"):
            oracle_bandwidth(x, KDE().fit(x), x, multiples=multiples)
    with pytest.raises(DataError, match="by='density'"):
        oracle_bandwidth(x, KDE().fit(x), x, by="density")
    with pytest.raises(DataError, match="2 column"):
        oracle_bandwidth(x, KDE().fit(x), x[:, :2])


def test_kernel_sums_leave_their_inputs_alone():
    x, y, a = tensor(sample(9)), tensor(sample(4, seed=1)), torch.zeros(9, dtype=torch.float64)
    copies = [t.clone() for t in (y, x, a)]
    kernel_sums(y, x, a)
    for before, after in zip(copies, (y, x, a), strict=True):
        assert torch.equal(before, after)


# --- sampling ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rule", ["scott", "scott-full"])
def test_draws_have_the_mean_and_covariance_of_the_density(rule, weighted):
    """Covariance of the sample plus that of the kernel, exactly; compared in standardized units."""
    x = sample(40, 3)
    w = np.random.default_rng(2).uniform(size=40) ** 4 if weighted else np.ones(40)
    w[7] = 0.0
    field = KDE(rule).fit(x, w)
    n = 40_000
    drawn = field.sample(n, torch.Generator().manual_seed(0)).numpy()
    assert drawn.shape == (n, 3)
    mean = np.average(x, axis=0, weights=w)
    covariance = np.cov(x.T, aweights=w, ddof=0) + field.bandwidth.numpy()
    root = np.linalg.inv(np.linalg.cholesky(covariance))
    white = (drawn - mean) @ root.T
    np.testing.assert_allclose(white.mean(0), 0, atol=5 / math.sqrt(n))
    np.testing.assert_allclose(np.cov(white.T), np.eye(3), atol=10 / math.sqrt(n))


def test_draws_follow_the_density():
    """The distribution function at the draws is uniform."""
    x = np.array([-3.0, 0.0, 0.5])
    drawn = KDE(0.3).fit(x[:, None]).sample(4000, torch.Generator().manual_seed(0)).numpy()
    assert kstest(norm.cdf(drawn, loc=x, scale=0.3).mean(1), "uniform").pvalue > 1e-3


def test_a_batch_is_drawn_sample_by_sample_and_seeds_repeat():
    field = KDE(0.01).fit(tensor(np.arange(6.0).reshape(2, 1, 3, 1) * 10))
    drawn = field.sample(50, torch.Generator().manual_seed(1))
    assert drawn.shape == (2, 1, 50, 1)
    assert set((drawn / 10).round().flatten(1)[0].tolist()) == {0, 1, 2}
    assert set((drawn / 10).round().flatten(1)[1].tolist()) == {3, 4, 5}
    torch.testing.assert_close(drawn, field.sample(50, torch.Generator().manual_seed(1)), rtol=0, atol=0)

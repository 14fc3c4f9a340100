"""Kernel density estimates against scipy, scikit-learn, autograd and sums written out in full."""

import math

import numpy as np
import pytest
import torch
from helpers import far_sample
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import gaussian_kde, kstest, multivariate_normal, norm
from sklearn.neighbors import KernelDensity

from discoformer.baselines import KDE, KDEField
from discoformer.core.checks import DataError
from discoformer.core.kernel_sums import MEMORY

RTOL = 1e-10
RULES = ["scott", "scott-full", "silverman", "loo", "loo-full"]


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


@pytest.mark.parametrize("d", [1, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_number_equals_scikit_learn(d, weighted):
    x, y = far_sample(80, d), far_sample(30, d, seed=1)
    w = np.random.default_rng(2).uniform(0.1, 3, 80) if weighted else None
    sklearn_kde = KernelDensity(bandwidth=0.7, rtol=0).fit(x, sample_weight=w)
    np.testing.assert_allclose(KDE(0.7).fit(x, w).log_density(y), sklearn_kde.score_samples(y), rtol=RTOL)


def test_number_vector_and_matrix_equal_the_sum_written_out():
    x, y, w = far_sample(12), far_sample(5, seed=1), np.arange(12.0)  # the first weight is zero
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


def test_whole_weights_repeat_rows_up_to_the_bandwidth():
    x, y, w = far_sample(20), far_sample(10, seed=1), np.arange(20)
    H = KDE("scott-full").fit(x).bandwidth
    repeated = KDE(H).fit(np.repeat(x, w, axis=0)).log_density(y)
    np.testing.assert_allclose(KDE(H).fit(x, w).log_density(y), repeated, rtol=RTOL)


def test_rows_of_weight_zero_change_nothing():
    x, y, w = far_sample(30), far_sample(10, seed=1), np.ones(30)
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


@pytest.mark.parametrize("rule", [*RULES, 0.5])
@pytest.mark.parametrize("shift", [0.0, 1e4], ids=["near", "far"])
def test_score_is_the_gradient_of_the_log_density(rule, shift):
    field = KDE(rule).fit(far_sample(40))
    y = tensor(far_sample(15, seed=1) + shift).requires_grad_()
    log_density, score = field.estimate(y)
    (gradient,) = torch.autograd.grad(log_density.sum(), y)
    torch.testing.assert_close(score, gradient, rtol=RTOL, atol=RTOL * float(gradient.abs().max()))


def test_gradients_of_the_weights_are_right_next_to_a_weight_of_zero():
    x, y = tensor(far_sample(8, 2)), tensor(far_sample(1, 2, seed=1))
    w = torch.arange(8, dtype=torch.float64).requires_grad_()
    (gradient,) = torch.autograd.grad(KDE(20.0).fit(x, w).log_density(y).sum(), w)
    kernel = torch.exp(-torch.cdist(y, x)[0].square() / (2 * 20.0**2))
    expected = kernel / (w.detach() @ kernel) - 1 / w.detach().sum()
    assert bool(torch.isfinite(gradient).all())
    torch.testing.assert_close(gradient[1:], expected[1:], rtol=1e-9, atol=1e-12)


def test_a_large_sample_takes_several_blocks_and_equals_scipy():
    x, y = far_sample(5000, 2), far_sample(700, 2, seed=1)  # more than one block of rows and of columns
    np.testing.assert_allclose(
        KDE("scott-full").fit(x).log_density(y), gaussian_kde(x.T).logpdf(y.T), rtol=RTOL
    )


@pytest.mark.parametrize("rule", RULES)
def test_a_batch_is_a_loop(rule):
    x, y = far_sample(25, batch=(2, 3)), far_sample(8, seed=1, batch=(2, 3))
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
    x, y = far_sample(25, batch=(4,)), far_sample(8, seed=1, batch=(4,))
    shared_context, shared_queries = KDE(2.0).fit(x[0]).log_density(y), KDE(2.0).fit(x).log_density(y[0])
    assert shared_context.shape == shared_queries.shape == (4, 8)
    for b in range(4):
        np.testing.assert_allclose(shared_context[b], KDE(2.0).fit(x[0]).log_density(y[b]), rtol=RTOL)
        np.testing.assert_allclose(shared_queries[b], KDE(2.0).fit(x[b]).log_density(y[0]), rtol=RTOL)


def test_a_batch_of_bandwidth_matrices():
    x = far_sample(25, batch=(2,))
    H = KDE("scott-full").fit(x).bandwidth
    assert H.shape == (2, 3, 3)
    np.testing.assert_allclose(
        KDE(H).fit(x).log_density(x), KDE("scott-full").fit(x).log_density(x), rtol=RTOL
    )


def test_arrays_give_arrays_and_tensors_give_tensors():
    x, y = far_sample(20), far_sample(5, seed=1)
    field = KDE().fit(x)
    arrays, tensors = field.estimate(y), field.estimate(tensor(y))
    for array, result in zip(arrays, tensors, strict=True):
        assert isinstance(array, np.ndarray) and isinstance(result, torch.Tensor)
        np.testing.assert_array_equal(array, result.numpy())


def test_float32_stays_float32_and_close():
    x, y = tensor(far_sample(200) - 50), tensor(far_sample(50, seed=1) - 50)
    single, double = KDE().fit(x.float()).estimate(y.float()), KDE().fit(x).estimate(y)
    assert single.log_density.dtype == single.score.dtype == torch.float32
    torch.testing.assert_close(single.log_density.double(), double.log_density, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(single.score.double(), double.score, rtol=1e-3, atol=1e-3)


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
    log_density, score = KDE("scott").fit(far_sample(5, 20)).estimate(far_sample(3, 20, seed=1))
    assert np.isfinite(log_density).all() and np.isfinite(score).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_loo_log_density_is_the_estimate_without_the_point(weighted):
    x = far_sample(15, 2)
    w = np.random.default_rng(1).uniform(0.1, 1, 15) if weighted else np.ones(15)
    field = KDE(1.5).fit(x, w)
    assert isinstance(field, KDEField)
    for i, value in enumerate(field.loo_log_density().tolist()):
        rest = KDE(1.5).fit(np.delete(x, i, 0), np.delete(w, i)).log_density(x[i : i + 1])
        assert value == pytest.approx(float(rest[0]), rel=RTOL)


@pytest.mark.parametrize("rule", RULES)
def test_samples_without_a_density_are_refused(rule):
    constant = far_sample(10)
    constant[:, 1] = 7.0
    with pytest.raises(DataError, match="column 1"):
        KDE(rule).fit(constant)
    with pytest.raises(DataError, match="weight is on one row"):
        KDE(rule).fit(far_sample(10), np.eye(10)[3])
    varying = constant.copy()
    varying[0, 1] = 8.0
    with pytest.raises(DataError, match="column 1"):  # constant where the weight is
        KDE(rule).fit(varying, np.r_[0.0, np.ones(9)])


def test_other_errors():
    x = far_sample(10)
    with pytest.raises(DataError, match="2 column"):
        KDE().fit(x).estimate(x[:, :2])
    with pytest.raises(DataError, match="left out"):
        KDE(1.0).fit(x, np.eye(10)[0]).loo_log_density()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rule", ["scott", "scott-full"])
def test_draws_have_the_mean_and_covariance_of_the_density(rule, weighted):
    """Covariance of the sample plus that of the kernel, exactly; compared in standardized units."""
    x = far_sample(40, 3)
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


# -- the estimate as a distribution -----------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["equal", "weighted"])
def pair(request):
    """Our estimate of three columns and scipy's, with the same bandwidth."""
    x = far_sample(40, 3)
    w = np.random.default_rng(2).exponential(size=40) if request.param else None
    return KDE("scott-full").fit(x, w), gaussian_kde(x.T, weights=w)


@pytest.mark.parametrize("columns", [[1], [2, 0], [2, 1, 0]])
def test_marginals_equal_scipys(pair, columns):
    ours, theirs = pair
    y = far_sample(10, 3, seed=1)[:, columns]
    margin = ours.marginal(columns)
    assert isinstance(margin, KDEField)
    np.testing.assert_allclose(margin.log_density(y), theirs.marginal(columns).logpdf(y.T), rtol=1e-9)


def test_a_marginal_is_the_integral_over_the_other_columns(pair):
    joint = pair[0].marginal([0, 2])
    grid = tensor(np.linspace(-100, 200, 30_001))
    for value in joint.sample(2, torch.Generator().manual_seed(0))[:, :1]:
        mass = torch.trapezoid(joint.log_density(torch.stack([value.expand_as(grid), grid], -1)).exp(), grid)
        torch.testing.assert_close(mass, joint.marginal([0]).log_density(value[None]).exp()[0])


@pytest.mark.parametrize("given", [[0], [2, 0]])
def test_conditional_times_marginal_is_the_joint(pair, given):
    field = pair[0]
    rest = [c for c in range(3) if c not in given]
    for row in field.sample(5, torch.Generator().manual_seed(1)):
        conditional = field.conditional(given, row[given])
        total = field.marginal(given).log_density(row[None, given]) + conditional.log_density(row[None, rest])
        torch.testing.assert_close(total, field.log_density(row[None]))
    exact = field.conditional([0], [50.1]).log_density(far_sample(4, 3)[:, 1:])
    same = field.conditional([0], np.array([50.1])).log_density(far_sample(4, 3)[:, 1:])
    np.testing.assert_array_equal(exact, same)  # a list loses no digits


def test_the_distribution_function_is_scipys(pair):
    ours, theirs = pair
    margin, other = ours.marginal([1]), theirs.marginal([1])
    y = np.linspace(*margin.quantile([1e-3, 0.999]).flatten().tolist(), 9)
    expected = [other.integrate_box_1d(-np.inf, point) for point in y]
    np.testing.assert_allclose(margin.cdf(y[:, None]), expected, rtol=1e-9)


@pytest.mark.parametrize("memory", [1, MEMORY])
def test_quantiles_are_the_inverse_of_the_distribution_function(pair, memory):
    field = pair[0].marginal([2])
    field.memory = memory
    shares = tensor([1e-9, 0.05, 0.5, 0.7, 1 - 1e-9])
    torch.testing.assert_close(field.cdf(field.quantile(shares)), shares, rtol=1e-9, atol=1e-15)
    y = field.sample(6, torch.Generator().manual_seed(0))
    torch.testing.assert_close(field.quantile(field.cdf(y)), y, rtol=1e-9, atol=1e-9)


def test_quantiles_equal_those_of_the_normal_law():
    field = KDE(2.0).fit([[5.0], [5.0]])
    shares = np.array([1e-12, 0.2, 0.5, 0.975])
    np.testing.assert_allclose(field.quantile(shares).flatten(), norm.ppf(shares, 5, 2), rtol=1e-9)


def test_linear_images_are_those_of_the_sample_and_the_kernel(pair):
    field = pair[0]
    matrix, shift = tensor(np.random.default_rng(3).normal(size=(3, 3))), tensor([[1.0, -2.0, 3.0]])
    y = field.sample(5, torch.Generator().manual_seed(2))
    moved = field.transform(matrix, shift)
    expected = field.log_density(y) - torch.linalg.slogdet(matrix)[1]
    torch.testing.assert_close(moved.log_density(y @ matrix + shift), expected, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(moved.bandwidth, matrix.mT @ field.bandwidth @ matrix)
    plane = field.transform(matrix[:, :2], shift[:, :2])  # fewer columns: a margin of the image
    torch.testing.assert_close(
        plane.log_density((y @ matrix + shift)[:, :2]),
        moved.marginal([0, 1]).log_density((y @ matrix + shift)[:, :2]),
    )


def test_a_batch_is_a_loop_as_a_distribution():
    x, y = far_sample(25, 2, batch=(3,)), far_sample(4, 2, seed=1, batch=(3,))
    field = KDE("scott-full").fit(x)
    shares = np.array([[0.1, 0.5, 0.9]] * 3)
    for b in range(3):
        one = KDE("scott-full").fit(x[b])
        for mine, own in (
            (field.marginal([1]).log_density(y[..., [1]])[b], one.marginal([1]).log_density(y[b][:, [1]])),
            (field.marginal([1]).cdf(y[..., [1]])[b], one.marginal([1]).cdf(y[b][:, [1]])),
            (field.marginal([0]).quantile(shares)[b], one.marginal([0]).quantile(shares[b])),
            (
                field.conditional([0], y[:, 0, :1]).log_density(y[..., [1]])[b],
                one.conditional([0], y[b, 0, :1]).log_density(y[b][:, [1]]),
            ),
        ):
            np.testing.assert_allclose(mine, own, rtol=1e-8, atol=1e-12)


def test_what_is_no_question_to_a_distribution_is_refused(pair):
    field = pair[0]
    with pytest.raises(DataError, match="distinct numbers from 0 to 2"):
        field.marginal([0, 3])
    with pytest.raises(DataError, match="none is left"):
        field.conditional([0, 1, 2], [0.0] * 3)
    with pytest.raises(DataError, match="needs one column, not 3"):
        field.cdf(far_sample(2, 3))
    with pytest.raises(DataError, match="needs one column, not 3"):
        field.quantile([0.5])
    with pytest.raises(DataError, match="above 0 and below 1"):
        field.marginal([0]).quantile([0.0])

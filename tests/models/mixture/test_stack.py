"""Stacking: weights by held-out likelihood, one mixture in the end."""

import pytest
import torch
from helpers import F64, gmm_sample, mixture_network

from discoformer.core.checks import DataError
from discoformer.core.frames import Standardize
from discoformer.core.pushforward import Pushforward
from discoformer.models.attention.core import AttentionConfig, AttentionCore
from discoformer.models.attention.network import AttentionNetwork
from discoformer.models.mixture.folds import Part, hold_out
from discoformer.models.mixture.lift import _pairs
from discoformer.models.mixture.network import MixtureNetwork
from discoformer.models.mixture.stack import Framed, Stack, combine, drop_idle_members, stacking_weights
from discoformer.models.registry import load_model

shapes = pytest.mark.parametrize(("n", "d"), [(120, 3), (600, 5)])  # without `drop_idle_members`, and with it


def member(axis: bool, seed: int) -> MixtureNetwork:
    return mixture_network(axis, seed=seed, layers=2, slots=6)


def weights_of(field: Pushforward) -> torch.Tensor:
    return field.base.log_weight.exp()


def test_density_is_the_weighted_sum_of_the_members() -> None:
    x = gmm_sample()
    fields = [m.encode(x) for m in (member(False, 0), member(True, 1))]
    framed = [Framed(f.transforms[-1], f.base, axis) for f, axis in zip(fields, (False, True), strict=True)]
    share = torch.tensor([0.3, 0.7], dtype=F64)
    field = combine(framed, share.log(), Standardize().fit(x)).density()
    parts = torch.stack([f.log_density(x) for f in fields], -1)
    torch.testing.assert_close(field.log_density(x), torch.logsumexp(parts + share.log(), -1))
    torch.testing.assert_close(weights_of(field).sum(), torch.tensor(1.0, dtype=F64))


def test_density_of_the_stack_is_normalized_and_beats_its_members_on_points_left_out() -> None:
    members = [member(False, 0), member(True, 1)]
    x, fresh = gmm_sample(800).split(400)
    field = Stack(members).encode(x)
    torch.testing.assert_close(weights_of(field).sum(), torch.tensor(1.0, dtype=F64))
    ours = field.log_density(fresh).mean()
    assert all(ours > m.encode(x).log_density(fresh).mean() for m in members)


@shapes
def test_the_gradient_in_the_context_is_that_of_finite_differences(n: int, d: int) -> None:
    stack, x = Stack([member(False, 0), member(True, 1)]), gmm_sample(n, d)
    queries = x[:20] + 0.1
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=F64)
    tracked = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(stack.encode(tracked).log_density(queries).sum(), tracked)
    ahead, behind = (stack.encode(x + h * direction).log_density(queries).sum() for h in (1e-6, -1e-6))
    torch.testing.assert_close((gradient * direction).sum(), (ahead - behind) / 2e-6, rtol=1e-4, atol=1e-4)


def test_weights_that_want_a_gradient_are_refused_where_there_would_be_one() -> None:
    x = gmm_sample()
    weights = torch.ones(len(x), dtype=F64, requires_grad=True)
    for method in (member(False, 0), Stack([member(False, 0), member(True, 1)])):
        with pytest.raises(DataError, match="detach them"):
            method.fit(x, weights)
        with torch.no_grad():
            method.fit(x, weights)


def test_score_is_the_gradient() -> None:
    field = Stack([member(False, 0), member(True, 1)]).encode(gmm_sample())
    y = gmm_sample()[:20].requires_grad_()
    log_density, score = field.estimate(y)
    torch.testing.assert_close(score, torch.autograd.grad(log_density.sum(), y)[0], rtol=1e-8, atol=1e-8)


def test_gradients_pass_the_queries_of_a_field_that_was_fitted_without_any() -> None:
    stack, x = Stack([member(False, 0), member(True, 1)]), gmm_sample()
    with torch.no_grad():
        field = stack.encode(x)
    y = x[:20].clone().requires_grad_()
    log_density, score = field.estimate(y)
    torch.testing.assert_close(score, torch.autograd.grad(log_density.sum(), y)[0], rtol=1e-8, atol=1e-8)
    tracked = stack.encode(x.clone().requires_grad_()).log_density(x)
    torch.testing.assert_close(tracked, field.log_density(x), rtol=1e-9, atol=1e-9)


@shapes
def test_order_and_units_do_not_matter(n: int, d: int) -> None:
    stack = Stack([member(False, 0), member(True, 1)])
    x = gmm_sample(n, d)
    units = torch.logspace(-3, 3, d, dtype=F64)
    moved = (x[torch.randperm(len(x))] - 5) * units
    before, after = stack.encode(x).log_density(x), stack.encode(moved).log_density((x - 5) * units)
    torch.testing.assert_close(after + units.log().sum(), before, rtol=1e-8, atol=1e-8)


def test_order_does_not_matter_on_a_lattice() -> None:
    """Many points are equally far from the center and from one another: no rule may look at rows."""
    stack = Stack([member(False, 0), member(True, 1)])
    side = torch.arange(-4, 5, dtype=F64)
    x = torch.cartesian_prod(side, side)
    shuffled = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(0))]
    torch.testing.assert_close(stack.encode(shuffled).log_density(x), stack.encode(x).log_density(x))


def test_what_cannot_be_stacked_is_refused() -> None:
    attention = AttentionCore(AttentionConfig(dim=2, layers=1, width=8, heads=2, feedforward=8))
    for members in ([], [AttentionNetwork(attention, "whiten")], [Stack([member(False, 0)])]):
        with pytest.raises(DataError, match="made of networks with the mixture core"):
            Stack(members)
    with pytest.raises(DataError, match="at least 2"):
        Stack([member(False, 0)], folds=1)
    for folds in (0, 1):
        with pytest.raises(DataError, match="at least 2"):
            hold_out(Part(gmm_sample(), None), folds)


def test_samples_too_small_for_folds_have_equal_weights() -> None:
    stack = Stack([member(True, 0), member(True, 1)])
    for rows in (2, 3):
        field = stack.encode(gmm_sample()[:rows])
        weights = weights_of(field)
        assert float(weights[: len(weights) // 2].sum()) == 0.5
        assert bool(torch.isfinite(field.log_density(gmm_sample())).all())


@shapes
def test_batch_equals_loop(n: int, d: int) -> None:
    stack = Stack([member(False, 0), member(True, 1)])
    x = torch.stack([gmm_sample(n, d), gmm_sample(n, d) ** 3])
    both = stack.encode(x).log_density(x)
    for i in range(2):
        torch.testing.assert_close(stack.encode(x[i]).log_density(x[i]), both[i])


@shapes
def test_equal_weights_are_no_weights(n: int, d: int) -> None:
    stack, x = Stack([member(False, 0), member(True, 1)]), gmm_sample(n, d)
    weighted = stack.encode(x, torch.full((len(x),), 7.0, dtype=F64))
    torch.testing.assert_close(weighted.log_density(x), stack.encode(x).log_density(x))


def test_points_of_no_weight_do_not_change_the_answer_to_nan() -> None:
    x = gmm_sample(120)
    weights = torch.zeros(120, dtype=F64)
    weights[::4] = 1.0
    field = Stack([member(False, 0), member(True, 1)]).encode(x, weights)
    assert bool(torch.isfinite(field.log_density(x)).all())


def test_weights_maximize_the_held_out_likelihood() -> None:
    generator = torch.Generator().manual_seed(0)
    log_density = torch.randn(50, 3, generator=generator, dtype=F64)
    weights = stacking_weights(log_density, prior=0.0, rounds=3000, sharpen=1.0)

    def likelihood(w: torch.Tensor) -> float:
        return float(torch.logsumexp(log_density + w.log(), -1).sum())

    for other in torch.rand(200, 3, generator=generator, dtype=F64):
        assert likelihood(other / other.sum()) <= likelihood(weights) + 1e-6
    nothing = stacking_weights(log_density[:0], rounds=3)
    torch.testing.assert_close(nothing, torch.full((3,), 1 / 3, dtype=F64))


def test_gradients_pass_through_the_first_fit_of_a_process() -> None:
    """What a fit without gradients puts into caches must serve gradients later."""
    _pairs.cache_clear()
    field = Stack([member(False, 0), member(True, 1)]).fit(gmm_sample())
    y = gmm_sample(5).requires_grad_()
    (gradient,) = torch.autograd.grad(field.log_density(y).sum(), y)
    torch.testing.assert_close(gradient, field.score(y).detach())


def test_doubtful_members_keep_their_weight_only_if_they_gain() -> None:
    good = torch.randn(200, generator=torch.Generator().manual_seed(0), dtype=F64)
    doubtful = torch.tensor([True, False])
    held_out = torch.stack([torch.stack([good + gain, good], -1) for gain in (0.0, 0.01, 0.5)])
    left = drop_idle_members(
        held_out, None, doubtful
    )  # in all 0, 2 and 100 nats; the price is half of log 200, 2.6
    assert left[:2].exp().tolist() == [[pytest.approx(0, abs=1e-30), 1.0]] * 2
    torch.testing.assert_close(left[2], stacking_weights(held_out[2]).log())


def test_gain_is_of_the_points_that_count() -> None:
    counts = torch.zeros(200, dtype=F64)
    counts[::10] = 7.0  # worth twenty points: the price is half of log 20, 1.5 nats
    good = torch.randn(200, generator=torch.Generator().manual_seed(1), dtype=F64)
    doubtful = torch.tensor([True, False])
    for gain, kept in ((0.05, False), (0.5, True)):  # one nat in all, and ten
        held_out = torch.stack([good + torch.where(counts > 0, gain, 5.0), good], -1)
        assert bool(drop_idle_members(held_out, counts, doubtful)[0] > -70) == kept


def test_in_many_columns_only_what_gains_is_kept() -> None:
    generator = torch.Generator().manual_seed(2)
    normal = torch.randn(600, 6, generator=generator, dtype=F64)
    skewed = -torch.rand(600, 6, generator=generator, dtype=F64).log()  # exponential: no few Gaussians
    stack = load_model("default")
    assert len(weights_of(stack.fit(normal))) <= 4  # one or two from each frame, and no slot of the networks
    assert len(weights_of(stack.fit(normal[:200]))) > 20  # too few points to tell
    assert len(weights_of(stack.fit(skewed))) > 20

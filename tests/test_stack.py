"""Stacking: weights by held-out likelihood, one mixture in the end."""

import pytest
import torch

from discoformer.core.checks import DataError
from discoformer.core.frames import Standardize
from discoformer.models.attention.core import AttentionConfig, AttentionCore
from discoformer.models.mixture.core import MixtureConfig, MixtureCore
from discoformer.models.mixture.folds import Part, by_radius, hold_out
from discoformer.models.mixture.lift import _pairs
from discoformer.models.mixture.stack import Stack, combine, let_gain, stacking_weights
from discoformer.models.network import Network
from discoformer.models.registry import load_model
from discoformer.priors import GMMPrior

F64 = torch.float64
shapes = pytest.mark.parametrize(("n", "d"), [(120, 3), (600, 5)])  # without `let_gain`, and with it


def member(axis: bool, seed: int) -> Network:
    torch.manual_seed(seed)
    core = MixtureCore(MixtureConfig(layers=2, width=16, heads=2, slots=6, axis=axis))
    for layer in core.layers:
        torch.nn.init.normal_(layer.decide.weight, std=0.3)
    return Network(core, "standardize" if axis else "whiten").to(F64).requires_grad_(False)


def sample(n: int = 120, d: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    prior = GMMPrior(modes=(3, 3), covariance="rotated")
    return prior.draw(1, d, generator, dtype=F64).sample(n, generator)[0]


def test_density_is_the_weighted_sum_of_the_members() -> None:
    x = sample()
    fields = [m.encode(x) for m in (member(False, 0), member(True, 1))]
    share = torch.tensor([0.3, 0.7], dtype=F64)
    field = combine(fields, share.log(), Standardize().fit(x))
    parts = torch.stack([f.log_density(x) for f in fields], -1)
    torch.testing.assert_close(field.log_density(x), torch.logsumexp(parts + share.log(), -1))
    torch.testing.assert_close(field.weights.sum(), torch.tensor(1.0, dtype=F64))


def test_density_of_the_stack_is_normalized_and_beats_its_members_on_points_left_out() -> None:
    members = [member(False, 0), member(True, 1)]
    x, fresh = sample(800).split(400)
    field = Stack(members).encode(x)
    torch.testing.assert_close(field.weights.sum(), torch.tensor(1.0, dtype=F64))
    ours = field.log_density(fresh).mean()
    assert all(ours > m.encode(x).log_density(fresh).mean() for m in members)


@shapes
def test_the_gradient_in_the_context_is_that_of_finite_differences(n: int, d: int) -> None:
    stack, x = Stack([member(False, 0), member(True, 1)]), sample(n, d)
    queries = x[:20] + 0.1
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=F64)
    tracked = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(stack.encode(tracked).log_density(queries).sum(), tracked)
    ahead, behind = (stack.encode(x + h * direction).log_density(queries).sum() for h in (1e-6, -1e-6))
    torch.testing.assert_close((gradient * direction).sum(), (ahead - behind) / 2e-6, rtol=1e-4, atol=1e-4)


def test_weights_that_want_a_gradient_are_refused_where_there_would_be_one() -> None:
    x = sample()
    weights = torch.ones(len(x), dtype=F64, requires_grad=True)
    for method in (member(False, 0), Stack([member(False, 0), member(True, 1)])):
        with pytest.raises(DataError, match="detach them"):
            method.fit(x, weights)
        with torch.no_grad():
            method.fit(x, weights)


def test_score_is_the_gradient() -> None:
    field = Stack([member(False, 0), member(True, 1)]).encode(sample())
    y = sample()[:20].requires_grad_()
    log_density, score = field.estimate(y)
    assert log_density is not None
    torch.testing.assert_close(score, torch.autograd.grad(log_density.sum(), y)[0], rtol=1e-8, atol=1e-8)


def test_gradients_pass_the_queries_of_a_field_that_was_fitted_without_any() -> None:
    stack, x = Stack([member(False, 0), member(True, 1)]), sample()
    with torch.no_grad():
        field = stack.encode(x)
    y = x[:20].clone().requires_grad_()
    log_density, score = field.estimate(y)
    assert log_density is not None
    torch.testing.assert_close(score, torch.autograd.grad(log_density.sum(), y)[0], rtol=1e-8, atol=1e-8)
    tracked = stack.encode(x.clone().requires_grad_()).log_density(x)
    torch.testing.assert_close(tracked, field.log_density(x), rtol=1e-9, atol=1e-9)


@shapes
def test_order_and_units_do_not_matter(n: int, d: int) -> None:
    stack = Stack([member(False, 0), member(True, 1)])
    x = sample(n, d)
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
    for members in ([], [Network(attention, "whiten")], [Stack([member(False, 0)])]):
        with pytest.raises(DataError, match="made of networks with the mixture core"):
            Stack(members)
    with pytest.raises(DataError, match="at least 2"):
        Stack([member(False, 0)], folds=1)
    for folds in (0, 1):
        with pytest.raises(DataError, match="at least 2"):
            hold_out(Part(sample(), None), folds)


def test_samples_too_small_for_folds_have_equal_weights() -> None:
    stack = Stack([member(True, 0), member(True, 1)])
    for rows in (2, 3):
        field = stack.encode(sample()[:rows])
        assert float(field.state.log_weight[: len(field.weights) // 2].exp().sum()) == 0.5
        assert bool(torch.isfinite(field.log_density(sample())).all())


@shapes
def test_batch_equals_loop(n: int, d: int) -> None:
    stack = Stack([member(False, 0), member(True, 1)])
    x = torch.stack([sample(n, d), sample(n, d) ** 3])
    both = stack.encode(x).log_density(x)
    for i in range(2):
        torch.testing.assert_close(stack.encode(x[i]).log_density(x[i]), both[i])


@shapes
def test_equal_weights_are_no_weights(n: int, d: int) -> None:
    stack, x = Stack([member(False, 0), member(True, 1)]), sample(n, d)
    weighted = stack.encode(x, torch.full((len(x),), 7.0, dtype=F64))
    torch.testing.assert_close(weighted.log_density(x), stack.encode(x).log_density(x))


def test_folds_partition_the_sample_and_look_like_the_whole() -> None:
    x = sample(400, 2)
    seen, unseen = hold_out(by_radius(x, None), 4)
    for fold in range(4):
        together = torch.cat([seen.points[fold], unseen.points[fold]])
        torch.testing.assert_close(together[together[:, 0].argsort()], x[x[:, 0].argsort()])
    for part in (*unseen.points, by_radius(x, None, 100).points):
        assert len(part) == 100
        assert float((part.std(0) / x.std(0) - 1).abs().max()) < 0.2


def test_split_keeps_weights_with_their_points() -> None:
    x = sample(50, 2)
    weights = x[:, 0].abs() / x[:, 0].abs().sum()
    seen, unseen = hold_out(by_radius(x, weights), 5)
    inside, outside = (part.points[..., 0].abs() for part in (seen, unseen))
    torch.testing.assert_close(seen.weights, inside / inside.sum(-1, keepdim=True))
    torch.testing.assert_close(unseen.weights, outside / x[:, 0].abs().sum())


def test_points_of_a_part_are_chosen_by_their_weights() -> None:
    """Two halves of a sample, one of them with nearly all the weight: the part is of that half."""
    x = torch.cat([sample(500, 2), sample(500, 2) + 100])
    weights = torch.cat([torch.full((500,), 1.0, dtype=F64), torch.full((500,), 1e-9, dtype=F64)])
    part = by_radius(x, weights / weights.sum(), 200)
    assert part.weights is None and len(part.points) == 200
    assert float(part.points.max()) < 50
    heavy = torch.full((1000,), 1e-6, dtype=F64)
    heavy[:20] = 1.0  # worth twenty points
    assert len(by_radius(x, heavy / heavy.sum(), 200).points) == 20


def test_held_out_points_count_as_often_as_they_are_there() -> None:
    held_out = torch.tensor([[0.0, -3.0], [0.0, -2.0], [-1.0, 0.0]], dtype=F64)
    counts = torch.tensor([1.0, 1.0, 4.0], dtype=F64)
    repeated = held_out.repeat_interleave(counts.long(), 0)
    found = stacking_weights(held_out, counts, prior=0.0)
    torch.testing.assert_close(found, stacking_weights(repeated, prior=0.0))
    assert float((found - stacking_weights(held_out, prior=0.0)).abs().max()) > 0.05


def test_points_of_no_weight_do_not_change_the_answer_to_nan() -> None:
    x = sample(120)
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
    field = Stack([member(False, 0), member(True, 1)]).fit(sample())
    y = sample(5).requires_grad_()
    (gradient,) = torch.autograd.grad(field.log_density(y).sum(), y)
    torch.testing.assert_close(gradient, field.score(y).detach())


def test_doubtful_members_keep_their_weight_only_if_they_gain() -> None:
    good = torch.randn(200, generator=torch.Generator().manual_seed(0), dtype=F64)
    doubtful = torch.tensor([True, False])
    held_out = torch.stack([torch.stack([good + gain, good], -1) for gain in (0.0, 0.01, 0.5)])
    left = let_gain(held_out, None, doubtful)  # in all 0, 2 and 100 nats; the price is half of log 200, 2.6
    assert left[:2].exp().tolist() == [[pytest.approx(0, abs=1e-30), 1.0]] * 2
    torch.testing.assert_close(left[2], stacking_weights(held_out[2]).log())


def test_gain_is_of_the_points_that_count() -> None:
    counts = torch.zeros(200, dtype=F64)
    counts[::10] = 7.0  # worth twenty points: the price is half of log 20, 1.5 nats
    good = torch.randn(200, generator=torch.Generator().manual_seed(1), dtype=F64)
    doubtful = torch.tensor([True, False])
    for gain, kept in ((0.05, False), (0.5, True)):  # one nat in all, and ten
        held_out = torch.stack([good + torch.where(counts > 0, gain, 5.0), good], -1)
        assert bool(let_gain(held_out, counts, doubtful)[0] > -70) == kept


def test_in_many_columns_only_what_gains_is_kept() -> None:
    generator = torch.Generator().manual_seed(2)
    normal = torch.randn(600, 6, generator=generator, dtype=F64)
    skewed = -torch.rand(600, 6, generator=generator, dtype=F64).log()  # exponential: no few Gaussians
    stack = load_model("default")
    assert len(stack.fit(normal).weights) <= 4  # one or two from each frame, and no slot of the networks
    assert len(stack.fit(normal[:200]).weights) > 20  # too few points to tell
    assert len(stack.fit(skewed).weights) > 20

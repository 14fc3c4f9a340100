"""Stacking: weights by held-out likelihood, one mixture in the end."""

import torch

from discoformer.models.folds import fold_indices, split_fold
from discoformer.models.mixture import MixtureConfig, MixtureCore
from discoformer.models.network import Network
from discoformer.models.stack import Stack, stacking_weights
from discoformer.priors import GMMPrior

F64 = torch.float64


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
    members = [member(False, 0), member(True, 1)]
    x = sample()
    field = Stack(members).encode(x)
    parts = torch.stack([m.encode(x).log_density(x) for m in members], -1)
    first = field.state.log_weight[:6].exp().sum()
    expected = torch.logsumexp(parts + torch.stack([first, 1 - first]).log(), -1)
    torch.testing.assert_close(field.log_density(x), expected)
    assert 0 < float(first) < 1
    torch.testing.assert_close(field.weights.sum(), torch.tensor(1.0, dtype=F64))


def test_score_is_the_gradient() -> None:
    field = Stack([member(False, 0), member(True, 1)]).encode(sample())
    y = sample()[:20].requires_grad_()
    log_density, score = field.estimate(y)
    assert log_density is not None
    torch.testing.assert_close(score, torch.autograd.grad(log_density.sum(), y)[0], rtol=1e-8, atol=1e-8)


def test_order_and_units_do_not_matter() -> None:
    stack = Stack([member(False, 0), member(True, 1)])
    x = sample()
    units = torch.tensor([1e-3, 1.0, 1e3], dtype=F64)
    moved = (x[torch.randperm(len(x))] - 5) * units
    before, after = stack.encode(x).log_density(x), stack.encode(moved).log_density((x - 5) * units)
    torch.testing.assert_close(after + units.log().sum(), before, rtol=1e-8, atol=1e-8)


def test_samples_too_small_for_folds_have_equal_weights() -> None:
    stack = Stack([member(True, 0), member(True, 1)])
    for rows in (2, 3):
        field = stack.encode(sample()[:rows])
        assert float(field.state.log_weight[: len(field.weights) // 2].exp().sum()) == 0.5
        assert bool(torch.isfinite(field.log_density(sample())).all())


def test_batch_equals_loop() -> None:
    stack = Stack([member(False, 0), member(True, 1)])
    x = torch.stack([sample(), sample() ** 3])
    both = stack.encode(x).log_density(x)
    for i in range(2):
        torch.testing.assert_close(stack.encode(x[i]).log_density(x[i]), both[i])


def test_folds_partition_the_sample_and_look_like_the_whole() -> None:
    x = sample(400, 2)
    parts = fold_indices(x, 4)
    assert sorted(torch.cat(parts).tolist()) == list(range(400))
    spread = torch.stack([x[part].std(0) for part in parts])
    assert float((spread / x.std(0) - 1).abs().max()) < 0.2
    assert sum(len(part) for part in fold_indices(x, 4, limit=100)) == 100


def test_split_keeps_weights_with_their_points() -> None:
    x = sample(50, 2)
    weights = x[:, 0].abs() / x[:, 0].abs().sum()
    seen, unseen = split_fold(x, weights, fold_indices(x, 5), 2)
    for part in (seen, unseen):
        assert part.weights is not None
        torch.testing.assert_close(part.weights, part.points[:, 0].abs() / part.points[:, 0].abs().sum())
    assert len(seen.points) + len(unseen.points) == 50


def test_weights_maximize_the_held_out_likelihood() -> None:
    generator = torch.Generator().manual_seed(0)
    log_density = torch.randn(50, 3, generator=generator, dtype=F64)
    weights = stacking_weights(log_density, prior=0.0, rounds=3000)

    def likelihood(w: torch.Tensor) -> float:
        return float(torch.logsumexp(log_density + w.log(), -1).sum())

    for other in torch.rand(200, 3, generator=generator, dtype=F64):
        assert likelihood(other / other.sum()) <= likelihood(weights) + 1e-6
    assert stacking_weights(log_density[:0], rounds=3).tolist() == [1 / 3] * 3

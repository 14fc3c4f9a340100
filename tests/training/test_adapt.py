"""Test-time training lowers its loss on a copy, and commutes with what the frame takes out."""

import copy
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.models.attention.core import AttentionConfig, AttentionCore
from discoformer.models.attention.network import AttentionNetwork
from discoformer.models.mixture.folds import by_radius, hold_out
from discoformer.models.mixture.unified import UnifiedConfig, UnifiedCore
from discoformer.models.mixture.unified_network import UnifiedNetwork
from discoformer.models.mixture.views import Views
from discoformer.models.network import Network
from discoformer.training import adapt
from discoformer.training.adapt import adapt_consistency, adapt_likelihood, consistency_loss

LIFT = pytest.mark.parametrize("lift", [False, True])


def tiny(lift: bool = False) -> Network:
    torch.manual_seed(0)
    config = AttentionConfig(dim=2, layers=2, width=16, heads=2, feedforward=32, lift=lift)
    return AttentionNetwork(AttentionCore(config).double(), "whiten")


def sample(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).exp()


def mean_loss(network: Network, context: Tensor) -> float:
    normalized = network.frame.fit(context).normalize(context)
    network.core.eval()
    loss = consistency_loss(network.core, network.core.encode(normalized), normalized)
    return loss.mean().item()


@LIFT
def test_loss_is_the_distance_of_the_score_from_finite_differences(lift):
    network, context = tiny(lift).eval(), sample(30, 2)
    state, queries = network.core.encode(context), sample(5, 2)
    step = 1e-5 * torch.eye(2, dtype=torch.float64)
    above, below = (
        network.core.read(state, queries[:, None] + sign * step).log_density.detach() for sign in (1, -1)
    )
    difference = network.core.read(state, queries).score - (above - below) / 2e-5
    torch.testing.assert_close(
        consistency_loss(network.core, state, queries), difference.square().sum(-1), rtol=1e-6, atol=1e-8
    )


@LIFT
def test_adapting_lowers_the_loss_and_leaves_the_model_alone(lift):
    network, context = tiny(lift), sample(60, 2)
    network.train()
    network.core.embed.weight.requires_grad_(False)
    before = copy.deepcopy(network.state_dict())
    adapted = adapt_consistency(network, context, steps=4, lr=1e-3)
    assert network.training and not adapted.training
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, before[name]), name
        constant = name == "core.density_head.bias"  # no slope, so no part in the loss
        assert torch.equal(tensor, adapted.state_dict()[name]) == constant, name
    for original, parameter in zip(network.parameters(), adapted.parameters(), strict=True):
        assert original.grad is None and parameter.grad is None
        assert original.requires_grad == parameter.requires_grad
    assert mean_loss(adapted, context) < 0.9 * mean_loss(network, context)


@LIFT
@pytest.mark.parametrize("weighted", [False, True])
def test_chunked_gradient_is_the_gradient_of_the_mean(lift, weighted, monkeypatch):
    core, context = tiny(lift).core.eval(), sample(3, 25, 2)
    weights = sample(3, 25, 1)[..., 0]
    weights = weights / weights.sum(-1, keepdim=True)
    loss = consistency_loss(core, core.encode(context, weights if weighted else None), context)
    mean = (weights * loss).sum(-1).mean() if weighted else loss.mean()
    parameters = list(core.parameters())
    # The bias of the density head takes no part: a constant has no slope.
    whole = torch.autograd.grad(mean, parameters, allow_unused=True, materialize_grads=True)
    monkeypatch.setattr(adapt, "_CHUNK_ELEMENTS", 3 * 2 * 25 * 7)
    adapt._backward(core, context, weights if weighted else None)
    for parameter, expected in zip(parameters, whole, strict=True):
        actual = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(actual, expected, rtol=1e-7, atol=1e-8)


def test_adapting_commutes_with_scaling_and_shift():
    network, context = tiny(), sample(40, 2)
    scale, shift = (
        torch.tensor([30.0, 0.2], dtype=torch.float64),
        torch.tensor([5.0, -7.0], dtype=torch.float64),
    )
    plain = adapt_consistency(network, context).fit(context).score(context)
    moved = context * scale + shift
    there = adapt_consistency(network, moved).fit(moved).score(moved)
    torch.testing.assert_close(there * scale, plain, rtol=1e-6, atol=1e-8)


def test_weights_are_multiplicities():
    network, context = tiny(), sample(30, 2)
    counts = torch.arange(30) % 3
    weighted = adapt_consistency(network, context, counts)
    repeated = adapt_consistency(network, context.repeat_interleave(counts, 0))
    for one, other in zip(weighted.parameters(), repeated.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8)


def test_adapts_inside_no_grad_and_from_arrays():
    network, context = tiny(), sample(30, 2)
    with torch.no_grad():
        inside = adapt_consistency(network, context.numpy())
    outside = adapt_consistency(network, context)
    for one, other in zip(inside.parameters(), outside.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_loss_at_some_points_is_an_estimate_of_that_at_all():
    network, context = tiny(), sample(60, 2)
    adapted = [adapt_consistency(network, context, steps=3, points=points) for points in (None, 60, 20)]
    found = [each.fit(context).score(context).detach() for each in adapted]
    torch.testing.assert_close(found[0], found[1])
    assert 0 < float((found[0] - found[2]).norm()) < float(found[0].norm())


def test_bad_input_is_refused():
    with pytest.raises(DataError, match="NaN"):
        adapt_consistency(tiny(), sample(30, 2).log().log())
    with pytest.raises(DataError, match="steps = -1"):
        adapt_consistency(tiny(), sample(30, 2), steps=-1)
    with pytest.raises(DataError, match="points = 0"):
        adapt_consistency(tiny(), sample(30, 2), points=0)
    with pytest.raises(DataError, match="lr = 0"):
        adapt_consistency(tiny(), sample(30, 2), lr=0.0)
    with pytest.raises(TypeError, match="Linear is the gradient of its density already"):
        adapt_consistency(AttentionNetwork(torch.nn.Linear(2, 2), "whiten"), sample(30, 2))


def held_out(network: Network, context: Tensor) -> float:
    seen, unseen = hold_out(by_radius(context, None), 4)
    total = 0.0
    for fold in range(4):
        total += float(network.fit(seen.points[fold]).log_density(unseen.points[fold]).sum())
    return total / len(context)


def tiny_mixture() -> UnifiedNetwork:
    torch.manual_seed(0)
    core = UnifiedCore(UnifiedConfig(layers=1, width=8, heads=2, slots=4, loops=0))
    torch.nn.init.normal_(core.layers[0].decide.weight, std=0.5)
    return UnifiedNetwork(core.double()).requires_grad_(False).eval()


def test_likelihood_adaptation_raises_the_held_out_likelihood_of_a_copy() -> None:
    network = tiny_mixture()
    before = copy.deepcopy(network.state_dict())
    context = sample(80, 2)
    adapted = adapt_likelihood(network, context, steps=12, lr=1e-2)
    assert held_out(adapted, context) > held_out(network, context)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert not any(p.requires_grad for p in adapted.parameters())


def test_likelihood_adaptation_commutes_with_units_shift_and_order() -> None:
    network, context = tiny_mixture(), sample(40, 2)
    scale = torch.tensor([30.0, 0.2], dtype=torch.float64)
    moved = context * scale - 7
    shuffled = moved[torch.randperm(40, generator=torch.Generator().manual_seed(0))]
    plain = adapt_likelihood(network, context, steps=4, lr=1e-2).fit(context).score(context)
    there = adapt_likelihood(network, shuffled, steps=4, lr=1e-2).fit(moved).score(moved)
    torch.testing.assert_close(there * scale, plain, rtol=1e-6, atol=1e-8)
    assert float((plain - network.fit(context).score(context)).abs().max()) > 1e-3  # it has moved at all


def test_each_core_has_its_own_adaptation() -> None:
    context = sample(20, 2)
    for network, rule in ((tiny(), adapt_consistency), (tiny_mixture(), adapt_likelihood)):
        chosen = adapt.adapt(network, context, steps=1)
        for one, other in zip(chosen.parameters(), rule(network, context, steps=1).parameters(), strict=True):
            assert torch.equal(one, other)
    with pytest.raises(TypeError, match="only mixture cores"):
        adapt_likelihood(tiny(), context)
    with pytest.raises(DataError, match="at least 2"):
        adapt_likelihood(tiny_mixture(), context, folds=1)


@pytest.mark.parametrize("make", [tiny, tiny_mixture])
def test_one_path_holds_the_copies_of_every_number_of_steps(make: Callable[[], Network]) -> None:
    network, context = make().eval(), sample(20, 2)
    copies = list(adapt.adapt_path(network, context, steps=5))
    assert len(copies) == 6
    for steps in (0, 1, 5):
        alone = adapt.adapt(network, context, steps=steps)
        for one, other in zip(copies[steps].parameters(), alone.parameters(), strict=True):
            assert torch.equal(one, other)
    first, last = (copies[steps].fit(context).score(context) for steps in (0, 5))
    assert torch.equal(first, network.fit(context).score(context))
    assert not torch.equal(first, last)


def test_of_two_views_the_network_is_adapted() -> None:
    views, context = Views(tiny_mixture()), sample(40, 2)
    for rule in (adapt_consistency, adapt_likelihood, partial(adapt.adapt, steps=1)):
        with pytest.raises(TypeError, match="adapt the network"):
            rule(views, context)
    again = Views(adapt.adapt(views.network, context, steps=1))
    assert again.fit(context).score(context).shape == (40, 2)

"""The paper's core: symmetries, the cache, the log-normalizer and the exact kernel estimate it allows."""

from dataclasses import replace

import pytest
import torch
from helpers import assert_same, attention_core, normal
from torch.nn.attention import SDPBackend, sdpa_kernel

from discoformer.core.checks import DataError
from discoformer.core.fields import PointDensity
from discoformer.models.attention import core as attention
from discoformer.models.attention import softmax as fused_attention
from discoformer.models.attention.core import AttentionConfig, AttentionCore
from discoformer.models.attention.network import AttentionNetwork
from discoformer.training.adapt import adapt_consistency

LIFT = pytest.mark.parametrize("lift", [False, True])


def test_base_model_has_the_parameters_of_the_paper():
    for lift in (False, True):
        core = AttentionCore(AttentionConfig(dim=2, lift=lift))
        assert 780_000 < sum(p.numel() for p in core.parameters()) < 830_000


def test_large_model_is_the_square_of_its_width_times_its_layers():
    """A block has 4 w^2 of attention and 8 w^2 of feed-forward, and little beside."""
    core = AttentionCore(AttentionConfig(dim=2, layers=6, width=256, feedforward=1024))
    blocks = 6 * 12 * 256**2
    assert blocks < sum(p.numel() for p in core.parameters()) < 1.01 * blocks


@LIFT
def test_order_of_context_is_irrelevant_and_order_of_queries_carries_over(lift):
    core, context, queries = attention_core(lift), normal(40, 2), normal(9, 2, seed=2)
    log_density, score = core.read(core.encode(context), queries)
    assert log_density.std() > 1e-3
    shuffled = core.encode(context[torch.randperm(40)])
    order = torch.randperm(9)
    assert_same(core.read(shuffled, queries[order]), (log_density[order], score[order]))


@LIFT
def test_context_matters(lift):
    core, queries = attention_core(lift), normal(9, 2, seed=2)
    one = core.read(core.encode(normal(40, 2, seed=3)), queries).score
    other = core.read(core.encode(normal(40, 2, seed=4)), queries).score
    assert (one - other).norm() > 1e-3 * one.norm()


@LIFT
def test_reading_at_the_context_is_the_context_stream(lift):
    core, context = attention_core(lift), normal(3, 40, 2)
    state = core.encode(context)
    assert_same(core.read(state, context), core.read_context(state))


@LIFT
def test_cached_context_answers_as_one_pass_over_context_and_queries(lift):
    core, context, queries = attention_core(lift), normal(40, 2), normal(9, 2, seed=2)
    seen = torch.cat([torch.ones(40), torch.zeros(9)]).double()  # nobody attends to a point of weight zero
    log_density, score = core.read_context(core.encode(torch.cat([context, queries]), seen))
    state = core.encode(context)
    for _ in range(2):  # reading leaves the state alone
        assert_same(core.read(state, queries), (log_density[40:], score[40:]))


@LIFT
def test_queries_do_not_see_one_another(lift):
    core, context, queries = attention_core(lift), normal(40, 2), normal(9, 2, seed=2)
    state = core.encode(context)
    together = core.read(state, queries)
    alone = [core.read(state, queries[i : i + 1]) for i in range(9)]
    assert_same(together, (torch.cat([e.log_density for e in alone]), torch.cat([e.score for e in alone])))


@LIFT
@pytest.mark.parametrize("fused", [True, False])
def test_chunked_is_whole(lift, fused, monkeypatch):
    core, context, queries = attention_core(lift), normal(2, 40, 2), normal(2, 101, 2, seed=2)
    whole = core.read(core.encode(context), queries)
    for module in (attention, fused_attention):
        monkeypatch.setattr(module, "CHUNK_ELEMENTS", 2 * (6 * 16 + 2 * 32) * 13)
    rows = []
    embed = core._embed
    monkeypatch.setattr(core, "_embed", lambda part: rows.append(part.shape[-2]) or embed(part))
    with torch.no_grad(), sdpa_kernel(SDPBackend.FLASH_ATTENTION if fused else SDPBackend.MATH):
        chunked = core.read(core.encode(context), queries)
    assert rows == [40] + [13] * 7 + [10]
    assert_same(chunked, whole, 1e-9)


def test_queries_pass_in_chunks_unless_a_gradient_is_to_be_kept(monkeypatch):
    core, context, queries = attention_core().requires_grad_(False), normal(40, 2), normal(30, 2, seed=2)
    monkeypatch.setattr(attention, "CHUNK_ELEMENTS", (6 * 16 + 2 * 32) * 13)

    def chunks(context, queries):
        state, rows, embed = core.encode(context), [], core._embed
        with monkeypatch.context() as patch:
            patch.setattr(core, "_embed", lambda part: rows.append(part.shape[-2]) or embed(part))
            core.read(state, queries)
        return rows

    assert chunks(context, queries) == [13, 13, 4]
    assert chunks(context, queries.clone().requires_grad_()) == [30]
    assert chunks(context.clone().requires_grad_(), queries) == [30]
    core.score_head.bias.requires_grad_()
    assert chunks(context, queries) == [30]


@LIFT
def test_batch_is_loop(lift):
    core, context, queries = attention_core(lift), normal(2, 3, 20, 2), normal(2, 3, 9, 2, seed=2)
    weights = normal(2, 3, 20, seed=3).exp()
    batched = core.read(core.encode(context, weights), queries)
    for i in range(2):
        for j in range(3):
            one = core.read(core.encode(context[i, j], weights[i, j]), queries[i, j])
            assert_same((batched.log_density[i, j], batched.score[i, j]), one)


@LIFT
def test_batches_of_context_and_queries_broadcast(lift):
    core, context, queries = attention_core(lift), normal(3, 20, 2), normal(5, 9, 2, seed=2)
    for state, asked in (
        (core.encode(context[0]), queries),
        (core.encode(context), queries[0]),
        (core.encode(context[:, None]), queries),
    ):
        answer = core.read(state, asked)
        for row in range(answer.score[..., 0, 0].numel()):
            flat = answer.log_density.reshape(-1, 9)[row], answer.score.reshape(-1, 9, 2)[row]
            which = (row // 5, row % 5) if answer.score.ndim == 4 else (0, row)
            which = (row, 0) if asked.ndim == 2 else which
            assert_same(flat, core.read(core.encode(context[which[0]]), queries[which[1]]))


@LIFT
def test_weights_are_multiplicities(lift):
    core, context, queries = attention_core(lift), normal(20, 2), normal(9, 2, seed=2)
    counts = torch.arange(20) % 4  # zeros among them
    repeated = core.read(core.encode(context.repeat_interleave(counts, 0)), queries)
    if not lift:  # its kernels know how many points are independent
        assert_same(core.read(core.encode(context, counts.double()), queries), repeated)
    equal = core.encode(context, torch.full((20,), 0.3, dtype=torch.float64))
    assert_same(core.read(equal, queries), core.read(core.encode(context), queries))


@LIFT
def test_attention_maps_are_row_stochastic_and_reproduce_the_fused_output(lift):
    core, context, queries = attention_core(lift), normal(3, 20, 2), normal(3, 9, 2, seed=2)
    maps = core.attention_maps(context, queries)
    assert maps.shape == (3, 2, 2, 9, 20)
    assert (maps >= 0).all()
    torch.testing.assert_close(maps.sum(-1), torch.ones(3, 2, 2, 9, dtype=torch.float64))
    torch.testing.assert_close(core.attention_maps(context, queries, layer=-1), maps[:, 1])
    seen = []
    for block in core.blocks:
        block.out.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    state = core.encode(context)
    seen.clear()
    core.read(state, queries)
    for layer, (_, values) in enumerate(state.memory):
        mixed = (maps[:, layer] @ values[..., :8]).transpose(-3, -2).flatten(-2)
        torch.testing.assert_close(seen[layer], mixed)


def test_dropout_only_in_training():
    core, context = attention_core(), normal(20, 2)
    assert_same(core.read_context(core.encode(context)), core.read_context(core.encode(context)), 0)
    core.train()
    first, second = (core.read_context(core.encode(context)).score for _ in range(2))
    assert (first - second).norm() > 1e-3 * first.norm()


@LIFT
def test_gradients_reach_every_parameter(lift):
    core, context, queries = attention_core(lift), normal(20, 2), normal(9, 2, seed=2)
    log_density, score = core.read(core.encode(context), queries)
    (log_density.square().sum() + score.square().sum()).backward()
    for name, parameter in core.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name


def test_wrong_dimension_is_refused():
    core = attention_core(dim=2)
    with pytest.raises(DataError, match=r"2 column\(s\), the data have 3"):
        core.encode(normal(20, 3))
    with pytest.raises(DataError, match="this core has layers 0 to 1"):
        core.attention_maps(normal(20, 2), normal(9, 2), layer=2)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"width": 10, "heads": 4}, "not a multiple"),
        ({"heads": 0}, "heads = 0"),
        ({"layers": 0}, "layers = 0"),
        ({"dropout": 1.0}, "dropout = 1.0"),
    ],
)
def test_sizes_that_make_no_core_are_refused(sizes, message):
    with pytest.raises(DataError, match=message):
        AttentionCore(AttentionConfig(dim=2, **sizes))


def test_attention_weights_are_left_out_in_training_only():
    config = AttentionConfig(dim=2, layers=1, width=16, heads=2, feedforward=32, dropout=0.0)
    core = AttentionCore(replace(config, attention_dropout=0.5)).double()
    context, queries = normal(40, 2), normal(9, 2, seed=2)
    one, other = (core.train().read(core.encode(context), queries).score for _ in range(2))
    assert not torch.allclose(one, other)
    one, other = (core.eval().read(core.encode(context), queries).score for _ in range(2))
    assert torch.equal(one, other)
    with pytest.raises(DataError, match="kernels of a lift"):
        AttentionCore(replace(config, attention_dropout=0.5, lift=True))


def test_a_core_for_the_score_alone_hands_out_fields_without_a_density():
    core = AttentionCore(
        AttentionConfig(dim=2, layers=1, width=16, heads=2, feedforward=32, estimates="score")
    )
    network = AttentionNetwork(core.double().eval(), "whiten")
    field = network.fit(normal(40, 2))
    assert not isinstance(field, PointDensity)
    assert field.score(normal(9, 2)).isfinite().all()
    with pytest.raises(DataError, match="estimates the score only"):
        network.encode(normal(40, 2))
    with pytest.raises(DataError, match="this network has one head"):
        adapt_consistency(network, normal(40, 2), steps=1)


def test_the_score_of_a_core_for_the_density_alone_is_its_gradient():
    config = AttentionConfig(dim=2, layers=1, width=16, heads=2, feedforward=32, estimates="density")
    network = AttentionNetwork(AttentionCore(config).double().eval().requires_grad_(False), "whiten")
    field, queries = network.fit(normal(40, 2)), normal(9, 2, seed=2)
    step = 1e-5 * torch.eye(2, dtype=torch.float64)[0]
    slope = (field.log_density(queries + step) - field.log_density(queries - step)) / 2e-5
    torch.testing.assert_close(field.score(queries)[:, 0], slope, rtol=1e-6, atol=1e-8)
    assert not field.score(queries).requires_grad
    moved = queries.clone().requires_grad_()
    with sdpa_kernel(SDPBackend.MATH):
        assert torch.autograd.grad(field.score(moved).sum(), moved)[0].abs().max() > 0

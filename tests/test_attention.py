"""The paper's core: symmetries, the cache, the log-normalizer and the exact kernel estimate it allows."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from discoformer.core.checks import DataError
from discoformer.models.attention import core as attention
from discoformer.models.attention import softmax as fused_attention
from discoformer.models.attention.core import AttentionConfig, AttentionCore
from discoformer.models.attention.softmax import attend

LIFT = pytest.mark.parametrize("lift", [False, True])


def tiny(lift: bool = False, dim: int = 2) -> AttentionCore:
    torch.manual_seed(0)
    config = AttentionConfig(dim=dim, layers=2, width=16, heads=2, feedforward=32, lift=lift)
    core = AttentionCore(config).double().eval()
    with torch.no_grad():
        # sharper attention than at initialization, so that the laws have something to break
        for block in core.blocks:
            block.query.weight *= 6
    return core


def points(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def assert_same(first, second, tolerance: float = 1e-11) -> None:
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


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
    core, context, queries = tiny(lift), points(40, 2), points(9, 2, seed=2)
    log_density, score = core.read(core.encode(context), queries)
    assert log_density.std() > 1e-3
    shuffled = core.encode(context[torch.randperm(40)])
    order = torch.randperm(9)
    assert_same(core.read(shuffled, queries[order]), (log_density[order], score[order]))


@LIFT
def test_context_matters(lift):
    core, queries = tiny(lift), points(9, 2, seed=2)
    one = core.read(core.encode(points(40, 2, seed=3)), queries).score
    other = core.read(core.encode(points(40, 2, seed=4)), queries).score
    assert (one - other).norm() > 1e-3 * one.norm()


@LIFT
def test_reading_at_the_context_is_the_context_stream(lift):
    core, context = tiny(lift), points(3, 40, 2)
    state = core.encode(context)
    assert_same(core.read(state, context), core.read_context(state))


@LIFT
def test_cached_context_answers_as_one_pass_over_context_and_queries(lift):
    core, context, queries = tiny(lift), points(40, 2), points(9, 2, seed=2)
    seen = torch.cat([torch.ones(40), torch.zeros(9)]).double()  # nobody attends to a point of weight zero
    log_density, score = core.read_context(core.encode(torch.cat([context, queries]), seen))
    state = core.encode(context)
    for _ in range(2):  # reading leaves the state alone
        assert_same(core.read(state, queries), (log_density[40:], score[40:]))


@LIFT
def test_queries_do_not_see_one_another(lift):
    core, context, queries = tiny(lift), points(40, 2), points(9, 2, seed=2)
    state = core.encode(context)
    together = core.read(state, queries)
    alone = [core.read(state, queries[i : i + 1]) for i in range(9)]
    assert_same(together, (torch.cat([e.log_density for e in alone]), torch.cat([e.score for e in alone])))


@LIFT
@pytest.mark.parametrize("fused", [True, False])
def test_chunked_is_whole(lift, fused, monkeypatch):
    core, context, queries = tiny(lift), points(2, 40, 2), points(2, 101, 2, seed=2)
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
    core, context, queries = tiny().requires_grad_(False), points(40, 2), points(30, 2, seed=2)
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
    core, context, queries = tiny(lift), points(2, 3, 20, 2), points(2, 3, 9, 2, seed=2)
    weights = points(2, 3, 20, seed=3).exp()
    batched = core.read(core.encode(context, weights), queries)
    for i in range(2):
        for j in range(3):
            one = core.read(core.encode(context[i, j], weights[i, j]), queries[i, j])
            assert_same((batched.log_density[i, j], batched.score[i, j]), one)


@LIFT
def test_batches_of_context_and_queries_broadcast(lift):
    core, context, queries = tiny(lift), points(3, 20, 2), points(5, 9, 2, seed=2)
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
    core, context, queries = tiny(lift), points(20, 2), points(9, 2, seed=2)
    counts = torch.arange(20) % 4  # zeros among them
    repeated = core.read(core.encode(context.repeat_interleave(counts, 0)), queries)
    if not lift:  # its kernels know how many points are independent
        assert_same(core.read(core.encode(context, counts.double()), queries), repeated)
    equal = core.encode(context, torch.full((20,), 0.3, dtype=torch.float64))
    assert_same(core.read(equal, queries), core.read(core.encode(context), queries))


@LIFT
def test_attention_maps_are_row_stochastic_and_reproduce_the_fused_output(lift):
    core, context, queries = tiny(lift), points(3, 20, 2), points(3, 9, 2, seed=2)
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


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])
def test_log_normalizer_is_logsumexp_with_its_gradient(kernel, weighted):
    query, keys, values = (points(2, 3, n, 5, seed=n).requires_grad_() for n in (7, 30, 31))
    values = values[..., :30, :]
    weights = (
        points(2, 30, seed=9).softmax(-1) if weighted else torch.full((2, 30), 1 / 30, dtype=torch.float64)
    )
    bias = weights.log()[:, None, None]
    with sdpa_kernel(kernel):
        answer = attend(query, keys, values, bias if weighted else None, 0.4, normalize=True)
    logits = torch.einsum("bhmc,bhnc->bhmn", query, keys) * 0.4 + bias
    direct = logits.softmax(-1) @ values, logits.logsumexp(-1)
    assert_same(answer, direct)
    outer = points(2, 3, 7, 5, seed=5), points(2, 3, 7, seed=6)
    inputs = (query, keys, values)
    assert_same(torch.autograd.grad(answer, inputs, outer), torch.autograd.grad(direct, inputs, outer))


def test_log_normalizer_survives_far_queries():
    keys = points(1, 30, 4)
    query = torch.full((1, 1, 4), 1e4, dtype=torch.float64)
    _, normalizer = attend(query, keys, keys, None, 0.5, normalize=True)
    expected = (query / 2 @ keys.mT).logsumexp(-1) - math.log(30)
    assert expected.abs() > 1e3
    torch.testing.assert_close(normalizer, expected)


@pytest.mark.parametrize("n", [30, 300])
def test_lifted_heads_are_exact_kernel_estimates(n):
    """The paper's Proposition 3.5: without learned logits, log-normalizer and mean shift are the kernel's."""
    core, context, queries = tiny(lift=True, dim=3), points(n, 3) + 5, points(9, 3, seed=2) + 5
    with torch.no_grad():
        core.blocks[0].kernel.log_nu.fill_(25.0)  # Gaussian tails
    seen = watch_first_layer(core)
    state = core.encode(context)
    queries.requires_grad_()
    core.read(state, queries)
    for head, bandwidth in enumerate(core.blocks[0].kernel.bandwidth.flatten()):
        squares = (queries[:, None] - context).square().sum(-1)
        log_density = (-squares / (2 * bandwidth**2)).logsumexp(-1) - math.log(n)
        score = torch.autograd.grad(log_density.sum(), queries)[0]
        shift, local_score, log_variance = seen["moments"].reshape(9, 2, 3, 3)[:, head].unbind(-2)
        torch.testing.assert_close(shift / bandwidth, score)
        correction = 0.5 * (log_variance + local_score.square() * log_variance.exp()).sum(-1)
        torch.testing.assert_close(seen["density"][:, head], log_density - correction)


def test_local_likelihood_is_exact_for_a_gaussian():
    """At every bandwidth, where the kernel estimate itself is that of a Gaussian wider by h."""
    core, deviation = tiny(lift=True, dim=1), 0.7
    with torch.no_grad():
        core.blocks[0].kernel.log_prior.fill_(-50.0)  # as if there were any number of points
        core.blocks[0].kernel.log_nu.fill_(25.0)
    grid = torch.linspace(-6, 6, 4001, dtype=torch.float64)
    queries = torch.linspace(-1, 1, 7, dtype=torch.float64)
    seen = watch_first_layer(core)
    core.read(core.encode(grid[:, None], torch.exp(-0.5 * (grid / deviation) ** 2)), queries[:, None])
    log_density = -0.5 * (queries / deviation) ** 2
    for head in range(core.config.heads):
        local_score = seen["moments"].reshape(7, core.config.heads, 3)[:, head, 1]
        torch.testing.assert_close(local_score, -queries / deviation**2, rtol=4e-3, atol=1e-12)
        local = seen["density"][:, head]
        torch.testing.assert_close(local - local[3], log_density - log_density[3], rtol=4e-3, atol=1e-12)


def watch_first_layer(core):
    """What the kernels of the first layer see, without learned logits."""
    block, seen = core.blocks[0], {}
    with torch.no_grad():
        block.query.weight.zero_()
        block.query.bias.zero_()
    for name in ("density", "moments"):
        getattr(block.kernel, name).register_forward_pre_hook(
            lambda _, inputs, name=name: seen.update({name: inputs[0]})
        )
    return seen


def test_dropout_only_in_training():
    core, context = tiny(), points(20, 2)
    assert_same(core.read_context(core.encode(context)), core.read_context(core.encode(context)), 0)
    core.train()
    first, second = (core.read_context(core.encode(context)).score for _ in range(2))
    assert (first - second).norm() > 1e-3 * first.norm()


@LIFT
def test_gradients_reach_every_parameter(lift):
    core, context, queries = tiny(lift), points(20, 2), points(9, 2, seed=2)
    log_density, score = core.read(core.encode(context), queries)
    (log_density.square().sum() + score.square().sum()).backward()
    for name, parameter in core.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name


def test_wrong_dimension_is_refused():
    core = tiny(dim=2)
    with pytest.raises(DataError, match=r"2 column\(s\), the data have 3"):
        core.encode(points(20, 3))
    with pytest.raises(DataError, match="this core has layers 0 to 1"):
        core.attention_maps(points(20, 2), points(9, 2), layer=2)


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

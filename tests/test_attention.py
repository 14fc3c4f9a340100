"""The paper's core: symmetries, the cache, the log-normalizer and the exact kernel estimate it allows."""

import math
import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from discoformer.checks import DataError
from discoformer.models import attention
from discoformer.models.attention import AttentionConfig, AttentionCore

LIFT = pytest.mark.parametrize("lift", [False, True])


def tiny(lift: bool = False, dim: int = 2) -> AttentionCore:
    torch.manual_seed(0)
    config = AttentionConfig(dim=dim, layers=2, width=16, heads=2, feedforward=32, lift=lift)
    core = AttentionCore(config).double().eval()
    with (
        torch.no_grad()
    ):  # sharper attention than at initialization, so that the laws have something to break
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
        assert 780_000 < sum(p.numel() for p in core.parameters()) < 810_000


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
    monkeypatch.setattr(attention, "_CHUNK_ELEMENTS", 2 * (6 * 16 + 2 * 32) * 13)
    rows = []
    embed = core._embed
    monkeypatch.setattr(core, "_embed", lambda part: rows.append(part.shape[-2]) or embed(part))
    with torch.no_grad(), sdpa_kernel(SDPBackend.FLASH_ATTENTION if fused else SDPBackend.MATH):
        chunked = core.read(core.encode(context), queries)
    assert rows == [40] + [13] * 7 + [10]
    assert_same(chunked, whole)


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
        mixed = (maps[:, layer] @ values).transpose(-3, -2).flatten(-2)
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
        answer = attention._attend(query, keys, values, bias if weighted else None, normalize=True)
    logits = torch.einsum("bhmc,bhnc->bhmn", query, keys) / math.sqrt(5) + bias
    direct = logits.softmax(-1) @ values, logits.logsumexp(-1)
    assert_same(answer, direct)
    outer = points(2, 3, 7, 5, seed=5), points(2, 3, 7, seed=6)
    inputs = (query, keys, values)
    assert_same(torch.autograd.grad(answer, inputs, outer), torch.autograd.grad(direct, inputs, outer))


def test_log_normalizer_survives_far_queries():
    keys = points(1, 30, 4)
    query = torch.full((1, 1, 4), 1e4, dtype=torch.float64)
    _, normalizer = attention._attend(query, keys, keys, None, normalize=True)
    expected = (query / 2 @ keys.mT).logsumexp(-1) - math.log(30)
    assert expected.abs() > 1e3
    torch.testing.assert_close(normalizer, expected)


def kernel_estimator(bandwidth: float, dim: int, constant: float) -> AttentionCore:
    """Weights that make one lifted block a Gaussian kernel estimate (the paper's Proposition 3.5).

    Every channel has a twin of opposite sign, so the norms see mean zero, and two channels hold a
    large constant, so they see a nearly constant variance: the norms are the identity up to
    1 / constant^2, and the rest is the construction of the paper.
    """
    width = 4 * dim + 6
    config = AttentionConfig(dim=dim, layers=1, width=width, heads=1, feedforward=1, lift=True)
    core = AttentionCore(config).double().eval()
    twin = width // 2
    point, norm, mean, normalizer, big = (
        slice(0, dim),
        dim,
        slice(dim + 1, 2 * dim + 1),
        2 * dim + 1,
        2 * dim + 2,
    )
    identity = torch.eye(dim, dtype=torch.float64)
    with torch.no_grad():
        for parameter in core.parameters():
            parameter.zero_()
        block = core.blocks[0]
        core.embed.weight[:twin, :dim][point] = identity
        core.embed.weight[norm, dim] = dim  # the lift holds |x|^2 / d
        core.embed.weight[twin:] = -core.embed.weight[:twin]
        core.embed.bias[big], core.embed.bias[big + twin] = constant, -constant
        for layer_norm in (block.attention_norm, core.norm):
            layer_norm.weight.fill_(constant / math.sqrt(twin))
        block.query.weight[:dim, point] = math.sqrt(width) * identity / bandwidth**2
        block.query.bias[dim] = math.sqrt(width)
        block.key_value.weight[:dim, point] = identity
        block.key_value.weight[dim, norm] = -1 / (2 * bandwidth**2)
        block.key_value.weight[width : width + dim, point] = identity
        block.out.weight[mean, :dim] = identity
        block.normalizer.weight[normalizer] = 1
        for written in (block.out.weight, block.normalizer.weight):
            written[twin:] = -written[:twin]
        core.score_head.weight[:, mean] = identity / bandwidth**2
        core.score_head.weight[:, point] = -identity / bandwidth**2
        core.density_head.weight[0, normalizer] = 1
        core.density_head.weight[0, norm] = -1 / (2 * bandwidth**2)
        core.density_head.bias[0] = -dim / 2 * math.log(2 * math.pi * bandwidth**2)
    return core


@pytest.mark.parametrize("n", [30, 300])
def test_lifted_core_can_be_an_exact_kernel_estimate(n):
    bandwidth = 0.4
    context, queries = points(n, 3), points(9, 3, seed=2).requires_grad_()
    squares = (queries[:, None] - context).square().sum(-1)
    log_density = (-squares / (2 * bandwidth**2)).logsumexp(-1) - math.log(n)
    log_density = log_density - 1.5 * math.log(2 * math.pi * bandwidth**2)
    score = torch.autograd.grad(log_density.sum(), queries)[0]
    errors = []
    for constant in (1e3, 1e4):
        core = kernel_estimator(bandwidth, 3, constant)
        answer = core.read(core.encode(context), queries)
        off = (answer.log_density - log_density, answer.score - score)
        errors.append(max(part.detach().abs().max().item() for part in off))
    assert errors[1] < 1e-5
    assert errors[1] < errors[0] / 50  # what is left is the norms' 1 / constant^2


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
    with pytest.raises(ValueError, match="multiple"):
        AttentionCore(AttentionConfig(dim=2, width=10, heads=4))


BFLOAT16 = """
import torch
from discoformer.models.attention import AttentionConfig, AttentionCore
torch.manual_seed(0)
for lift in (False, True):
    config = AttentionConfig(dim=2, layers=2, width=32, heads=2, feedforward=64, dropout=0.0, lift=lift)
    core = AttentionCore(config)
    context, weights = torch.randn(3, 64, 2), torch.rand(3, 64)
    exact = core.read(core.encode(context, weights), context)
    with torch.autocast("cpu", torch.bfloat16):
        state = core.encode(context, weights)
        rough = core.read(state, context)
    assert state.memory[0][0].dtype == torch.bfloat16
    for one, other in zip(exact, rough):
        assert other.dtype == torch.float32
        assert 0 < (one - other).norm() < 0.05 * one.norm()
    (rough[0].sum() + rough[1].sum()).backward()
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in core.parameters())
"""


def test_bfloat16_autocast_keeps_stream_and_heads_in_float32():
    # In a process of its own: on virtual machines that announce AMX without describing its tiles,
    # bfloat16 products end in an illegal instruction unless the instruction set is capped at the start.
    environment = {
        **os.environ,
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run([sys.executable, "-c", BFLOAT16], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

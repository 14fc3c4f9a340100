"""Lifted heads are exact kernel estimates."""

import math

import pytest
import torch
from helpers import attention_core, normal


@pytest.mark.parametrize("n", [30, 300])
def test_lifted_heads_are_exact_kernel_estimates(n):
    """The paper's Proposition 3.5: without learned logits, log-normalizer and mean shift are the kernel's."""
    core, context, queries = attention_core(lift=True, dim=3), normal(n, 3) + 5, normal(9, 3, seed=2) + 5
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
    core, deviation = attention_core(lift=True, dim=1), 0.7
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

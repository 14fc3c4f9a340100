"""Attention with its log-normalizer, fused and not."""

import math

import pytest
import torch
from helpers import assert_same, normal
from torch.nn.attention import SDPBackend, sdpa_kernel

from discoformer.models.attention.softmax import attend


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])
def test_log_normalizer_is_logsumexp_with_its_gradient(kernel, weighted):
    query, keys, values = (normal(2, 3, n, 5, seed=n).requires_grad_() for n in (7, 30, 31))
    values = values[..., :30, :]
    weights = (
        normal(2, 30, seed=9).softmax(-1) if weighted else torch.full((2, 30), 1 / 30, dtype=torch.float64)
    )
    bias = weights.log()[:, None, None]
    with sdpa_kernel(kernel):
        answer = attend(query, keys, values, bias if weighted else None, 0.4, normalize=True)
    logits = torch.einsum("bhmc,bhnc->bhmn", query, keys) * 0.4 + bias
    direct = logits.softmax(-1) @ values, logits.logsumexp(-1)
    assert_same(answer, direct)
    outer = normal(2, 3, 7, 5, seed=5), normal(2, 3, 7, seed=6)
    inputs = (query, keys, values)
    assert_same(torch.autograd.grad(answer, inputs, outer), torch.autograd.grad(direct, inputs, outer))


def test_log_normalizer_survives_far_queries():
    keys = normal(1, 30, 4)
    query = torch.full((1, 1, 4), 1e4, dtype=torch.float64)
    _, normalizer = attend(query, keys, keys, None, 0.5, normalize=True)
    expected = (query / 2 @ keys.mT).logsumexp(-1) - math.log(30)
    assert expected.abs() > 1e3
    torch.testing.assert_close(normalizer, expected)

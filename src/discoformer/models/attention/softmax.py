"""Softmax attention that also returns its log-normalizers, by the fused kernel where there is one."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import scaled_dot_product_attention

from discoformer.core import private

__all__ = ["CHUNK_ELEMENTS", "attend", "logits_of"]

CHUNK_ELEMENTS = 2**25  # largest intermediate tensors of a chunked read, in numbers (128 MB of float32)


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    log_weights: Tensor | None,
    scale: float,
    *,
    normalize: bool,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor | None]:
    """Attention output (..., heads, m, c) and, if asked to ``normalize``, log-normalizers (..., heads, m).

    The normalizer is log sum_j w_j exp(logit_ij) with weights that sum to one, 1/n if none are given:
    a mean, comparable across n.  ``dropout`` is the share of the attention weights that are left out; it
    cannot be combined with ``normalize``.
    """
    batch = torch.broadcast_shapes(query.shape[:-3], keys.shape[:-3])

    def flat(tensor: Tensor) -> Tensor:  # the fused kernels take exactly one batch dimension
        return tensor.expand(*batch, *tensor.shape[-3:]).reshape(-1, *tensor.shape[-3:])

    inputs = flat(query), flat(keys), flat(values), None if log_weights is None else flat(log_weights)
    if not normalize:
        attended = scaled_dot_product_attention(*inputs, dropout_p=dropout, scale=scale)
        return attended.reshape(*batch, *attended.shape[1:]), None
    # The public function keeps its log-normalizer to itself.  `torch.nn.attention.sdpa_kernel`,
    # which turns the fused kernels off there (for second derivatives), turns them off here too.
    there = private.FUSED_ATTENTION is not None and private.FUSED_ATTENTION_BACKWARD is not None
    fused = there and query.device.type == "cpu" and torch.backends.cuda.flash_sdp_enabled()
    attention = _FusedAttention.apply if fused else _explicit_attention
    attended, normalizers = attention(*inputs, scale)
    if log_weights is None:
        normalizers = normalizers - math.log(keys.shape[-2])
    return attended.reshape(*batch, *attended.shape[1:]), normalizers.reshape(*batch, *normalizers.shape[1:])


def logits_of(query: Tensor, keys: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    logits = (query * scale) @ keys.mT
    return logits if bias is None else logits + bias


def _explicit_attention(
    query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    """Attention and logsumexp of the logits in plain operations, a bounded number of rows at a time."""
    rows = max(1, CHUNK_ELEMENTS // math.prod((*query.shape[:-2], keys.shape[-2])))
    attended, normalizers = [], []
    for part in query.split(rows, -2):
        logits = logits_of(part, keys, bias, scale)
        normalizers.append(logits.logsumexp(-1))
        attended.append((logits - normalizers[-1].unsqueeze(-1)).exp() @ values)
    return torch.cat(attended, -2), torch.cat(normalizers, -1)


class _FusedAttention(torch.autograd.Function):
    """Attention and logsumexp by the fused CPU kernel, with the gradient of both.

    The kernel's own backward knows the gradient of the output only: with weights p = softmax(logits),
    values v, output o and its gradient g, the logits get p_ij (g_i . v_j - g_i . o_i).  A gradient u_i
    of the logsumexp adds p_ij u_i.  It rides along as one more column: u in g, 1 in v and 0 in o.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None, scale: float
    ) -> tuple[Tensor, Tensor]:
        output, normalizers = private.FUSED_ATTENTION(query, keys, values, attn_mask=bias, scale=scale)
        ctx.scale = scale
        ctx.save_for_backward(query, keys, values, bias, output, normalizers)
        return output, normalizers

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, keys, values, bias, output, normalizers = ctx.saved_tensors
        outer, normalizer_gradient = gradients

        def widen(tensor: Tensor, column: float) -> Tensor:
            return nn.functional.pad(tensor, (0, 1), value=column)

        outer = torch.cat([outer, normalizer_gradient.unsqueeze(-1)], -1)
        widened = private.FUSED_ATTENTION_BACKWARD(
            outer,
            widen(query, 0.0),
            widen(keys, 0.0),
            widen(values, 1.0),
            widen(output, 0.0),
            normalizers,
            0.0,
            False,
            attn_mask=bias,
            scale=ctx.scale,
        )
        return *(gradient[..., :-1] for gradient in widened), None, None

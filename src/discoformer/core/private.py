"""What torch keeps to itself and we use all the same: here only, each with a public way.

A name that begins with an underscore may leave with any version of torch.  Each of these is looked up once;
where it is missing, or set to None as a test does, the public way is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["FUSED_ATTENTION", "FUSED_ATTENTION_BACKWARD", "INTERPRETERS", "standard_gamma"]

_ATEN = torch.ops.aten
_NAME = "_scaled_dot_product_flash_attention_for_cpu"
# Attention that tells its log-normalizers; `models.attention.softmax` has the public way.
FUSED_ATTENTION: Any = getattr(_ATEN, _NAME, None)
FUSED_ATTENTION_BACKWARD: Any = getattr(_ATEN, f"{_NAME}_backward", None)

_GAMMA: Callable[..., Tensor] | None = getattr(torch, "_standard_gamma", None)
# The transforms of `torch.func` at work, None for none; `core.checks.holds` has the public way.
INTERPRETERS: Callable[[], Any] | None = getattr(
    getattr(torch._C, "_functorch", None), "peek_interpreter_stack", None
)


def standard_gamma(shape: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draws of gamma variables of unit scale with these shape parameters, by a generator.

    `torch.distributions.Gamma` takes no generator.

    >>> standard_gamma(torch.tensor([0.5, 20.0])).shape
    torch.Size([2])
    """
    return _by_rejection(shape, generator) if _GAMMA is None else _GAMMA(shape, generator=generator)


def _by_rejection(shape: Tensor, generator: torch.Generator | None) -> Tensor:
    """The method of Marsaglia and Tsang; below one, a draw of shape + 1 is shrunk by U^(1/shape)."""

    def uniform(like: Tensor) -> Tensor:
        return 1 - torch.rand(like.shape, generator=generator, dtype=like.dtype, device=like.device)

    small = shape < 1
    d = (torch.where(small, shape + 1, shape) - 1 / 3).flatten()
    result, left = torch.empty_like(d), torch.arange(len(d), device=d.device)
    while len(left):
        wanted = d[left]
        x = torch.randn(wanted.shape, generator=generator, dtype=d.dtype, device=d.device)
        v = (1 + x / (9 * wanted).sqrt()).clamp_min(0) ** 3
        bound = 0.5 * x.square() + wanted * (1 - v + v.log())  # log of nothing is refused below
        taken = (v > 0) & (uniform(wanted).log() < bound)
        result[left[taken]] = (wanted * v)[taken]
        left = left[~taken]
    result = result.reshape(shape.shape)
    return torch.where(small, result * uniform(shape) ** (1 / shape), result)

"""Whether values can be asked for: not while torch transforms or compiles, nor on the meta device."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["holds", "traced"]


def traced() -> bool:
    """Whether a transform of `torch.func` or the compiler is at work.

    >>> traced(), bool(torch.func.vmap(lambda x: x + traced())(torch.zeros(1)))
    (False, True)
    """
    return torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None


def holds(mask: Tensor) -> bool | None:
    """Whether a mask is true anywhere; None where its values cannot be asked for.

    >>> holds(torch.tensor([False, True])), holds(torch.zeros(2, dtype=torch.bool, device="meta"))
    (True, None)
    """
    return None if traced() or mask.is_meta else bool(mask.any())

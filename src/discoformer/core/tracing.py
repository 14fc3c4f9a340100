"""Whether values can be asked for: not while torch transforms or compiles, nor on the meta device."""

from __future__ import annotations

import torch
from torch import Tensor

from discoformer.core.private import transforming

__all__ = ["holds", "traced"]


def traced() -> bool:
    """Whether a transform of `torch.func` or the compiler is at work, or may be: it is safe to think so.

    >>> traced(), bool(torch.func.vmap(lambda x: x + traced())(torch.zeros(1)))
    (False, True)
    """
    return torch.compiler.is_compiling() or transforming() is not False


def holds(mask: Tensor) -> bool | None:
    """Whether a mask is true anywhere; None where its values cannot be asked for.

    >>> holds(torch.tensor([False, True])), holds(torch.zeros(2, dtype=torch.bool, device="meta"))
    (True, None)
    """
    if torch.compiler.is_compiling() or mask.is_meta or transforming():
        return None
    try:
        return bool(mask.any())
    except RuntimeError:  # inside a transform of a torch that does not tell so
        return None

"""Give every task the same weight: errors relative to those usual for its dimension and size.

At n = 64 errors are twenty times those at n = 4096, so small samples would dominate a plain mean.
"""

from __future__ import annotations

import math

import torch.distributed as dist
from torch import Tensor

__all__ = ["Balance"]

_KEEP = 0.97  # of a running mean, per task
_MOST = 5.0  # a larger error counts as this in the running means
_LEAST = 1e-4


class Balance:
    """Running means of the errors of tasks, one for every dimension and power of two of the size.

    An error e counts as e / (mean of e and the usual error).  So a data set that is harder than others of
    its size counts for more, but never for more than two.

    Examples
    --------
    >>> import torch
    >>> balance = Balance()
    >>> [round(float(balance("score", torch.tensor([e]), dim=2, size=64)), 2) for e in (4.0, 4.0, 0.0)]
    [1.0, 1.0, 0.0]
    >>> balance.usual
    {'score d2 n64': 3.88}
    """

    def __init__(self) -> None:
        self.usual: dict[str, float] = {}

    def __call__(self, name: str, errors: Tensor, dim: int, size: int) -> Tensor:
        """The mean of errors (B,) of one task, each relative to what is usual; learns what that is."""
        key = f"{name} d{dim} n{2 ** int(math.log2(size))}"
        found = errors.detach()
        for where, mean in _everywhere(key, float(found.clamp(max=_MOST).mean())):
            if math.isfinite(mean):
                self.usual[where] = _KEEP * self.usual.get(where, mean) + (1 - _KEEP) * mean
        usual = self.usual.get(key, 1.0)
        return (errors / (0.5 * (found + usual) + _LEAST)).mean()


def _everywhere(key: str, mean: float) -> list[tuple[str, float]]:
    """What all processes have found, in the order of their ranks: they keep the same means."""
    if not dist.is_initialized():
        return [(key, mean)]
    found: list[tuple[str, float]] = [("", 0.0)] * dist.get_world_size()
    dist.all_gather_object(found, (key, mean))
    return found

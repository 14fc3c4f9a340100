"""Quantiles from a distribution function, by bisection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from discoformer.core.checks import DataError

__all__ = ["bisect_quantile"]

_HALVINGS = 200  # more than double precision can tell; the loop ends as soon as nothing moves


def bisect_quantile(
    cdf: Callable[[Tensor], Tensor], bracket: Callable[[Tensor], Tensor], shares: Any, like: Tensor
) -> Tensor:
    """Points (..., m, 1) where ``cdf``, increasing, is ``shares`` (..., m).

    Parameters
    ----------
    cdf : of points (..., m, 1)
    bracket : from shares (..., m) to points (..., m, k); the answer lies between the least and the largest
    shares : numbers strictly between 0 and 1
    like : a tensor of the type and device of the answer

    >>> shares = torch.tensor([0.25], dtype=torch.float64)
    >>> unit = lambda share: torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    >>> float(bisect_quantile(lambda x: x.squeeze(-1).square(), unit, shares, shares))
    0.5
    """
    share = torch.as_tensor(shares, dtype=like.dtype, device=like.device)
    if not bool(((share > 0) & (share < 1)).all()):
        raise DataError("quantiles are for shares above 0 and below 1")
    ends = bracket(share)
    low, high = ends.amin(-1), ends.amax(-1)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if bool(((middle <= low) | (middle >= high)).all()):
            break
        below = cdf(middle.unsqueeze(-1)) < share
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (0.5 * (low + high)).unsqueeze(-1)

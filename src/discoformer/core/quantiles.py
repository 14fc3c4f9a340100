"""Quantiles from a distribution function, between two points that close in on them.

The next point is that of a parabola through the last three where it can be trusted, and else the middle
(Chandrupatla 1997).  Smooth distribution functions take a dozen steps where halving takes fifty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from discoformer.core.checks import DataError

__all__ = ["find_quantile"]

_MOST = 200  # steps, more than halving takes; the loop ends as soon as nothing moves


def find_quantile(
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
    >>> float(find_quantile(lambda x: x.squeeze(-1).square(), unit, shares, shares))
    0.5
    """
    share = torch.as_tensor(shares, dtype=like.dtype, device=like.device)
    if not bool(((share > 0) & (share < 1)).all()):
        raise DataError("quantiles are for shares above 0 and below 1")
    ends = bracket(share)
    old, new = ends.amin(-1), ends.amax(-1)  # the quantile lies between them
    off_old = (cdf(old.unsqueeze(-1)) - share).clamp_max(0)  # an end that is beyond it by rounding is a hit
    off_new = (cdf(new.unsqueeze(-1)) - share).clamp_min(0)
    least = torch.finfo(old.dtype).eps ** 2 * (new - old)
    portion = torch.full_like(old, 0.5)
    for _ in range(_MOST):
        trial = new + portion * (old - new)
        off = cdf(trial.unsqueeze(-1)) - share
        same = (off < 0) == (off_new < 0)
        third, off_third = torch.where(same, new, old), torch.where(same, off_new, off_old)
        old, off_old = torch.where(same, old, new), torch.where(same, off_old, off_new)
        new, off_new = trial, off
        nearer = off_new.abs() <= off_old.abs()
        best = torch.where(nearer, new, old)
        step = 0.5 * torch.finfo(best.dtype).eps * best.abs() + least  # what can be told apart
        narrow = (step / (old - new).abs()).nan_to_num(1.0)
        if bool(((narrow >= 0.5) | (torch.where(nearer, off_new, off_old) == 0)).all()):
            break
        by_parabola = _parabola((new, old, third), (off_new, off_old, off_third))
        portion = torch.minimum(torch.maximum(by_parabola, narrow), 1 - narrow).nan_to_num(0.5)
    return best.unsqueeze(-1)


def _parabola(at: tuple[Tensor, Tensor, Tensor], off: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Which portion of the way from the first to the second point to go: by inverse interpolation, or 1/2."""
    (new, old, third), (off_new, off_old, off_third) = at, off
    xi, phi = (new - old) / (third - old), (off_new - off_old) / (off_third - off_old)
    trusted = (phi.square() < xi) & ((1 - phi).square() < 1 - xi)
    first = off_new / (off_old - off_new) * off_third / (off_old - off_third)
    slope = (third - new) / (old - new)
    second = off_new / (off_third - off_new) * off_old / (off_third - off_old)
    found = first + slope * second
    return torch.where(trusted & found.isfinite(), found, torch.full_like(found, 0.5))

"""Draws of a density with a fixed seed, so that the same question has the same answer."""

from __future__ import annotations

import torch
from torch import Tensor

from discoformer.core.fields import Density

__all__ = ["draw"]

_DRAWS = 16384


@torch.no_grad()
def draw(density: Density, count: int = _DRAWS, seed: int = 0) -> Tensor:
    """Points (count, d) drawn with a fixed seed.

    What is read off N of them has a standard error of std / sqrt(N) as a mean, and of sqrt(p (1 - p) / N) as
    a probability.

    >>> from discoformer.baselines.kde import KDE
    >>> draw(KDE(1.0).fit([[-9.0], [9.0]])).shape
    torch.Size([16384, 1])
    """
    return density.sample(count, torch.Generator().manual_seed(seed))

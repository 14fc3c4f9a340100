"""Categories as a few columns of numbers, so that a network sees which levels go together.

The scores come from multiple correspondence analysis: indicators of the levels, each scaled by its own
spread, rotated to the axes along which rows differ most.  Axes with the same spread, which a single category
always has, could be any rotation of one another, and rounding would choose: a very small part of an uneven
spread, the same for every table, chooses instead.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from discoformer.scale.ranks import generic_direction

__all__ = ["category_scores"]

_RANK = 1e-4  # axes with less of the first one's spread say nothing
_UNEVEN = 1e-6  # of spread, decides between axes that have the same: far above rounding, far below _RANK


def category_scores(codes: Tensor, levels: tuple[int, ...], often: Tensor, columns: int) -> Tensor:
    """Up to q columns (n, q) of unit variance from complete codes (n, c), which count ``often`` (n,) times.

    >>> codes = torch.tensor([[0, 1], [0, 1], [1, 0]])
    >>> category_scores(codes, (2, 2), torch.ones(3).double(), 4).abs().round(decimals=3).tolist()
    [[0.707], [0.707], [1.414]]
    """
    share = (often / often.sum()).unsqueeze(-1)
    parts = []
    for column, count in zip(codes.unbind(-1), levels, strict=True):
        hot = one_hot(column, count).to(often)
        mean = (share * hot).sum(0)
        tiny = torch.finfo(mean.dtype).tiny
        parts.append(torch.where(mean > 0, (hot - mean) / mean.clamp_min(tiny).sqrt(), 0.0))
    indicators = torch.cat(parts, -1)
    direction = generic_direction(indicators.shape[-1]).to(indicators)
    spread = (share * indicators).mT @ indicators
    values, vectors = torch.linalg.eigh(spread + torch.diag(_UNEVEN * direction))
    kept = (values > _RANK * values[-1].clamp_min(_RANK)).nonzero().flatten().flip(0)[:columns]
    axes = vectors[:, kept]
    axes = axes * (direction @ axes).sign()  # signs that a permutation keeps
    scores: Tensor = indicators @ (axes / values[kept].sqrt())
    return scores

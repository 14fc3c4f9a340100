"""Categories as a few columns of numbers, so that a network sees which levels go together.

The scores come from multiple correspondence analysis: indicators of the levels, each scaled by its own
spread, rotated to the axes along which rows differ most.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

__all__ = ["category_scores"]

_RANK = 1e-9  # axes with less of the first one's spread say nothing


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
        parts.append(torch.where(mean > 0, (hot - mean) / mean.clamp_min(_RANK).sqrt(), 0.0))
    indicators = torch.cat(parts, -1)
    values, vectors = torch.linalg.eigh((share * indicators).mT @ indicators)
    kept = (values > _RANK * values[-1].clamp_min(_RANK)).nonzero().flatten().flip(0)[:columns]
    axes = vectors[:, kept]
    largest = axes.take_along_dim(axes.abs().argmax(0, keepdim=True), 0)  # signs that a permutation keeps
    scores: Tensor = indicators @ (axes * largest.sign() / values[kept].sqrt())
    return scores

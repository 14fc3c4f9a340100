"""Categories in a mixture: tables of probabilities, one per slot, and the columns that a network sees.

A slot that holds c rows, c_l of them of level l, has p_l = (c_l + a q_l) / (c + a): q is the table of all
rows and a is a number of pseudo-rows.  The slots themselves choose it: the a under which their counts are
most likely as draws from Dirichlet laws around q.  The table of all rows has one extra row, spread evenly
over the levels, so that a level that was never seen is rare, not impossible.

The network sees scores of multiple correspondence analysis: indicators of the levels, each scaled by its own
spread, rotated to the axes along which rows differ most.  Axes with the same spread, which a single category
always has, could be any rotation of one another, and rounding would choose: a very small part of an uneven
spread, the same for every table, chooses instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from discoformer.scale.ranks import generic_direction

__all__ = ["Tally", "category_scores", "log_share", "tally"]

_PSEUDO = [2.0**k for k in range(-6, 15)]  # pseudo-rows to choose from
_RANK = 1e-4  # axes with less of the first one's spread say nothing
_UNEVEN = 1e-6  # of spread, decides between axes that have the same: far above rounding, far below _RANK


@dataclass(frozen=True)
class Tally:
    """What a table of probabilities rests on.

    Attributes
    ----------
    count : (..., M, L), rows of every slot and level
    total : (..., L), rows of every level
    pseudo : (...), pseudo-rows that stand for the table of all rows
    """

    count: Tensor
    total: Tensor
    pseudo: Tensor

    @property
    def log_table(self) -> Tensor:
        """Log probabilities (..., M, L)."""
        prior = self.pseudo[..., None] * _pooled(self.total)
        whole = self.count.sum(-1, keepdim=True) + self.pseudo[..., None, None]
        return ((self.count + prior.unsqueeze(-2)) / whole).log()

    def change(self, codes: Tensor, held: Tensor, multiplicity: Tensor) -> Tensor:
        """How log probabilities (M, n) change when slots lose what they hold (M, n) of rows.

        ``codes`` (n,) are the levels of the rows, -1 where there is none, and ``multiplicity`` (n,) is how
        often they count in the table of all rows.
        """
        level = codes.clamp_min(0)
        levels = self.total.shape[-1]
        fewer = (self.total[level] - multiplicity).clamp_min(0) + 1 / levels
        prior = self.pseudo * fewer / ((self.total.sum() - multiplicity).clamp_min(0) + 1)
        own = (self.count[:, level] - held).clamp_min(0) + prior
        whole = (self.count.sum(-1, keepdim=True) - held).clamp_min(0) + self.pseudo
        return torch.where(codes < 0, 0.0, (own / whole).log() - self.log_table[:, level])

    def map(self, function: Callable[[Tensor], Tensor]) -> Tally:
        """Apply a function to every tensor."""
        return Tally(function(self.count), function(self.total), function(self.pseudo))


def tally(codes: Tensor, held: Tensor, levels: int) -> Tally:
    """Count levels ``codes`` (n,), -1 for gaps, by what M slots hold (n, M) of the rows.

    >>> found = tally(torch.tensor([0, 0, 1, 1]), torch.eye(2).double()[[0, 0, 1, 1]], 2)
    >>> found.count.tolist(), found.total.tolist()
    ([[2.0, 0.0], [0.0, 2.0]], [2.0, 2.0])
    """
    there = codes >= 0
    count = held.new_zeros(levels, held.shape[-1]).index_add(0, codes[there], held[there]).mT
    total = count.sum(-2)
    grid = torch.tensor(_PSEUDO, dtype=count.dtype, device=count.device)
    prior = grid[:, None, None] * _pooled(total)  # (A, 1, L)
    gain = torch.lgamma(count + prior) - torch.lgamma(prior)
    whole = torch.lgamma(grid.unsqueeze(-1)) - torch.lgamma(count.sum(-1) + grid.unsqueeze(-1))
    evidence = gain.sum((-2, -1)) + whole.sum(-1)
    return Tally(count, total, grid[evidence.argmax()])


def log_share(log_tables: tuple[Tensor, ...], codes: Tensor) -> Tensor:
    """Log probabilities (..., M, m) of codes (..., m, c), -1 where there is a gap, summed over the columns.

    A level that the table does not have is impossible.
    """
    found = torch.zeros((), dtype=torch.float64, device=codes.device)
    for column, table in enumerate(log_tables):
        code = codes[..., column].unsqueeze(-2)  # (..., 1, m)
        known = (code >= 0) & (code < table.shape[-1])
        rank = max(table.ndim, code.ndim)
        own, index = (part[(None,) * (rank - part.ndim)] for part in (table, torch.where(known, code, 0)))
        term = own.take_along_dim(index, -1)
        found = found + torch.where(known, term, torch.where(code == -1, 0.0, -torch.inf))
    return found


def _pooled(total: Tensor) -> Tensor:
    return (total + 1 / total.shape[-1]) / (total.sum(-1, keepdim=True) + 1)


def category_scores(codes: Tensor, levels: tuple[int, ...], multiplicity: Tensor, columns: int) -> Tensor:
    """Up to q columns (n, q) of unit variance from complete codes (n, c); rows have a ``multiplicity`` (n,).

    >>> codes = torch.tensor([[0, 1], [0, 1], [1, 0]])
    >>> category_scores(codes, (2, 2), torch.ones(3).double(), 4).abs().round(decimals=3).tolist()
    [[0.707], [0.707], [1.414]]
    """
    share = (multiplicity / multiplicity.sum()).unsqueeze(-1)
    parts = []
    for column, count in zip(codes.unbind(-1), levels, strict=True):
        hot = one_hot(column, count).to(multiplicity)
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

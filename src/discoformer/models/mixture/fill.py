"""Gaps filled by draws given what is there: of components at random, then of numbers and levels.

A network, which needs complete rows, can then look at a table, and a table with gaps is completed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from discoformer.models.mixture.gaps import look
from discoformer.models.mixture.student import StudentMixture
from discoformer.models.mixture.tables import log_share

__all__ = ["fill"]


def fill(
    student: StudentMixture, tables: tuple[Tensor, ...], points: Tensor, codes: Tensor, noise: Tensor
) -> tuple[Tensor, Tensor]:
    """Complete points (n, d) and codes (n, c): gaps, NaN and -1, are drawn given the rest of their row.

    Parameters
    ----------
    student, tables : laws of the points and log probabilities (M, L) of every category, by slot
    noise : (n, 1 + d + c), numbers between 0 and 1

    >>> one = torch.ones(1, dtype=torch.float64)
    >>> normal = StudentMixture(0 * one, 3 * one[:, None], one[:, None, None], 1e9 * one)
    >>> x, codes = torch.tensor([[torch.nan], [7.0]]).double(), torch.empty(2, 0, dtype=torch.long)
    >>> fill(normal, (), x, codes, torch.full((2, 2), 0.5).double())[0].flatten().tolist()
    [3.0, 7.0]
    """
    dim, found, levels = points.shape[-1], points.clone(), codes.clone()
    beside = log_share(tables, codes).mT if tables else points.new_zeros(1, 1)
    beside = beside.expand(len(points), len(student.nu))
    slot = torch.empty(len(points), dtype=torch.long, device=points.device)
    for seen in look(student, points):
        held = (student.log_weight + seen.log_density + beside[seen.rows]).softmax(-1)
        own = _choose(held, noise[seen.rows, 0])
        slot[seen.rows] = own
        gap = points[seen.rows].isnan()
        if not bool(gap.any()):
            continue
        place = torch.arange(len(own), device=own.device)
        spare = seen.spare[seen.which, own]  # (k, d, d)
        spare = torch.where(gap.unsqueeze(-1) & gap.unsqueeze(-2), spare, torch.diag_embed((~gap).to(spare)))
        normal = torch.special.ndtri(noise[seen.rows, 1 : 1 + dim]) * gap
        nu, distance = student.nu[own], seen.distance[place, own]
        growth = ((nu + distance) / (nu + seen.size.squeeze(-1))).sqrt().unsqueeze(-1)
        draw = (torch.linalg.cholesky(spare) @ normal.unsqueeze(-1)).squeeze(-1) * growth
        expected = student.mean[own] + seen.offset[place, own]
        found[seen.rows] = torch.where(gap, expected + draw, points[seen.rows])
    for column, table in enumerate(tables):
        level = _choose(table.exp()[slot], noise[:, 1 + dim + column])
        levels[:, column] = torch.where(codes[:, column] < 0, level, codes[:, column])
    return found, levels


def _choose(shares: Tensor, noise: Tensor) -> Tensor:
    """Which of the shares (n, k) numbers (n,) between 0 and 1 fall into."""
    below = shares.cumsum(-1)
    return (noise.unsqueeze(-1) * below[:, -1:] > below).sum(-1).clamp_max(shares.shape[-1] - 1)

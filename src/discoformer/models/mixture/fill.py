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

_BUDGET = 2**22  # numbers in an intermediate


def fill(
    student: StudentMixture,
    tables: tuple[Tensor, ...],
    points: Tensor,
    codes: Tensor,
    noise: Tensor,
    which: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Complete points (m, d) and codes (m, c): gaps, NaN and -1, are drawn given the rest of their row.

    Parameters
    ----------
    student, tables : laws of the points and log probabilities (M, L) of every category, by slot
    points, codes : (n, d) and (n, c), the rows
    noise : (m, 1 + d + c), numbers between 0 and 1
    which : (m,), the row of every draw; None for one draw of each

    >>> one = torch.ones(1, dtype=torch.float64)
    >>> normal = StudentMixture(0 * one, 3 * one[:, None], one[:, None, None], 1e9 * one)
    >>> x, codes = torch.tensor([[torch.nan], [7.0]]).double(), torch.empty(2, 0, dtype=torch.long)
    >>> fill(normal, (), x, codes, torch.full((2, 2), 0.5).double())[0].flatten().tolist()
    [3.0, 7.0]
    """
    which = torch.arange(len(points), device=points.device) if which is None else which
    dim, found, levels = points.shape[-1], points[which], codes[which]
    beside = log_share(tables, codes).mT if tables else points.new_zeros(1, 1)
    beside = beside.expand(len(points), len(student.nu))
    slot = torch.empty(len(which), dtype=torch.long, device=points.device)
    for seen in look(student, points):
        held = (student.log_weight + seen.log_density + beside[seen.rows]).softmax(-1)
        place = torch.full((len(points),), -1, dtype=torch.long, device=points.device)
        place[seen.rows] = torch.arange(len(seen.rows), device=points.device)
        for draws in (place[which] >= 0).nonzero().flatten().split(max(1, _BUDGET // max(1, dim) ** 2)):
            at = place[which[draws]]  # (k,), among the rows seen
            slot[draws] = own = _choose(held[at], noise[draws, 0])
            gap = found[draws].isnan()
            if not bool(gap.any()):
                continue
            spare = seen.spare[seen.which[at], own]  # (k, d, d)
            both = gap.unsqueeze(-1) & gap.unsqueeze(-2)
            spare = torch.where(both, spare, torch.diag_embed((~gap).to(spare)))
            normal = torch.special.ndtri(noise[draws, 1 : 1 + dim]) * gap
            nu, distance = student.nu[own], seen.distance[at, own]
            growth = ((nu + distance) / (nu + seen.size[at].squeeze(-1))).sqrt().unsqueeze(-1)
            draw = (torch.linalg.cholesky(spare) @ normal.unsqueeze(-1)).squeeze(-1) * growth
            expected = student.mean[own] + seen.offset[at, own]
            found[draws] = torch.where(gap, expected + draw, found[draws])
    for column, table in enumerate(tables):
        level = _choose(table.exp()[slot], noise[:, 1 + dim + column])
        levels[:, column] = torch.where(levels[:, column] < 0, level, levels[:, column])
    return found, levels


def _choose(shares: Tensor, noise: Tensor) -> Tensor:
    """Which of the shares (n, k) numbers (n,) between 0 and 1 fall into."""
    below = shares.cumsum(-1)
    return (noise.unsqueeze(-1) * below[:, -1:] > below).sum(-1).clamp_max(shares.shape[-1] - 1)

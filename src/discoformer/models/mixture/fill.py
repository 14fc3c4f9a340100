"""Gaps filled by draws, so that a network, which needs complete rows, can look at a table.

A draw takes its chance from what the row says (`columns.content_noise`): permuting rows permutes the draws.
"""

from __future__ import annotations

import torch
from torch import Tensor

from discoformer.models.mixture.gaps import look
from discoformer.models.mixture.mixed import MixedMixture
from discoformer.models.mixture.mixed_em import Rows, e_step
from discoformer.models.mixture.student import StudentMixture
from discoformer.models.mixture.tables import log_share, tally

__all__ = ["fill", "first_guess"]

_ROUNDS = 20  # of the one normal law that the first draws come from
_NORMAL = 1e6  # degrees of freedom


def first_guess(rows: Rows) -> MixedMixture:
    """One normal law of the columns, standardized, and a table for every category, from all that is there.

    One row more, of independent columns, keeps the covariance regular.

    >>> x = torch.tensor([[-1.0, -1.0], [1.0, 1.0], [2.0, torch.nan]], dtype=torch.float64)
    >>> guess = first_guess(Rows(x, torch.empty(3, 0, dtype=torch.long), (), torch.ones(3).double()))
    >>> bool(guess.student.scale[0, 0, 1] > 0.3)
    True
    """
    points, dim = rows.points, rows.points.shape[-1]
    eye = torch.eye(dim, dtype=points.dtype, device=points.device)
    one = points.new_ones(1)
    normal = StudentMixture(0 * one, points.new_zeros(1, dim), eye.unsqueeze(0), _NORMAL * one)
    for _ in range(_ROUNDS if bool(points.isnan().any()) else 0):
        sums = e_step(normal, (), rows)
        scale = (sums.scatter + eye) / (sums.count + 1)
        normal = StudentMixture(normal.log_weight, normal.mean + sums.shift, scale, normal.nu)
    held = rows.often.unsqueeze(-1)
    tables = (
        tally(codes, held, n).log_table for codes, n in zip(rows.codes.unbind(-1), rows.levels, strict=True)
    )
    return MixedMixture(normal, tuple(tables))


def fill(mixture: MixedMixture, rows: Rows, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Complete points (n, d) and codes (n, c): gaps are drawn given the rest of their row.

    ``noise`` (n, 1 + d + c) are numbers between 0 and 1.
    """
    student, dim = mixture.student, rows.points.shape[-1]
    points, codes = rows.points.clone(), rows.codes.clone()
    beside = log_share(mixture.tables, codes).mT if mixture.tables else points.new_zeros(1, 1)
    beside = beside.expand(len(points), len(student.nu))
    slot = torch.empty(len(points), dtype=torch.long, device=points.device)
    for seen in look(student, rows.points):
        terms = student.log_weight + seen.log_density + beside[seen.rows]
        own = _choose(terms.softmax(-1), noise[seen.rows, 0])
        slot[seen.rows] = own
        gap = rows.points[seen.rows].isnan()
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
        points[seen.rows] = torch.where(gap, expected + draw, rows.points[seen.rows])
    for column, table in enumerate(mixture.tables):
        level = _choose(table.exp()[slot], noise[:, 1 + dim + column])
        codes[:, column] = torch.where(codes[:, column] < 0, level, codes[:, column])
    return points, codes


def _choose(shares: Tensor, noise: Tensor) -> Tensor:
    """Which of the shares (n, k) numbers (n,) between 0 and 1 fall into."""
    below = shares.cumsum(-1)
    return (noise.unsqueeze(-1) * below[:, -1:] > below).sum(-1).clamp_max(shares.shape[-1] - 1)

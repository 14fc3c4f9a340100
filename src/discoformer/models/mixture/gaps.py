"""Student-t components at rows with gaps: the law of what is there, what follows for the rest, and its draws.

With P the inverse of the scale S at the coordinates that are there, and zero elsewhere, and e the offset from
the mean, zero at gaps: the squared distance is e' P e, the row is expected at mean + S P e, and what is not
there varies around that with the scale S - S P S.  Rows that lack the same coordinates share the algebra.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.models.mixture.categories import log_share
from discoformer.models.mixture.slots import student_log_density
from discoformer.models.mixture.student import StudentMixture

__all__ = ["Look", "Patterns", "fill", "look", "patterns", "together"]

_BUDGET = 2**23  # numbers in an intermediate
_SHARED = 8  # rows of a pattern from which on they are taken together, on the average
_BITS = 62  # of a whole number: a combination of so many coordinates is one, which sorts fast
_DRAWN = 2**22  # numbers in an intermediate


class Patterns(NamedTuple):
    """Which coordinates rows have.

    Attributes
    ----------
    present : (U, d) of bool, every combination that occurs
    which : (n,), the combination of every row
    """

    present: Tensor
    which: Tensor

    def groups(self) -> Iterator[tuple[list[int], Tensor]]:
        """Columns that are there, and the rows that have these and no others."""
        order = self.which.argsort(stable=True)
        counts = torch.bincount(self.which, minlength=len(self.present)).tolist()
        for present, rows in zip(self.present, order.split(counts), strict=True):
            yield present.nonzero().flatten().tolist(), rows


def patterns(points: Tensor) -> Patterns:
    """The combinations of coordinates in points (n, d), NaN where there is none.

    >>> patterns(torch.tensor([[1.0, torch.nan], [2.0, 3.0], [4.0, 5.0]])).which.tolist()
    [0, 1, 1]
    """
    present = ~points.isnan()
    if bool(present.all()):
        return Patterns(present[:1], torch.zeros(len(points), dtype=torch.long, device=points.device))
    dim = present.shape[-1]
    if dim > _BITS:
        return Patterns(*torch.unique(present, dim=0, return_inverse=True))
    place = torch.arange(dim - 1, -1, -1, device=points.device)
    found, which = (present.long() << place).sum(-1).unique(return_inverse=True)
    return Patterns((found.unsqueeze(-1) >> place & 1).bool(), which)


def together(points: Tensor, budget: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Columns (B, k) that are there, and rows (B, r) that have these and no others, in batches.

    Rows (n, d) that share their columns with many others come by themselves, B = 1; the others, r = 1, with
    all that have as many columns, as long as their matrices (B, k, k) are within the budget.

    >>> nan = torch.nan
    >>> x = torch.tensor([[1.0, nan], [nan, 3.0], *[[4.0, 5.0]] * 8])
    >>> [(columns.tolist(), rows.tolist()) for columns, rows in together(x, 100)]
    [([[0, 1]], [[2, 3, 4, 5, 6, 7, 8, 9]]), ([[1], [0]], [[1], [0]])]
    """
    alone: dict[int, list[tuple[list[int], int]]] = {}
    for columns, rows in patterns(points).groups():
        if len(rows) >= _SHARED or not columns:
            yield torch.tensor([columns], dtype=torch.long, device=points.device), rows.unsqueeze(0)
        else:
            alone.setdefault(len(columns), []).extend((columns, row) for row in rows.tolist())
    for count, found in alone.items():
        size = max(1, budget // count**2)
        for start in range(0, len(found), size):
            columns_of, row_of = zip(*found[start : start + size], strict=True)
            both = (torch.tensor(part, device=points.device) for part in (columns_of, row_of))
            columns_there, rows = both
            yield columns_there, rows.unsqueeze(-1)


class Look(NamedTuple):
    """What M components say of n rows with gaps.

    Attributes
    ----------
    rows : (n,), which of the rows they are
    size : (n, 1), how many coordinates a row has
    distance : (n, M), squared Mahalanobis distance of these
    log_density : (n, M), of these, without the components' weights
    offset : (n, M, d), where the whole row is expected, from the mean
    spare : (U, M, d, d), scale of what is not there, by pattern
    which : (n,), the pattern of every row
    """

    rows: Tensor
    size: Tensor
    distance: Tensor
    log_density: Tensor
    offset: Tensor
    spare: Tensor
    which: Tensor


def look(mixture: StudentMixture, points: Tensor) -> Iterator[Look]:
    """Blocks of rows of points (n, d), NaN where there is a gap, those with the same gaps together.

    >>> one = torch.ones(1, dtype=torch.float64)
    >>> scale = torch.tensor([[[2.0, 1.0], [1.0, 2.0]]], dtype=torch.float64)
    >>> mixture = StudentMixture(0 * one, torch.zeros(1, 2).double(), scale, 1e9 * one)
    >>> [seen] = look(mixture, torch.tensor([[1.0, torch.nan]], dtype=torch.float64))
    >>> seen.offset.round(decimals=6).tolist(), round(float(seen.spare[0, 0, 1, 1]), 6)
    ([[[1.0, 0.5]]], 1.5)
    """
    count, dim = mixture.mean.shape
    order = patterns(points).which.argsort(stable=True)
    for rows in order.split(max(1, _BUDGET // (count * max(1, dim) ** 2))):
        chunk = points[rows]
        present, which = patterns(chunk)
        precision, log_det = _inverse(mixture.scale, present)  # (U, M, d, d), (U, M)
        gain = mixture.scale @ precision
        offset = torch.where(chunk.isnan().unsqueeze(-2), 0.0, chunk.unsqueeze(-2) - mixture.mean)
        distance = (offset * _apply(precision, offset, which)).sum(-1)
        size = present.sum(-1)[which].unsqueeze(-1)
        log_peak = -0.5 * (size * math.log(2 * math.pi) + log_det[which])
        log_density = student_log_density(distance, log_peak, mixture.nu, size)
        spare = mixture.scale - gain @ mixture.scale
        yield Look(rows, size, distance, log_density, _apply(gain, offset, which), spare, which)


def _inverse(scale: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
    """Inverse and log determinant of scales (M, d, d) at the coordinates (U, d) that are there."""
    both = (present.unsqueeze(-1) & present.unsqueeze(-2)).unsqueeze(1)  # (U, 1, d, d)
    eye = torch.eye(present.shape[-1], dtype=scale.dtype, device=scale.device)
    factor = torch.linalg.cholesky(torch.where(both, scale, eye))
    log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return torch.where(both, torch.cholesky_inverse(factor), 0.0), log_det


def _apply(matrices: Tensor, vectors: Tensor, which: Tensor) -> Tensor:
    """Symmetric or not, A v of matrices (U, M, d, d) and vectors (n, M, d), by the pattern of each row.

    Rows are in the order of their patterns.
    """
    if len(matrices) * _SHARED > len(which):
        return (matrices[which] @ vectors.unsqueeze(-1)).squeeze(-1)
    parts = vectors.split(torch.bincount(which, minlength=len(matrices)).tolist())
    found = [torch.einsum("mde,nme->nmd", own, part) for own, part in zip(matrices, parts, strict=True)]
    return torch.cat(found) if len(found) > 1 else found[0]


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
        for draws in (place[which] >= 0).nonzero().flatten().split(max(1, _DRAWN // max(1, dim) ** 2)):
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

"""E- and M-steps in closed form over numbers, categories and gaps, from where the network begins.

The network sees complete rows of numbers.  Its slots differ from an M-step over those rows, because it
shrinks, merges and inflates.  These differences are what it has learned, and they are kept:

    weight' = weight + (c' - c) / n
    mean'   = mean + (m' - m)
    scale'  = a (A(X') + rest) / (c' + kappa),    rest = scale (c + kappa) / a - A(X)

c, m and X are the counts, means and scatters of the rows that the network saw, by its own responsibilities;
c', m' and X' are those of the E-step over all observed values, categories included; a, A and kappa are as in
`leave_one_out`.  Without categories and gaps nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from discoformer.models.mixture.categories import Tally, log_share, tally
from discoformer.models.mixture.gaps import look
from discoformer.models.mixture.leave_one_out import ScaleEvidence
from discoformer.models.mixture.mixed import MixedMixture
from discoformer.models.mixture.student import StudentMixture

__all__ = ["MixedRows", "Sums", "e_step", "first_guess", "settle"]

_LEAST = 1e-6  # rows below which a slot keeps its place
_GUESS = 20  # rounds of the one normal law that the first draws come from
_NORMAL = 1e6  # its degrees of freedom
_RIDGE = 1e-8  # added to scales, in standardized units: rounding must not make them singular


@dataclass(frozen=True)
class MixedRows:
    """A table, or a part of it.

    Attributes
    ----------
    points : (n, d), NaN where there is a gap
    codes : (n, c), -1 where there is a gap
    levels : of every category
    multiplicity : (n,), how often a row counts
    """

    points: Tensor
    codes: Tensor
    levels: tuple[int, ...]
    multiplicity: Tensor

    def complete(self, points: Tensor) -> MixedRows:
        """The same rows with other points."""
        return replace(self, points=points)


@dataclass(frozen=True)
class Sums:
    """What an E-step says of M slots; sums over parts of a table add.

    Attributes
    ----------
    count, mass : (M,), sums of responsibilities, and of these times Student weights
    first : (M, d), sums of these times offsets from the slot's mean
    second : (M, d, d), and of products of these offsets
    present : (M, d), responsibilities of the rows that have the column
    held : (n, M), the responsibilities themselves
    """

    count: Tensor
    mass: Tensor
    first: Tensor
    second: Tensor
    present: Tensor
    held: Tensor

    @property
    def shift(self) -> Tensor:
        """From the slot's mean to that of what it holds (M, d)."""
        return self.first / self.mass.clamp_min(_LEAST).unsqueeze(-1)

    @property
    def scatter(self) -> Tensor:
        """Around the mean of what a slot holds (M, d, d)."""
        return self.second - self.mass[:, None, None] * self.shift.unsqueeze(-1) * self.shift.unsqueeze(-2)


def e_step(
    mixture: StudentMixture, tables: tuple[Tensor, ...], rows: MixedRows, held: Tensor | None = None
) -> Sums:
    """Responsibilities of the slots, unless they are ``held`` (n, M) already, and what they sum up to.

    >>> one = torch.ones(1, dtype=torch.float64)
    >>> normal = StudentMixture(0 * one, 0 * one[:, None], one[:, None, None], 1e12 * one)
    >>> x = torch.tensor([[1.0], [torch.nan]], dtype=torch.float64)
    >>> rows = MixedRows(x, torch.empty(2, 0, dtype=torch.long), (), torch.ones(2).double())
    >>> sums = e_step(normal, (), rows)
    >>> sums.count.tolist(), sums.first.tolist(), sums.second.round(decimals=6).tolist()
    ([2.0], [[1.0]], [[[2.0]]])
    """
    count, dim = mixture.mean.shape
    beside = log_share(tables, rows.codes).mT if tables else rows.points.new_zeros(1, 1)
    beside = beside.expand(len(rows.points), count)
    found = rows.points.new_zeros(len(rows.points), count)
    mass = found.new_zeros(count)
    first, second = found.new_zeros(count, dim), found.new_zeros(count, dim, dim)
    for seen in look(mixture, rows.points):
        if held is None:
            terms = mixture.log_weight + seen.log_density + beside[seen.rows]
            part = terms.softmax(-1) * rows.multiplicity[seen.rows].unsqueeze(-1)
        else:
            part = held[seen.rows]
        found[seen.rows] = part
        weight = part * (mixture.nu + seen.size) / (mixture.nu + seen.distance)
        mass += weight.sum(0)
        scaled = (weight.unsqueeze(-1) * seen.offset).transpose(0, 1)  # (M, k, d)
        first += scaled.sum(1)
        second += scaled.mT @ seen.offset.transpose(0, 1)
        by_pattern = part.new_zeros(len(seen.spare), count).index_add(0, seen.which, part)
        second += (by_pattern[..., None, None] * seen.spare).sum(0)
    return Sums(found.sum(0), mass, first, second, found.mT @ (~rows.points.isnan()).to(found), found)


def first_guess(rows: MixedRows) -> tuple[StudentMixture, tuple[Tensor, ...]]:
    """One normal law of the columns, standardized, and a table for every category, from all that is there.

    One extra row, of independent columns, keeps the covariance regular.

    >>> x = torch.tensor([[-1.0, -1.0], [1.0, 1.0], [2.0, torch.nan]], dtype=torch.float64)
    >>> rows = MixedRows(x, torch.empty(3, 0, dtype=torch.long), (), torch.ones(3).double())
    >>> bool(first_guess(rows)[0].scale[0, 0, 1] > 0.3)
    True
    """
    points, dim = rows.points, rows.points.shape[-1]
    eye = torch.eye(dim, dtype=points.dtype, device=points.device)
    one = points.new_ones(1)
    normal = StudentMixture(0 * one, points.new_zeros(1, dim), eye.unsqueeze(0), _NORMAL * one)
    for _ in range(_GUESS if bool(points.isnan().any()) else 0):
        sums = e_step(normal, (), rows)
        scale = (sums.scatter + eye) / (sums.count + 1)
        normal = StudentMixture(normal.log_weight, normal.mean + sums.shift, scale, normal.nu)
    return normal, _tables(_tallies(rows, rows.multiplicity.unsqueeze(-1)))


def settle(
    start: StudentMixture,
    held: Tensor,
    seen: Tensor,
    rows: MixedRows,
    periods: tuple[float, ...],
    rounds: int,
) -> MixedMixture:
    """The mixture of all observed values, after ``rounds`` rounds.

    Parameters
    ----------
    start : what the network made of complete rows, in standardized columns, with its evidence
    held : (n, M), what its slots hold of these rows
    seen : (n, d), the rows it saw
    rows : the table
    periods : of circular columns, as in `MixedMixture`
    """
    known = _Known.of(start, e_step(start, (), rows.complete(seen), held))
    mixture, tallies = start, _tallies(rows, held)
    for _ in range(rounds):
        sums = e_step(mixture, _tables(tallies), rows)
        mixture = known.m_step(mixture, sums)
        tallies = _tallies(rows, sums.held)
    sums = e_step(mixture, _tables(tallies), rows)
    evidence = replace(known.evidence, count=sums.count, mass=sums.mass, axes=None)
    student = StudentMixture(mixture.log_weight, mixture.mean, mixture.scale, mixture.nu, evidence)
    return MixedMixture(student, _tables(tallies), periods, tallies, sums.present)


def _tallies(rows: MixedRows, held: Tensor) -> tuple[Tally, ...]:
    columns = zip(rows.codes.unbind(-1), rows.levels, strict=True)
    return tuple(tally(codes, held, levels) for codes, levels in columns)


def _tables(tallies: tuple[Tally, ...]) -> tuple[Tensor, ...]:
    return tuple(own.log_table for own in tallies)


@dataclass(frozen=True)
class _Known:
    """What a network's slots are beyond an M-step over the rows that it saw.

    Attributes
    ----------
    evidence : of the network's scales
    part : what share of the table the evidence counts: rows that were filled in count less
    weight : (M,), weights beyond the shares of the rows
    mean : (M, d), means beyond those of the rows
    rest : (M, d, d), what the scatters are completed by
    """

    evidence: ScaleEvidence
    part: Tensor
    weight: Tensor
    mean: Tensor
    rest: Tensor

    @classmethod
    def of(cls, start: StudentMixture, sums: Sums) -> _Known:
        evidence = start.evidence
        if evidence is None:
            evidence = ScaleEvidence.of_likelihood(sums.count, sums.mass)
        total = sums.count.sum()
        part = evidence.count.sum() / total
        factor = (part * sums.count + evidence.pseudo) / evidence.inflation
        rest = factor[:, None, None] * start.scale - _shaped(evidence, part * sums.scatter)
        return cls(
            evidence,
            part,
            start.log_weight.exp() - sums.count / total,
            -sums.shift,
            _nonnegative(rest, start.scale),
        )

    def m_step(self, before: StudentMixture, sums: Sums) -> StudentMixture:
        total = sums.count.sum()
        weight = (sums.count / total + self.weight).clamp_min(_LEAST / total)
        alive = sums.count > _LEAST
        mean = before.mean + torch.where(alive.unsqueeze(-1), sums.shift + self.mean, 0.0)
        count = self.part * sums.count + self.evidence.pseudo
        factor = self.evidence.inflation / count.clamp_min(_LEAST)
        scale = factor[:, None, None] * (_shaped(self.evidence, self.part * sums.scatter) + self.rest)
        scale = torch.where((count > _LEAST)[:, None, None], scale, before.scale)
        scale = 0.5 * (scale + scale.mT)
        scale.diagonal(dim1=-2, dim2=-1).add_(_RIDGE)
        return StudentMixture((weight / weight.sum()).log(), mean, scale, before.nu)


def _shaped(evidence: ScaleEvidence, scatter: Tensor) -> Tensor:
    """The part of scatters (M, d, d) that enters whole, and that along the axes of the columns."""
    along = evidence.along.unsqueeze(-1) * scatter.diagonal(dim1=-2, dim2=-1)
    return evidence.whole[:, None, None] * scatter + torch.diag_embed(along)


def _nonnegative(matrix: Tensor, scale: Tensor) -> Tensor:
    """The matrices (M, d, d) without what is negative in them, in units of the scales."""
    factor = torch.linalg.cholesky(scale)
    inner = torch.linalg.solve_triangular(factor, matrix, upper=False)
    inner = torch.linalg.solve_triangular(factor, inner.mT, upper=False)
    values, vectors = torch.linalg.eigh(0.5 * (inner + inner.mT))
    root = factor @ vectors
    kept: Tensor = (root * values.clamp_min(0).unsqueeze(-2)) @ root.mT
    return kept

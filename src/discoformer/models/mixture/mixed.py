"""A mixture over numbers and categories, of rows that may have gaps: everything about it is closed form.

A slot is a Student-t law of the continuous columns times a table of probabilities for every category:

    f(x, y) = sum_k w_k t_k(x) prod_c p_kc(y_c)

a density with respect to Lebesgue measure times counting.  NaN is a gap: the density is that of what is
there, and the score is zero elsewhere.  Along a circular column the law is wrapped: copies of it, whole turns
apart, add up.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.fields import Density, Estimate
from discoformer.core.quantiles import find_quantile
from discoformer.models.mixture.categories import Tally, log_share
from discoformer.models.mixture.gaps import fill, look, patterns, together
from discoformer.models.mixture.leave_one_out import Beside, Components, SlotsSeen, lose
from discoformer.models.mixture.student import StudentMixture

__all__ = ["MixedMixture", "columns_of", "to_codes"]

_TURNS = 3  # copies of a circular law on either side: what is beyond does not count
_IMPOSSIBLE = 2**31  # a code that no table has
_BUDGET = 2**22  # numbers in an intermediate


@dataclass(frozen=True, repr=False)
class MixedMixture(Density):
    """Mixture of M slots over d continuous columns, and then c categories as codes 0, 1, ...; NaN is a gap.

    Attributes
    ----------
    student : weights of the slots, and their laws of the continuous columns
    tables : log probabilities (..., M, L) of every category
    periods : of every continuous column, zero if it is not circular; circular ones live on [0, period)
    tallies : what the tables rest on; None where no row need be left out
    present : (M, d), rows of every slot that have the column; None likewise

    Examples
    --------
    >>> one = torch.ones(2, dtype=torch.float64)
    >>> at = torch.tensor([[-3.0], [3.0]], dtype=torch.float64)
    >>> student = StudentMixture((one / 2).log(), at, one[:, None, None], 1e9 * one)
    >>> mixed = MixedMixture(student, (torch.tensor([[0.9, 0.1], [0.2, 0.8]]).double().log(),))
    >>> mixed.log_density(torch.tensor([[torch.nan, 1.0]]).double()).exp().round(decimals=3).tolist()
    [0.45]
    >>> mixed.conditional([0], [3.0]).tables[0].exp().shape
    torch.Size([2, 2])
    """

    student: StudentMixture
    tables: tuple[Tensor, ...] = ()
    periods: tuple[float, ...] = ()
    tallies: tuple[Tally, ...] | None = None
    present: Tensor | None = None

    @property
    def numbers(self) -> int:
        """How many continuous columns there are; the categories follow."""
        return self.student.dim

    @property
    def dim(self) -> int:
        return self.numbers + len(self.tables)

    @property
    def gaps(self) -> bool:
        return True

    @property
    def log_weight(self) -> Tensor:
        """(..., M)."""
        return self.student.log_weight

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        batch = self.log_weight.shape[:-1]
        if batch and bool(queries.isnan().any()):
            rows = queries.expand(*batch, *queries.shape[-2:])
            return Estimate(*self._each(rows, lambda one, row: one._estimate(row)))
        points, codes = queries[..., : self.numbers].to(self.log_weight), self._codes(queries)
        beside, impossible = None, torch.zeros((), dtype=torch.bool, device=points.device)
        if self.tables:
            beside = log_share(self.tables, codes)
            impossible = beside.isneginf().all(-2)
            beside = torch.where(impossible.unsqueeze(-2), 0.0, beside)
        if not bool(points.isnan().any()):
            log_density, score = self._read(points, beside)
        else:
            flat = points.reshape(-1, self.numbers)
            spread = None if beside is None else beside.movedim(-2, 0).reshape(len(self.log_weight), -1)
            log_density, score = flat.new_zeros(len(flat)), torch.zeros_like(flat)
            for columns, rows in patterns(flat).groups():
                known = None if spread is None else spread[:, rows]
                place = torch.tensor(columns, dtype=torch.long, device=flat.device)
                part = self.marginal(columns) if columns else self
                found = part._read(flat[rows.unsqueeze(-1), place], known)
                log_density = log_density.index_put((rows,), found.log_density)
                score = score.index_put((rows.unsqueeze(-1), place), found.score)
            log_density, score = log_density.reshape(points.shape[:-1]), score.reshape(points.shape)
        log_density = torch.where(impossible, -torch.inf, log_density)
        score = torch.where(impossible.unsqueeze(-1), 0.0, score)
        nothing = torch.zeros_like(codes, dtype=score.dtype).expand(*score.shape[:-1], -1)
        return Estimate(log_density, torch.cat([score, nothing], -1))

    def _read(self, points: Tensor, beside: Tensor | None) -> Estimate[Tensor]:
        """At points (..., m, k) without gaps, with what the categories say (..., M, m)."""
        if not points.shape[-1]:
            terms = self.log_weight.unsqueeze(-1) + (0.0 if beside is None else beside)
            log_density = terms.logsumexp(-2)
            log_density = log_density.expand(torch.broadcast_shapes(log_density.shape, points.shape[:-1]))
            return Estimate(log_density, points.new_zeros(*log_density.shape, 0))
        turns = list(self._turns())
        if len(turns) == 1:
            return self.student.read(points, beside)
        answers = [self.student.read(points + turn.to(points), beside) for turn in turns]
        terms = torch.stack([answer.log_density for answer in answers])
        share = terms.softmax(0).unsqueeze(-1)
        return Estimate(terms.logsumexp(0), (share * torch.stack([a.score for a in answers])).sum(0))

    def _turns(self) -> Iterable[Tensor]:
        """Whole turns (d,) of the circular columns; nothing but zero if there are none."""
        per_column = [range(-_TURNS, _TURNS + 1) if p else (0,) for p in self._periods]
        period = torch.tensor(self._periods, dtype=torch.float64)
        for turn in itertools.product(*per_column):
            yield torch.tensor(turn, dtype=torch.float64) * period

    @property
    def _periods(self) -> tuple[float, ...]:
        return self.periods or (0.0,) * self.numbers

    def _codes(self, rows: Tensor) -> Tensor:
        return to_codes(rows[..., self.numbers :])

    def _each(self, rows: Tensor, ask: Callable[[MixedMixture, Tensor], Sequence[Tensor]]) -> list[Tensor]:
        """What every mixture of the batch says of its own rows (..., m, d + c), stacked again."""
        batch = self.log_weight.shape[:-1]
        singles = self.map(lambda t: t.flatten(0, len(batch) - 1))._singles(batch.numel())
        answers = [ask(one, row) for one, row in zip(singles, rows.flatten(0, len(batch) - 1), strict=True)]
        return [torch.stack(parts).unflatten(0, batch) for parts in zip(*answers, strict=True)]

    def _singles(self, size: int) -> list[MixedMixture]:
        """Every one of a batch (B) of mixtures."""
        return [self.map(partial(torch.select, dim=0, index=i)) for i in range(size)]

    def map(self, function: Callable[[Tensor], Tensor]) -> MixedMixture:
        """Apply a function to every parameter tensor."""
        return MixedMixture(self.student.map(function), tuple(map(function, self.tables)), self.periods)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        batch = self.log_weight.shape[:-1]
        size = batch.numel()
        flat = self.map(lambda t: t.reshape((size, *t.shape[len(batch) :])))
        slot = torch.multinomial(flat.log_weight.exp(), n, replacement=True, generator=generator)
        row = torch.arange(size, device=slot.device).unsqueeze(-1)
        columns = [flat.student.draw(slot, generator)] if self.numbers else []
        for table in flat.tables:
            below = table.exp()[row, slot].cumsum(-1)  # (B, n, L)
            draw = torch.rand(size, n, 1, dtype=below.dtype, device=below.device, generator=generator)
            level = (draw * below[..., -1:] > below).sum(-1, keepdim=True)
            columns.append(level.clamp_max(table.shape[-1] - 1).to(below))
        return torch.cat(columns, -1).reshape(*batch, n, self.dim)

    def moments(self) -> tuple[Tensor, Tensor] | None:
        """Of numbers alone, not on a circle."""
        return None if self.tables or any(self._periods) else self.student.moments()

    def marginal(self, columns: Sequence[int]) -> MixedMixture:
        self._check_columns(columns)
        numbers, categories = self._divide(columns)
        periods = tuple(self._periods[c] for c in numbers) if any(self._periods) else ()
        return MixedMixture(
            columns_of(self.student, numbers), tuple(map(self.tables.__getitem__, categories)), periods
        )

    def conditional(self, columns: Sequence[int], values: Any) -> MixedMixture:
        """The law of the other columns, in their order, given ``values`` (..., k) of ``columns``.

        What is NaN among the values is not known, and not asked for either.
        """
        self._check_columns(columns)
        row = torch.as_tensor(values, dtype=self.log_weight.dtype, device=self.log_weight.device)
        whole = row.new_full((*row.shape[:-1], self.dim), torch.nan)
        whole[..., list(columns)] = row
        batch = torch.broadcast_shapes(self.log_weight.shape[:-1], whole.shape[:-1])
        rest = [c for c in range(self.dim) if c not in set(columns)]
        if bool(whole[..., : self.numbers].isnan().all()):
            return self.map(lambda t: t.expand(*batch, *t.shape[self.log_weight.ndim - 1 :]))._labelled(
                self._codes(whole), rest
            )
        if self.log_weight.ndim == 1:
            given = self._given(whole.reshape(-1, self.dim), rest)
            return given.map(lambda t: t.reshape((*batch, *t.shape[1:])))
        own = self.map(lambda t: t.expand(*batch, *t.shape[self.log_weight.ndim - 1 :]))
        size = batch.numel()
        flat = own.map(lambda t: t.reshape((size, *t.shape[len(batch) :])))
        rows = whole.expand(*batch, self.dim).reshape(size, self.dim)
        parts = [one._given(rows[i : i + 1], rest) for i, one in enumerate(flat._singles(size))]
        return parts[0]._joined(parts[1:], 0).map(lambda t: t.reshape((*batch, *t.shape[1:])))

    def _labelled(self, codes: Tensor, rest: Sequence[int]) -> MixedMixture:
        """The laws of the columns ``rest`` given codes (..., c) alone: nothing but the weights change."""
        numbers, categories = self._divide(rest)
        student = columns_of(self.student, numbers)
        weight = student.log_weight
        if self.tables:
            weight = weight + log_share(self.tables, codes.unsqueeze(-2)).squeeze(-1)
        student = replace(student, log_weight=_normalized(weight))
        periods = tuple(self._periods[c] for c in numbers)
        return MixedMixture(student, tuple(self.tables[c] for c in categories), periods)

    def _given(self, rows: Tensor, rest: Sequence[int]) -> MixedMixture:
        """The laws of the columns ``rest`` given rows (B, d + c), one per row; for a mixture alone."""
        numbers, categories = self._divide(rest)
        beside = log_share(self.tables, self._codes(rows)).mT if self.tables else 0.0  # (B, M)
        place = torch.tensor(numbers, dtype=torch.long, device=rows.device)
        known = ~rows[:, : self.numbers].isnan()
        turned = bool((known & (torch.tensor(self._periods, device=rows.device) > 0)).any())
        copies = []
        for turn in self._turns() if turned else [rows.new_zeros(self.numbers)]:
            log_weight = rows.new_empty(len(rows), len(self.log_weight))
            mean = rows.new_empty(*log_weight.shape, len(numbers))
            scale, nu = rows.new_empty(*mean.shape, len(numbers)), torch.empty_like(log_weight)
            for seen in look(self.student, rows[:, : self.numbers] + turn.to(rows)):
                growth = (self.student.nu + seen.distance) / (self.student.nu + seen.size)
                spare = seen.spare[:, :, place.unsqueeze(-1), place][seen.which]
                log_weight[seen.rows] = self.log_weight + seen.log_density
                mean[seen.rows] = (self.student.mean + seen.offset)[..., place]
                scale[seen.rows] = growth[..., None, None] * spare
                nu[seen.rows] = self.student.nu + seen.size
            student = StudentMixture(log_weight + beside, mean, scale, nu)
            tables = tuple(self.tables[c].expand(len(rows), -1, -1) for c in categories)
            copies.append(MixedMixture(student, tables, tuple(self._periods[c] for c in numbers)))
        joined = copies[0]._joined(copies[1:], 1)
        return replace(joined, student=replace(joined.student, log_weight=_normalized(joined.log_weight)))

    def _joined(self, others: Sequence[MixedMixture], axis: int) -> MixedMixture:
        """Several as one, along an axis of every tensor."""
        if not others:
            return self
        students = [part.student for part in (self, *others)]
        weight, mean, scale, nu = (torch.cat([getattr(s, name) for s in students], axis) for name in _PARTS)
        columns = zip(self.tables, *(other.tables for other in others), strict=True)
        tables = tuple(torch.cat(tables, axis) for tables in columns)
        return MixedMixture(StudentMixture(weight, mean, scale, nu), tables, self.periods)

    def cdf(self, queries: Any) -> Tensor:
        self._check_ordered("the distribution function")
        [period] = self._periods
        if not period:
            return self.student.cdf(queries)
        points = torch.as_tensor(queries, dtype=self.log_weight.dtype).clamp(0, period)
        below = [self.student.cdf(points + k * period) for k in range(-_TURNS, _TURNS + 1)]
        start = [self.student.cdf(points * 0 + k * period) for k in range(-_TURNS, _TURNS + 1)]
        return torch.stack(below).sum(0) - torch.stack(start).sum(0)

    def quantile(self, shares: Any) -> Tensor:
        self._check_ordered("a quantile")
        [period] = self._periods
        if not period:
            return self.student.quantile(shares)

        def bracket(share: Tensor) -> Tensor:
            ends = torch.tensor([0.0, period], dtype=share.dtype, device=share.device)
            return ends.expand(*share.shape, 2)

        return find_quantile(self.cdf, bracket, shares, self.log_weight)

    def complete(self, rows: Tensor, which: Tensor, chance: Callable[[int], Tensor]) -> Tensor:
        points, noise = rows[:, : self.numbers].to(self.log_weight), chance(1 + self.dim).to(self.log_weight)
        numbers, codes = fill(self.student, self.tables, points, self._codes(rows), noise, which)
        return torch.cat([numbers, codes.to(numbers)], -1)

    def left_out(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """Of rows (n, d + c): every slot's law and tables lose what the slot holds of the row."""
        evidence, tallies, present = self.student.evidence, self.tallies, self.present
        if evidence is None or tallies is None or present is None:
            raise DataError("this density does not know what it rests on: ask the fit itself")
        points, codes = rows[:, : self.numbers].to(self.log_weight), self._codes(rows)
        multiplicity = (
            points.new_ones(len(rows)) if weights is None else weights.to(points) * evidence.count.sum()
        )
        share = log_share(self.tables, codes) if self.tables else points.new_zeros(1, len(rows))
        share = share.expand(len(self.log_weight), -1)
        found = torch.empty_like(multiplicity)
        for columns, group in together(points, max(1, _BUDGET // len(self.log_weight))):
            change = _change(tallies, codes[group], multiplicity[group])
            own = Beside(share[:, group].transpose(0, 1), change, evidence.count.expand(len(group), -1))
            found[group] = self._without(columns, points[group], multiplicity[group], own)
        return found

    def _without(self, columns: Tensor, points: Tensor, multiplicity: Tensor, beside: Beside) -> Tensor:
        """`left_out` of rows (B, r, d) that have these continuous columns (B, k)."""
        evidence, present = self.student.evidence, self.present
        assert evidence is not None and present is not None
        weight = self.log_weight.expand(len(columns), -1)
        if not columns.shape[-1]:
            terms = weight.unsqueeze(-1) + beside.log_density
            return lose(weight, beside.rows, terms, multiplicity, [beside.change])
        mean = self.student.mean[:, columns].transpose(0, 1)  # (B, M, k)
        scale = self.student.scale[:, columns.unsqueeze(-1), columns.unsqueeze(-2)].transpose(0, 1)
        seen = SlotsSeen.of(Components(weight, mean, scale, self.student.nu.expand_as(weight)), None)
        count = present[:, columns].mean(-1).mT  # rows that the law of these columns rests on
        mass = evidence.mass * count / evidence.count.clamp_min(torch.finfo(count.dtype).tiny)
        own = replace(evidence.map(lambda t: t.expand_as(weight)), count=count, mass=mass)
        return seen.without(points.take_along_dim(columns.unsqueeze(-2), -1), multiplicity, own, beside)

    def transform(self, matrix: Tensor, shift: Tensor) -> Density:
        raise DataError("a density with categories, gaps or circles has no linear images in closed form")

    def _divide(self, columns: Sequence[int]) -> tuple[list[int], list[int]]:
        """Continuous columns, and the places of categories, which must follow them."""
        numbers = [c for c in columns if c < self.numbers]
        categories = [c - self.numbers for c in columns if c >= self.numbers]
        if list(columns) != [*numbers, *(c + self.numbers for c in categories)]:
            raise DataError(f"columns {list(columns)}: name the continuous ones first, then the categories")
        return numbers, categories

    def _check_ordered(self, what: str) -> None:
        self._check_one_column(what)
        if not self.numbers:
            raise DataError(f"{what} is for numbers: the levels of a category have no order")

    def __repr__(self) -> str:
        levels = ", ".join(str(table.shape[-1]) for table in self.tables) or "no"
        return f"mixture of {self.log_weight.shape[-1]} slot(s): {self.numbers} number(s), {levels} levels"


_PARTS = ("log_weight", "mean", "scale", "nu")


def to_codes(values: Tensor) -> Tensor:
    """Codes as whole numbers: -1 for a gap, and what is no code at all as one that no table has.

    >>> to_codes(torch.tensor([0.0, 2.0, torch.nan, 0.5, -1.0])).tolist()
    [0, 2, -1, 2147483648, 2147483648]
    """
    wrong = (values != values.round()) | (values < 0)
    return torch.where(values.isnan(), -1.0, torch.where(wrong, _IMPOSSIBLE, values.double())).long()


def columns_of(student: StudentMixture, columns: Sequence[int]) -> StudentMixture:
    """The law of some of the columns, or of none."""
    place = torch.tensor(columns, dtype=torch.long, device=student.mean.device)
    scale = student.scale[..., place.unsqueeze(-1), place]
    return StudentMixture(student.log_weight, student.mean[..., place], scale, student.nu)


def _normalized(log_weight: Tensor) -> Tensor:
    """Log weights (..., M) that sum to one; `DataError` where there are none."""
    if not bool(log_weight.isfinite().any(-1).all()):
        raise DataError("the values given have no density: give levels and values that the sample has")
    return torch.log_softmax(log_weight, -1)


def _change(tallies: Sequence[Tally], codes: Tensor, multiplicity: Tensor) -> Callable[[Tensor], Tensor]:
    """How the tables' log probabilities (B, M, r) change with what slots hold (B, M, r) of rows.

    The rows have ``codes`` (B, r, c) and count ``multiplicity`` (B, r).
    """

    def change(held: Tensor) -> Tensor:
        flat = held.transpose(0, 1).flatten(1)  # (M, B r)
        total = torch.zeros_like(flat)
        for tally, code in zip(tallies, codes.flatten(0, 1).unbind(-1), strict=True):
            there = (code >= 0) & (code < tally.total.shape[-1])
            total = total + tally.change(torch.where(there, code, -1), flat, multiplicity.flatten())
        changed: Tensor = total.unflatten(1, multiplicity.shape).transpose(0, 1)
        return changed

    return change

"""Columns of every kind as numbers and categories: one transform, exactly invertible.

A column with atoms becomes a category, which atom it is or none, and a continuous column with a gap at every
atom.  A circular column is cut at the emptiest place of its circle.  A lattice is left alone, and draws
are rounded to it.  Continuous columns come first, categories after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from discoformer.columns.kinds import CONTINUOUS, ColumnKind
from discoformer.core.checks import DataError, column_names
from discoformer.core.composed import PushedDensity
from discoformer.core.fields import Density, Estimate, PointDensity
from discoformer.core.transforms import At, KeptColumns, Transform

__all__ = ["SplitColumns", "SplitKind", "fit_split", "kinds_of", "on_lattice"]


_LEAST = 1e-12  # shares this close to 0 and 1 are those of the ends
_ON_GRID = 1e-6  # rounding, in steps of a lattice
_DIGITS, _WHOLE = 6, 1e-9  # decimals of a step, at most, and what they may be off by


class SplitKind(NamedTuple):
    """How one column is read.

    Attributes
    ----------
    kind : of the column
    cut : where the circle of a circular column begins
    numbers : whether there is a continuous part
    """

    kind: ColumnKind
    cut: float = 0.0
    numbers: bool = True

    @property
    def levels(self) -> int:
        """Levels of the category it becomes, or that stands beside its numbers; 0 if there is none."""
        atoms = len(self.kind.atoms)
        return self.kind.levels or (atoms + self.numbers if atoms else 0)


@dataclass(frozen=True)
class SplitColumns(Transform):
    """Columns of every kind as continuous columns and then categories.

    Examples
    --------
    >>> colour, amount = ColumnKind("category", levels=2), ColumnKind(atoms=(0.0,))
    >>> split = SplitColumns((SplitKind(colour, numbers=False), SplitKind(amount)))
    >>> inside = split.normalize(torch.tensor([[1.0, 0.0], [0.0, 2.5]]))
    >>> inside.tolist()  # the amount; the category; which atom, 1 for none
    [[nan, 1.0, 0.0], [2.5, 0.0, 1.0]]
    >>> split.denormalize(inside).tolist()
    [[1.0, 0.0], [0.0, 2.5]]
    """

    columns: tuple[SplitKind, ...]
    names: tuple[str, ...] | None = None

    @property
    def dim(self) -> int:
        return len(self.columns)

    @property
    def numbers(self) -> list[int]:
        """Columns with a continuous part, in the order of these parts."""
        return [j for j, column in enumerate(self.columns) if column.numbers]

    @property
    def categories(self) -> list[int]:
        """Columns that are categories or have atoms, in the order of these."""
        return [j for j, column in enumerate(self.columns) if column.levels]

    def normalize(self, points: Tensor) -> Tensor:
        atoms = {j: _which_atom(points[..., j], self.columns[j]) for j in self.categories}
        inside = []
        for j in self.numbers:
            column, x = self.columns[j], points[..., j]
            if column.kind.period:
                x = (x - column.cut).remainder(column.kind.period)
            if j in atoms:
                x = torch.where(atoms[j] == len(column.kind.atoms), x, torch.nan)
            inside.append(x)
        return torch.stack([*inside, *(atoms[j] for j in self.categories)], -1)

    def denormalize(self, points: Tensor) -> Tensor:
        inside = points.unbind(-1)
        number = dict(zip(self.numbers, inside, strict=False))
        category = dict(zip(self.categories, inside[len(number) :], strict=True))
        return torch.stack([_back(c, number.get(j), category.get(j)) for j, c in enumerate(self.columns)], -1)

    def score_outside(self, at: At, score: Tensor) -> Tensor:
        place = torch.eye(self.dim, dtype=score.dtype, device=score.device)[self.numbers]
        return score[..., : len(self.numbers)] @ place

    def estimate_outside(self, at: At, inside: Estimate[Tensor]) -> Estimate[Tensor]:
        return Estimate(inside.log_density, self.score_outside(at, inside.score))

    def cdf(self, inside: Density, points: Tensor) -> Tensor:
        """Of one column: it rises by the mass of every atom, and of a lattice by that of every bin."""
        law = _Law.of(self.columns[0], inside)
        x = points.squeeze(-1)
        below = law.below(x, self.columns[0])
        return (law.mass.unsqueeze(-2) * (law.atoms <= x.unsqueeze(-1))).sum(-1) + law.rest * below

    def quantile(self, inside: Density, shares: Any) -> Tensor:
        """Of one column: the least value with such a share at or below it.

        With k atoms below, the continuous part has to supply the remaining share.  The answer is the
        smallest of the values for k = 0, 1, ..., each at least as large as the last atom counted.
        """
        column, law = self.columns[0], _Law.of(self.columns[0], inside)
        share = torch.as_tensor(shares, dtype=torch.float64).unsqueeze(-1)  # (..., m, 1)
        if not len(law.atoms) and law.numbers is not None:
            return self.denormalize(law.numbers.quantile(shares))
        before = torch.cat([torch.zeros_like(law.mass[..., :1]), law.mass.cumsum(-1)], -1)  # (..., k + 1)
        wanted = (share - before.unsqueeze(-2)) / law.rest.unsqueeze(-1).clamp_min(_LEAST)  # (..., m, k + 1)
        found = torch.where(wanted <= 0, -torch.inf, torch.inf)
        if law.numbers is not None:
            inner = wanted.clamp(_LEAST, 1 - _LEAST)
            value = _back(column, law.numbers.quantile(inner.flatten(-2)).squeeze(-1), None)
            found = torch.where((wanted > 0) & (wanted < 1), value.reshape(wanted.shape), found)
        least = torch.cat([law.atoms.new_full((1,), -torch.inf), law.atoms])
        return torch.maximum(found, least).amin(-1, keepdim=True)

    def select(self, columns: Sequence[int]) -> tuple[Transform | None, list[int]]:
        chosen = tuple(self.columns[c] for c in columns)
        numbers = [self.numbers.index(c) for c in columns if self.columns[c].numbers]
        categories = [self.categories.index(c) for c in columns if self.columns[c].levels]
        inner = [*numbers, *(len(self.numbers) + c for c in categories)]
        if all(column.kind == CONTINUOUS for column in chosen):
            return None, inner
        names = None if self.names is None else tuple(self.names[c] for c in columns)
        return SplitColumns(chosen, names), inner

    def outer_support(self, support: Sequence[int]) -> list[int]:
        """A column that has numbers counts if they do: its atoms alone are no density of it."""
        outside = [*self.numbers, *(None if self.columns[j].numbers else j for j in self.categories)]
        return sorted({j for place in support if (j := outside[place]) is not None})

    def check_given(self, points: Tensor, columns: Sequence[int]) -> None:
        self.check_codes(points, columns)

    def check_codes(self, points: Tensor, columns: Sequence[int] | None = None) -> None:
        """Refuse points (..., m, d) whose categories are no codes."""
        for j in self.categories:
            codes, levels = _which_atom(points[..., j], self.columns[j]), self.columns[j].levels
            wrong = (codes != codes.round()) | (codes < 0) | (codes >= levels)
            if bool((wrong & ~codes.isnan()).any()):
                number = j if columns is None else columns[j]
                which = f"column {number}" if self.names is None else column_names([j], self.names)
                value = float(points[..., j][wrong & ~codes.isnan()][0])
                raise DataError(f"{which} has the value {value:g}, which is none of its {levels} levels")

    def describe(self) -> str:
        said = [f"{self._name(j)} {_say(c)}" for j, c in enumerate(self.columns) if c.kind != CONTINUOUS]
        return "kinds: " + ", ".join(said) if said else ""

    def _name(self, column: int) -> str:
        return column_names([column], self.names)


def fit_split(
    points: Tensor, kinds: Sequence[ColumnKind], names: Sequence[str] | None = None
) -> SplitColumns:
    """How the columns of a sample (n, d), NaN where there is a gap, are read by their kinds.

    >>> hours = torch.tensor([[23.0], [1.0], [22.0]], dtype=torch.float64)
    >>> fit_split(hours, [ColumnKind("circular", period=24.0)]).columns[0].cut
    11.5
    """
    columns = []
    for x, kind in zip(points.unbind(-1), kinds, strict=True):
        x = x[~x.isnan()]
        if kind.kind == "category":
            columns.append(SplitKind(kind, numbers=False))
            continue
        if kind.atoms:
            rest = x[~torch.isin(x, torch.tensor(kind.atoms, dtype=x.dtype, device=x.device))].unique()
            if len(rest) < 2:  # a single other value is an atom, too
                atoms = (*kind.atoms, *rest.tolist())
                kind = ColumnKind(atoms=atoms, step=kind.step, origin=kind.origin)
                columns.append(SplitKind(kind, numbers=False))
                continue
        columns.append(SplitKind(kind, _emptiest(x, kind) if kind.period else 0.0))
    split = SplitColumns(tuple(columns), None if names is None else tuple(names))
    split.check_codes(points)
    return split


def kinds_of(density: PointDensity) -> list[ColumnKind]:
    """The kind of every column of a density: continuous, unless it was fitted to another kind."""
    kinds, places = [CONTINUOUS] * density.dim, list(range(density.dim))
    for transform in density.transforms if isinstance(density, PushedDensity) else ():
        if isinstance(transform, KeptColumns):  # what follows from others is a number
            places = [places[j] for j in transform.kept]
            continue
        if isinstance(transform, SplitColumns):
            for j, column in zip(places, transform.columns, strict=True):
                kinds[j] = column.kind
        break
    return kinds


class _Law(NamedTuple):
    """The law of one column: atoms (k,), sorted, their mass (..., k), and the law of the rest of the mass.

    ``rest`` (..., 1) is that mass.
    """

    atoms: Tensor
    mass: Tensor
    rest: Tensor
    numbers: Density | None

    @classmethod
    def of(cls, column: SplitKind, inside: Density) -> _Law:
        if column.kind.kind == "category":
            raise DataError("the levels of a category have no order: ask for the shares of its labels")
        count = len(column.kind.atoms)
        if not count:
            one = torch.ones(1, dtype=torch.float64)
            return cls(one[:0], one[:0], one, inside)
        atoms, order = torch.tensor(column.kind.atoms, dtype=torch.float64).sort()
        codes = torch.arange(column.levels, dtype=torch.float64).unsqueeze(-1)
        law = inside if not column.numbers else inside.marginal([1])
        share = law._estimate(codes).log_density.exp()
        if not column.numbers:
            return cls(atoms, share[..., order], torch.zeros_like(share[..., :1]), None)
        numbers = inside.conditional([1], torch.tensor([float(count)], dtype=torch.float64))
        return cls(atoms, share[..., order], share[..., count:], numbers)

    def below(self, x: Tensor, column: SplitKind) -> Tensor:
        """Share (..., m) of the rest that is not above x (..., m); of a lattice, of whole bins."""
        if self.numbers is None:
            return torch.zeros_like(x)
        kind = column.kind
        if kind.step:
            x = kind.origin + kind.step * (((x - kind.origin) / kind.step + _ON_GRID).floor() + 0.5)
        if kind.period:
            x = (x - column.cut).remainder(kind.period)
        return self.numbers.cdf(x.unsqueeze(-1))


def _emptiest(x: Tensor, kind: ColumnKind) -> float:
    """The middle of the widest stretch of a circle without values."""
    if not len(x):
        return kind.origin
    values = (x - kind.origin).remainder(kind.period).sort().values
    widths = torch.cat([values[1:], values[:1] + kind.period]) - values
    widest = int(widths.argmax())
    middle = float(values[widest] + 0.5 * widths[widest])
    return kind.origin + middle % kind.period


def _which_atom(x: Tensor, column: SplitKind) -> Tensor:
    """Codes of a category, or of the atom of every value, the last for none of them; NaN for gaps."""
    if column.kind.kind == "category":
        return x
    atoms = torch.tensor(column.kind.atoms, dtype=x.dtype, device=x.device)
    hit = x.unsqueeze(-1) == atoms
    code = torch.where(hit.any(-1), hit.to(torch.uint8).argmax(-1), len(atoms)).to(x)
    return torch.where(x.isnan(), torch.nan, code)


def on_lattice(places: Tensor, kind: ColumnKind) -> Tensor:
    """Values at whole places of a lattice, as they are written: 66 steps of 0.1 are 6.6, to the last bit.

    >>> on_lattice(torch.tensor([66.0], dtype=torch.float64), ColumnKind(step=0.1)).item(), 66 * 0.1
    (6.6, 6.6000000000000005)
    """
    for digits in range(_DIGITS + 1):
        unit = 10.0**digits
        step, origin = kind.step * unit, kind.origin * unit
        if abs(step - round(step)) <= _WHOLE * step and abs(origin - round(origin)) <= _WHOLE * step:
            return (round(origin) + round(step) * places) / unit + 0.0
    return kind.origin + kind.step * places + 0.0


def _back(column: SplitKind, number: Tensor | None, category: Tensor | None) -> Tensor:
    """A column from its continuous part and its category."""
    kind = column.kind
    if number is not None:
        number = number + column.cut
        if kind.step:
            number = on_lattice(((number - kind.origin) / kind.step).round(), kind)
        if kind.period:
            number = kind.origin + (number - kind.origin).remainder(kind.period)
    if category is None or kind.kind == "category":
        result = number if category is None else category
        assert result is not None
        return result
    atoms = torch.tensor(kind.atoms, dtype=category.dtype, device=category.device)
    index = torch.where(category.isnan(), 0.0, category).long().clamp_max(len(atoms) - 1)
    at_atom = torch.where(category.isnan(), torch.nan, atoms[index])
    return at_atom if number is None else torch.where(category == len(atoms), number, at_atom)


def _say(column: SplitKind) -> str:
    kind = column.kind
    if kind.kind == "category":
        return f"a category of {kind.levels} levels"
    words = [f"with a circle of {kind.period:g}"] if kind.period else []
    words += [f"in steps of {kind.step:g}"] if kind.step else []
    words += ["with atoms at " + ", ".join(f"{atom:g}" for atom in kind.atoms)] if kind.atoms else []
    return " ".join(words)

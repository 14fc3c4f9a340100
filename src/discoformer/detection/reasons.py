"""Why a row is odd: how surprising each of its values is given the others, and what was to be expected.

The surprise at column j is -log p(x_j | the others) = log p(x without j) - log p(x): two log densities in
closed form.  It has the unit of the column, so what counts is its excess over what is usual for that column
in the sample, in nats: by so much less likely is this value than such values are.

Two columns may be usual each by itself and odd together: a pair gains -log p(x_j, x_k) + log p(x_j) +
log p(x_k) nats of surprise by being one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.columns.cell_words import CellWords
from discoformer.columns.impute import impute
from discoformer.columns.kinds import CONTINUOUS, ColumnKind
from discoformer.columns.split import kinds_of
from discoformer.core.checks import DataError
from discoformer.core.fields import Density, Method, as_density
from discoformer.core.known_part import KnownPart
from discoformer.detection.fixed_columns import broken

__all__ = ["Reasons", "explain_rows", "over_usual", "surprises", "usual_rows"]

_PAIRED = 12  # columns, the oddest, whose pairs are looked at
_ROWS = 512  # of the sample tell what is usual
_FEW = 0.1  # of a sample can be left out of a fit that is to stand for all of it
_CHUNK = 256  # rows whose conditional laws are held at once
_DRAWS = 512  # of what is expected in columns that have no quantiles in closed form


Words = Callable[[int, float], str]
"""What a number of a column is called."""


def _mean(surprise: Tensor) -> Tensor:
    return surprise.clamp(-1e6, 1e6).nanmean(0)


@dataclass(frozen=True)
class Reasons:
    """Why rows are odd; numbers of columns that carry no density are NaN, and of gaps.

    A column that never changes in the sample, or follows from others there, is infinitely surprising where
    it is something else.

    Attributes
    ----------
    columns : d names
    values : (m, d), the rows
    surprise : (m, d), -log p(x_j | the others), in nats and the column's unit
    excess : (m, d), the same over what is usual for the column
    order : (m, d), columns from the oddest
    expected, low, high : (m, d), median and interval of each value given the others
    share : of the interval
    pair : (m, 2), the two columns that are odd together most; -1 if there is one column only
    together : (m,), by how many nats they are odd only together
    words : what a number of a column is called; labels and dates have names
    """

    columns: Sequence[Any]
    values: NDArray[np.float64]
    surprise: NDArray[np.float64]
    excess: NDArray[np.float64]
    order: NDArray[np.int64]
    expected: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    share: float
    pair: NDArray[np.int64]
    together: NDArray[np.float64]
    words: Words

    def __len__(self) -> int:
        return len(self.values)

    def describe(self, row: int, most: int = 3) -> list[str]:
        """The row in words: its oddest columns, and a pair of columns if that says more."""
        lines = [self._line(row, j) for j in self.order[row][:most] if self.excess[row, j] > 0]
        first, second = self.pair[row]
        if first >= 0 and self.together[row] > max(1.0, 0.5 * np.nanmax(self.excess[row])):
            pair = f"{self.columns[first]} and {self.columns[second]}"
            lines.append(f"{pair} are odd together ({self.together[row]:+.1f} nats)")
        return lines

    def _line(self, row: int, j: int) -> str:
        value, expected = (self.words(j, float(part[row, j])) for part in (self.values, self.expected))
        if np.isinf(self.excess[row, j]):
            return f"{self.columns[j]} = {value}: {expected} expected, without exception in the sample"
        inside = ""
        if not np.isnan(self.low[row, j]):
            low, high = (self.words(j, float(part[row, j])) for part in (self.low, self.high))
            inside = f", {self.share:.0%} in {low} to {high}"
        return f"{self.columns[j]} = {value}: {expected} expected{inside} ({self.excess[row, j]:+.1f} nats)"


def surprises(density: Density, rows: Tensor) -> Tensor:
    """-log p(x_j | the others) (m, d) at rows (m, d) of a density without columns left out.

    >>> from discoformer.baselines.kde import KDE
    >>> field = KDE(1.0).fit([[0.0, 0.0], [9.0, 9.0]])
    >>> surprises(field, torch.tensor([[0.0, 9.0], [9.0, 9.0]]).double()).round().tolist()
    [[41.0, 41.0], [1.0, 1.0]]
    """
    log_density = KnownPart(density).log_density(rows)
    if density.dim == 1:
        return -log_density.unsqueeze(-1)
    found = []
    for column in range(density.dim):
        rest = [j for j in range(density.dim) if j != column]
        found.append(KnownPart(density.marginal(rest)).log_density(rows[:, rest]) - log_density)
    # where the row itself has no mass, whatever lacks it is all the reason there is
    return torch.stack(found, -1).nan_to_num(nan=0.0)


def usual_rows(sample: Tensor) -> Tensor:
    """The rows of a sample (n, d) that tell what is usual."""
    if len(sample) <= _ROWS:
        return sample
    return sample[torch.linspace(0, len(sample) - 1, _ROWS).long()]


def over_usual(
    surprise: Tensor,
    rows: Tensor,
    seen: Tensor,
    sample: Tensor,
    kinds: Sequence[ColumnKind],
    middle: Callable[[Tensor], Tensor] = _mean,
) -> Tensor:
    """By how much surprises (m, d) at rows exceed those that are usual in their column; NaN for gaps.

    A value that carries mass of its own is compared with others that do, and a value with a density with
    such values: one is a probability, the other has a unit.

    Parameters
    ----------
    surprise, rows : (m, d)
    seen, sample : (n, d), surprises at a sample, and the sample
    kinds : of the columns
    middle : from surprises (n, d), NaN where a cell does not count, to what is usual (d,)

    >>> surprise = torch.tensor([[1.0], [2.0], [9.0], [8.0]])
    >>> rows = torch.tensor([[0.0], [0.0], [5.0], [4.0]])
    >>> over_usual(surprise, rows, surprise, rows, [ColumnKind(atoms=(0.0,))]).ravel().tolist()
    [-0.5, 0.5, 0.5, -0.5]
    """
    atom, gap = _at_atom(sample, kinds), sample.isnan()
    numbers = middle(torch.where(gap | atom, torch.nan, seen))
    masses = middle(torch.where(gap | ~atom, torch.nan, seen)) if bool(atom.any()) else numbers
    masses = torch.where(masses.isnan(), 0.0, masses)  # of atoms that the sample lacks, none is usual
    usual = torch.where(_at_atom(rows, kinds), masses, numbers)
    return torch.where(rows.isnan(), torch.nan, surprise - usual)


def _at_atom(rows: Tensor, kinds: Sequence[ColumnKind]) -> Tensor:
    """Whether cells (n, d) have a value that carries mass of its own."""
    found = [torch.isin(x, torch.tensor(k.atoms).to(x)) for x, k in zip(rows.unbind(-1), kinds, strict=True)]
    return torch.stack(found, -1)


@torch.no_grad()
def explain_rows(
    density: Density,
    rows: Tensor,
    sample: Tensor,
    *,
    method: Method | None = None,
    share: float = 0.9,
    names: Sequence[Any] | None = None,
    words: Words | None = None,
) -> Reasons:
    """Why rows (m, d) are odd to a density; a sample (n, d), or draws, tells what is usual.

    Rows may have gaps, and columns be of every kind, if the density knows them.  Of a category the likeliest
    label is expected, without an interval.

    A row that is in the sample has shaped what is expected of it.  So if a ``method``, for the columns that
    carry a density, is given and few of the rows asked about are, it is fitted to the others.
    """
    if not 0 < share < 1:
        raise DataError(f"interval={share}: give a share between 0 and 1")
    support = density.support
    inner = density.marginal(support) if len(support) < density.dim else density
    asked = {row.tobytes() for row in rows.to(sample).numpy()}
    others = sample[torch.tensor([row.tobytes() not in asked for row in sample.numpy()])]
    if method is not None and 0 < len(sample) - len(others) <= _FEW * len(sample):
        inner = as_density(method.fit(others[:, support]))
    own, many = rows[:, support].to(torch.float64), sample[:, support].to(torch.float64)
    surprise = surprises(inner, own)
    usual, kinds = usual_rows(many), kinds_of(inner)
    excess = over_usual(surprise, own, surprises(inner, usual), usual, kinds)
    ends = torch.tensor([0.5, (1 - share) / 2, (1 + share) / 2], dtype=torch.float64)
    if not inner.gaps or (set(kinds) == {CONTINUOUS} and not bool(own.isnan().any())):
        quantiles = _conditional_quantiles(inner, own, ends)
    else:
        quantiles = _drawn_quantiles(inner, own, ends, kinds)
    expected, low, high = quantiles.unbind(-1)
    pair, together = _odd_pairs(inner, own, excess)

    def whole(tensor: Tensor) -> NDArray[np.float64]:
        """Of all columns."""
        full = np.full(rows.shape, np.nan)
        full[:, support] = tensor.cpu().numpy()
        return full

    places = np.array([*support, -1])
    ruled, off = (part.cpu().numpy() for part in broken(density, rows.to(torch.float64), sample))
    ruled[:, support], off[:, support] = np.nan, False  # these have a density
    known = np.where(off, np.inf, whole(excess))
    return Reasons(
        columns=list(names) if names is not None else [f"x{j}" for j in range(density.dim)],
        values=rows.cpu().numpy(),
        surprise=np.where(off, np.inf, whole(surprise)),
        excess=known,
        order=np.argsort(-np.nan_to_num(known, nan=-np.inf), axis=1, kind="stable"),
        expected=np.where(off, ruled, whole(expected)),
        low=whole(low),
        high=whole(high),
        share=share,
        pair=places[pair.numpy()],
        together=together.numpy(),
        words=CellWords.of(sample.cpu().numpy()) if words is None else words,
    )


def _conditional_quantiles(density: Density, rows: Tensor, shares: Tensor) -> Tensor:
    """Quantiles (m, d, q) of every value given the others, all rows of a column in one batch."""
    if density.dim == 1:
        return density.quantile(shares).squeeze(-1).expand(len(rows), 1, -1)
    found = rows.new_empty(*rows.shape, shares.shape[-1])
    there, which = torch.unique(~rows.isnan(), dim=0, return_inverse=True)
    for number, present in enumerate(there.tolist()):
        own = (which == number).nonzero().squeeze(-1)
        for column in range(density.dim):
            rest = [j for j in range(density.dim) if j != column and present[j]]
            law = density if len(rest) == density.dim - 1 else density.marginal([*rest, column])
            given = rest if law is density else list(range(len(rest)))
            for part in own.split(_CHUNK):
                if not rest:
                    found[part, column] = law.quantile(shares).squeeze(-1)
                    continue
                alone = law.conditional(given, rows[part][:, rest])
                found[part, column] = alone.quantile(shares.expand(len(part), -1)).squeeze(-1)
    return found


def _drawn_quantiles(density: Density, rows: Tensor, shares: Tensor, kinds: Sequence[ColumnKind]) -> Tensor:
    """The same (m, d, q) for columns of every kind and rows with gaps, by draws."""
    found = []
    for column, kind in enumerate(kinds):
        asked = rows.clone()
        asked[:, column] = torch.nan
        generator = torch.Generator().manual_seed(0)
        drawn = impute(density, asked, kinds, draws=_DRAWS, generator=generator)[..., column]
        if kind.levels:
            likeliest = drawn.mode(0).values
            found.append(torch.stack([likeliest, *[torch.full_like(likeliest, torch.nan)] * 2], -1))
            continue
        order = drawn
        if kind.period:  # about the mean direction
            angle = drawn * (2 * math.pi / kind.period)
            middle = torch.atan2(angle.sin().mean(0), angle.cos().mean(0)) * (kind.period / (2 * math.pi))
            order = (drawn - middle + kind.period / 2).remainder(kind.period)
        places = (shares * (_DRAWS - 1)).round().long()
        found.append(drawn.gather(0, order.argsort(0)[places]).mT)
    return torch.stack(found, 1)


def _odd_pairs(density: Density, rows: Tensor, excess: Tensor) -> tuple[Tensor, Tensor]:
    """The pair (m, 2) of columns that is odd together most, and by how much (m,)."""
    most = torch.full((len(rows),), -torch.inf, dtype=torch.float64)
    best = torch.full((len(rows), 2), -1)
    largest = excess.nan_to_num(nan=-torch.inf).amax(0)
    columns = sorted(largest.topk(min(density.dim, _PAIRED)).indices.tolist())

    def log_density(*some: int) -> Tensor:
        return KnownPart(density.marginal(some)).log_density(rows[:, list(some)])

    alone = {j: log_density(j) for j in columns}
    for first, second in combinations(columns, 2):
        both = log_density(first, second)
        gain = (alone[first] + alone[second] - both).nan_to_num(nan=0.0)
        better = gain > most
        most = torch.where(better, gain, most)
        best[better] = torch.tensor([first, second])
    return best, most.nan_to_num(neginf=0.0)

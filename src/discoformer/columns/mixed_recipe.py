"""The recipe for tables with categories, atoms, lattices, circles and gaps.

table -> split -> columns kept -> column maps (bounds) -> method -> density, and back by `push`
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from discoformer.columns.bounds import FREE, Bound, fit_maps
from discoformer.columns.kinds import ColumnKind
from discoformer.columns.lattice import dequantize
from discoformer.columns.layout import Layout, MixedMethod
from discoformer.columns.split import SplitColumns, fit_split
from discoformer.columns.support import divide
from discoformer.core.checks import ColumnError, DataError, column_names
from discoformer.core.fields import Field, Method
from discoformer.core.pushforward import push
from discoformer.core.transforms import (
    ColumnMap,
    ColumnMaps,
    KeptColumns,
    Relation,
    SupportWarning,
    Transform,
)

__all__ = ["fit_table"]


def fit_table(
    method: Method,
    points: Tensor,
    weights: Tensor | None,
    kinds: Sequence[ColumnKind],
    bounds: Sequence[Bound] | None,
    names: Sequence[str] | None,
    drop: bool,
) -> Field:
    """Fit a method to rows (n, d), NaN where there is a gap, by the kinds of the columns."""
    points, weights = _without_empty_rows(points, weights, names)
    split = fit_split(points, kinds, names)
    inside = split.normalize(dequantize(points, weights, kinds))
    transforms: list[Transform] = [split]
    numbers = split.numbers
    if drop and numbers:
        left_out = _left_out(inside, weights, split)
        if left_out is not None:
            inside = left_out.normalize(inside)
            transforms.append(left_out)
            numbers = [numbers[k] for k in left_out.kept if k < len(numbers)]
    maps = _bounds_of(inside, weights, numbers, kinds, bounds, names)
    if maps is not None:
        inside = maps.normalize(inside)
        transforms.append(maps)
    levels = tuple(split.columns[j].levels for j in split.categories)
    layout = Layout(tuple(kinds[j].period for j in numbers), levels)
    try:
        if layout.plain and not bool(inside.isnan().any()):
            return push(method._fit(inside, weights), transforms)
        if isinstance(method, MixedMethod):
            return push(method.fit_mixed(inside, weights, layout), transforms)
    except ColumnError as error:  # the method counts numbers first, and what is left
        order = [*numbers, *split.categories]
        raise error.named([j if names is None else names[j] for j in order]) from None
    raise DataError(
        "categories, gaps and circular columns need a mixture network such as 'default', with axes"
    )


def _without_empty_rows(
    points: Tensor, weights: Tensor | None, names: Sequence[str] | None
) -> tuple[Tensor, Tensor | None]:
    """The rows that say anything at all; warns of the others."""
    empty = points.isnan().all(-1)
    gone = int(empty.sum())
    if gone == len(points):
        raise DataError("every row is empty: there is nothing to fit")
    if gone:
        warnings.warn(f"dropped {gone} row(s) without any value", SupportWarning, stacklevel=4)
        points = points[~empty]
        weights = None if weights is None else weights[~empty] / weights[~empty].sum()
    lost = points.isnan().all(0).nonzero().flatten().tolist()
    if lost:
        raise DataError(f"{column_names(lost, names)}: no value at all, leave it out")
    return points, weights


def _left_out(inside: Tensor, weights: Tensor | None, split: SplitColumns) -> KeptColumns | None:
    """Continuous columns that are constant, or linear in those before in the rows that have them all."""
    numbers, dim = len(split.numbers), inside.shape[-1]
    part = inside[:, :numbers]
    names = [f"column {j}" if split.names is None else split.names[j] for j in split.numbers]
    constant = [j for j in range(numbers) if len(part[~part[:, j].isnan(), j].unique()) < 2]
    whole = ~part.isnan().any(-1)
    if not constant and int(whole.sum()) <= 2 * numbers:
        return None  # too few complete rows to blame a column
    rows = part[whole] if not constant else torch.where(part.isnan(), part.nanmedian(0).values, part)
    share = None if weights is None else weights[whole] if not constant else weights
    share = None if share is None else share / share.sum()
    kept, found = divide(rows, share, names)
    if found is None:
        return None
    slopes = torch.zeros(
        dim - len(found.dropped), len(found.dropped), dtype=torch.float64, device=inside.device
    )
    slopes[: len(kept)] = found.relation.slopes
    center = torch.zeros(1, len(slopes), dtype=torch.float64, device=inside.device)
    center[:, : len(kept)] = found.relation.center
    relation = Relation(center, slopes, found.relation.offset, found.relation.scale)
    return KeptColumns((*kept, *range(numbers, dim)), found.dropped, relation, tuple(names))


def _bounds_of(
    inside: Tensor,
    weights: Tensor | None,
    numbers: Sequence[int],
    kinds: Sequence[ColumnKind],
    bounds: Sequence[Bound] | None,
    names: Sequence[str] | None,
) -> ColumnMaps | None:
    """Maps of the bounded columns, each by the rows that have it; of a lattice, its bins are bounded."""
    maps: dict[int, ColumnMap] = {}
    for place, j in enumerate(numbers):
        low, high = FREE if bounds is None or kinds[j].period else bounds[j]
        if (low, high) == FREE:
            continue
        half = 0.5 * kinds[j].step
        there = ~inside[:, place].isnan()
        share = None if weights is None else weights[there] / weights[there].sum()
        name = [f"column {j}" if names is None else names[j]]
        maps[place] = fit_maps(inside[there][:, [place]], share, [(low - half, high + half)], name).maps[0]
    return ColumnMaps(maps, inside.shape[-1]) if maps else None

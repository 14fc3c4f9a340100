"""The one recipe for fitting a table, shared by the estimator, functions, commands and report.

    table -> columns kept -> column maps (bounds) -> columns kept -> method -> field, and back by `push`

Columns that are constant or linear in those before them are left out twice: parts and their total are
collinear before a logarithm, powers of one column after it.  A table with categories, atoms, lattices,
circles or gaps is split into numbers and categories first:

    table -> columns kept -> split -> columns kept -> column maps (bounds) -> method -> density

A column with atoms that is linear in others, atoms included, is left out before the split, as a whole.  If
only its other values are linear, they are left out after it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from discoformer.columns.bounds import FREE, Bound, fit_maps
from discoformer.columns.kinds import CONTINUOUS, ColumnKind, Layout, MixedMethod
from discoformer.columns.lattice import dequantize
from discoformer.columns.left_out import restrict, share_bounds
from discoformer.columns.split import fit_split
from discoformer.columns.support import divide, divide_survey, rows_suffice
from discoformer.core.checks import (
    ColumnError,
    DataError,
    check_context,
    check_weights,
    column_names,
    to_tensor,
)
from discoformer.core.composed import push
from discoformer.core.fields import Field, Method
from discoformer.core.transforms import (
    ColumnMap,
    ColumnMaps,
    KeptColumns,
    Relation,
    SupportWarning,
    Transform,
)
from discoformer.scale.stream import Stream, StreamingMethod

__all__ = ["FitRecipe"]


@dataclass(frozen=True)
class FitRecipe(Method):
    """A method wrapped for tables: columns without a density are left out, bounds are kept.

    Parameters
    ----------
    method : any method
    bounds : low and high of every column; None leaves all free
    names : column names for the messages
    drop : whether columns without a density are left out, with a warning that names them; otherwise they
        are an error, for refits that must be about the same columns every time
    kinds : what every column is; None if all are continuous

    Examples
    --------
    >>> import warnings
    >>> from discoformer import KDE
    >>> x = torch.randn(50, 1, dtype=torch.float64)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     field = FitRecipe(KDE()).fit(torch.cat([x, torch.ones(50, 1)], 1))
    >>> field.dim, field.support
    (2, [0])
    """

    method: Method
    bounds: Sequence[Bound] | None = None
    names: Sequence[str] | None = None
    drop: bool = True
    kinds: Sequence[ColumnKind] | None = None

    def for_few_rows(self) -> FitRecipe:
        """The same recipe around what the method uses instead."""
        return replace(self, method=self.method.for_few_rows())

    def fit(self, context: Any, weights: Any = None) -> Field:
        """Fit to a sample (..., n, d); one table (n, d) may have gaps, NaN, and columns of every kind."""
        points = to_tensor(context, "context")
        points = check_context(points, gaps=points.ndim == 2)
        return self.fit_checked(points.clone() if points is context else points, weights)

    def fit_checked(self, points: Tensor, weights: Any = None) -> Field:
        """The same for points that `check_context` has let through, which are the fit's own from now on."""
        kinds, share = self.kinds, check_weights(weights, points)
        if kinds is not None and len(kinds) != points.shape[-1]:
            raise DataError(f"{len(kinds)} kinds for {points.shape[-1]} column(s): give one each")
        whole = points.ndim != 2 or not bool(points.isnan().any())
        if whole and (kinds is None or set(kinds) == {CONTINUOUS}):
            return self._fit(points, share)
        rows, columns = points.shape
        kinds = [CONTINUOUS] * columns if kinds is None else kinds
        if share is not None:  # rows of weight zero do not count
            points, share = points[share > 0], share[share > 0].to(torch.float64)
        method = self._for_size(rows, columns)
        return _fit_mixed(method, points.double(), share, kinds, self.bounds, self.names, self.drop)

    def _fit(self, context: Tensor, weights: Tensor | None) -> Field:
        if weights is not None and context.ndim == 2:  # rows of weight zero do not count
            there = weights > 0
            context, weights = context[there], weights[there]
        bounds = self.bounds
        names: Sequence[Any] | None = self.names
        transforms: list[Transform] = []
        points, restriction = context, None
        if self.drop:
            kept, left_out = divide(context, weights, names)
            if left_out is not None:
                if bounds is not None:
                    bounds, left_out, restriction = share_bounds(context.detach(), left_out, bounds, names)
                points, transforms = left_out.normalize(points), [left_out]
                names = [j if names is None else names[j] for j in kept]  # as in the table
        points = points.to(torch.float64)
        weights = None if weights is None else weights.to(torch.float64)
        if bounds is not None and set(bounds) != {FREE}:
            maps = fit_maps(points, weights, bounds, names)
            points = maps.normalize(points)
            transforms.append(maps)
            if self.drop:
                _, left_out = divide(points, weights, names)
                if left_out is not None:
                    points = left_out.normalize(points)
                    transforms.append(left_out)
                    names = [j if names is None else names[j] for j in left_out.kept]
        try:
            field = self._for_size(*points.shape[-2:])._fit(points, weights)
        except ColumnError as error:  # the method counts what is left
            raise (error if names is None else error.named(names)) from None
        if restriction is not None:
            return restrict(push(field, transforms[1:]), restriction, transforms[:1])
        return push(field, transforms)

    def fit_stream(self, stream: Stream) -> Field:
        """The same for a sample that is not in memory, by what a survey of it says."""
        if self.bounds is not None and set(self.bounds) != {FREE}:
            raise DataError("bounds need the sample in memory: load it first")
        kept, left_out = divide_survey(stream.survey, self.names)
        method = self._for_size(stream.rows, len(kept))
        if not isinstance(method, StreamingMethod):
            raise DataError("this model needs the whole sample in memory: load it, or use a mixture model")
        if left_out is None:
            return method.fit_stream(stream)
        return push(method.fit_stream(stream.select(kept)), [left_out])

    def _for_size(self, rows: int, columns: int) -> Method:
        return self.method if rows_suffice(rows, columns) else self.method.for_few_rows()


def _fit_mixed(
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
    known = [f"column {j}" for j in range(len(kinds))] if names is None else list(names)
    if drop and any(kind.atoms for kind in kinds):
        part = fit_split(points, kinds, names)
        smooth = [j for j in part.numbers if not (kinds[j].step or kinds[j].period)]
        whole = _left_out(points, weights, smooth, known) if any(kinds[j].atoms for j in smooth) else None
        if whole is not None:
            kinds, known = [kinds[j] for j in whole.kept], [known[j] for j in whole.kept]
            bounds = None if bounds is None else [bounds[j] for j in whole.kept]
            inside = whole.normalize(points)
            return push(_fit_mixed(method, inside, weights, kinds, bounds, known, drop), [whole])
    split = fit_split(points, kinds, names)
    inside = split.normalize(dequantize(points, weights, kinds))
    transforms: list[Transform] = [split]
    numbers = split.numbers
    if drop and numbers:
        order = [*numbers, *split.categories]
        left_out = _left_out(inside, weights, range(len(numbers)), [known[j] for j in order])
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


def _left_out(
    points: Tensor, weights: Tensor | None, columns: Sequence[int], names: Sequence[str]
) -> KeptColumns | None:
    """Those of some columns of points (n, d) that are constant, or linear in those before.

    That is so in the rows that have them all; NaN is a gap.
    """
    part = points[:, list(columns)]
    constant = [j for j in range(len(columns)) if len(part[~part[:, j].isnan(), j].unique()) < 2]
    whole = ~part.isnan().any(-1)
    if not constant and int(whole.sum()) <= 2 * len(columns):
        return None  # too few complete rows to blame a column
    rows = part[whole] if not constant else torch.where(part.isnan(), part.nanmedian(0).values, part)
    share = None if weights is None else weights[whole] if not constant else weights
    share = None if share is None else share / share.sum()
    kept, found = divide(rows, share, [names[j] for j in columns])
    if found is None:
        return None
    dropped = [columns[j] for j in found.dropped]
    rest = [j for j in range(points.shape[-1]) if j not in dropped]
    places = [rest.index(columns[j]) for j in kept]
    slopes = torch.zeros(len(rest), len(dropped), dtype=torch.float64, device=points.device)
    slopes[places] = found.relation.slopes
    center = torch.zeros(1, len(rest), dtype=torch.float64, device=points.device)
    center[:, places] = found.relation.center
    relation = Relation(center, slopes, found.relation.offset, found.relation.scale)
    return KeptColumns(tuple(rest), tuple(dropped), relation, tuple(names))


def _bounds_of(
    inside: Tensor,
    weights: Tensor | None,
    numbers: Sequence[int],
    kinds: Sequence[ColumnKind],
    bounds: Sequence[Bound] | None,
    names: Sequence[str] | None,
) -> ColumnMaps | None:
    """Maps of the bounded columns, each by the rows that have it; of a lattice, its bins are bounded.

    Where the end of a lattice is an atom, the bins end before it: what falls into its bin is the atom's.
    """
    maps: dict[int, ColumnMap] = {}
    for place, j in enumerate(numbers):
        low, high = FREE if bounds is None or kinds[j].period else bounds[j]
        if (low, high) == FREE:
            continue
        half = 0.5 * kinds[j].step
        low = low + half if low in kinds[j].atoms else low - half
        high = high - half if high in kinds[j].atoms else high + half
        there = ~inside[:, place].isnan()
        share = None if weights is None else weights[there] / weights[there].sum()
        name = [f"column {j}" if names is None else names[j]]
        maps[place] = fit_maps(inside[there][:, [place]], share, [(low, high)], name).maps[0]
    return ColumnMaps(maps, inside.shape[-1]) if maps else None

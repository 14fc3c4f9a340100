"""The one recipe for fitting a table, shared by the estimator, functions, commands and report.

    table -> columns kept -> column maps (bounds) -> columns kept -> method -> field, and back by `push`

Columns that are constant or linear in those before them are left out twice: parts and their total are
collinear before a logarithm, powers of one column after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from discoformer.columns.bounds import FREE, Bound, fit_maps
from discoformer.columns.kinds import CONTINUOUS, ColumnKind
from discoformer.columns.left_out import restrict, share_bounds
from discoformer.columns.mixed_recipe import fit_table
from discoformer.columns.support import divide, divide_survey, rows_suffice
from discoformer.core.checks import ColumnError, DataError, check_context, check_weights, to_tensor
from discoformer.core.fields import Field, Method
from discoformer.core.pushforward import push
from discoformer.core.transforms import Transform
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
        kinds = self.kinds
        points = to_tensor(context, "context")
        if kinds is not None and len(kinds) != points.shape[-1]:
            raise DataError(f"{len(kinds)} kinds for {points.shape[-1]} column(s): give one each")
        whole = points.ndim != 2 or not bool(points.isnan().any())
        if whole and (kinds is None or set(kinds) == {CONTINUOUS}):
            return super().fit(points, weights)
        rows, columns = points.shape
        kinds = [CONTINUOUS] * columns if kinds is None else kinds
        check_context(torch.where(points.isnan(), 0.0, points))
        share = check_weights(weights, points)
        if share is not None:  # rows of weight zero do not count
            points, share = points[share > 0], share[share > 0].to(torch.float64)
        method = self._for_size(rows, columns)
        return fit_table(method, points.double(), share, kinds, self.bounds, self.names, self.drop)

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

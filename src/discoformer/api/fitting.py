"""From user input to a fitted field: the one entrance for the estimator, functions and commands."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discoformer.columns.bounds import FREE, Bound, fill_bounds, parse_bounds
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.columns.kinds import CONTINUOUS, ColumnKind
from discoformer.core.checks import check_context, to_tensor
from discoformer.core.fields import Field
from discoformer.data.files import few_values
from discoformer.data.table import Table
from discoformer.methods import Resolved, check_range, resolve, takes_kinds, without_axes
from discoformer.scale.stream import Stream

__all__ = ["Fitted", "choose", "fit_sample", "fit_stream", "fit_table"]


@dataclass(frozen=True)
class Fitted:
    """A fitted field and where it came from.

    Attributes
    ----------
    field : of all columns
    resolved : the method
    bounds : low and high of every column
    kinds : what every column is, or None if all are continuous
    """

    field: Field
    resolved: Resolved
    bounds: list[Bound]
    kinds: list[ColumnKind] | None = None

    def refit(self) -> FitRecipe:
        """The method for further fits to the columns of `Field.support`: none is left out on the way.

        A fold that lost a column would answer for another density than the others.
        """
        bounds = [self.bounds[j] for j in self.field.support]
        kinds = None if self.kinds is None else [self.kinds[j] for j in self.field.support]
        return FitRecipe(self.resolved.method, bounds, drop=False, kinds=kinds)


def choose(model: Any, axes: bool) -> Resolved:
    """The method behind ``model``, with or without axes."""
    return resolve(model) if axes else without_axes(resolve(model))


def fit_sample(
    sample: Any,
    model: Any = "default",
    *,
    weights: Any = None,
    bounds: Any = None,
    names: Any = None,
    kinds: Sequence[ColumnKind] | None = None,
    own_bounds: Sequence[Bound] | None = None,
    axes: bool = True,
) -> Fitted:
    """Fit to a sample in memory.

    Parameters
    ----------
    sample : array or tensor (..., n, d)
    model : a name of `discoformer.methods`, a path to weights, or a method
    weights : (..., n), optional
    bounds : as for `discoformer.columns.bounds.parse_bounds`
    names : column names for the messages
    kinds : what every column is; None if all are continuous
    own_bounds : of every column, where the values leave no doubt; ``bounds`` go before
    axes : whether the columns' own axes may count

    >>> import numpy as np
    >>> fit_sample(np.random.default_rng(0).normal(size=(50, 2)), "kde-scott").field.support
    [0, 1]
    """
    resolved = choose(model, axes)
    context = to_tensor(sample, "X")
    context = check_context(context, name="X", gaps=takes_kinds(resolved) and context.ndim == 2)
    rows, dim = context.shape[-2:]
    pairs = parse_bounds(bounds, dim, names)
    if own_bounds is not None:
        pairs = fill_bounds(pairs, own_bounds)
    told = None if kinds is None or set(kinds) == {CONTINUOUS} else list(kinds)
    if told is not None:  # a label has no bounds, even if all columns have the same
        pairs = [FREE if kind.kind == "category" else pair for pair, kind in zip(pairs, told, strict=True)]
    recipe = FitRecipe(resolved.method, pairs, names, kinds=told)
    field = recipe.fit_checked(context.clone() if context is sample else context, weights)
    check_range(resolved, rows, len(field.support))
    return Fitted(field, resolved, pairs, told)


def fit_stream(
    stream: Stream, model: Any = "default", *, names: Sequence[str] | None = None, axes: bool = True
) -> Fitted:
    """Fit by passes over a sample that is not in memory."""
    resolved = choose(model, axes)
    field = FitRecipe(resolved.method, names=names).fit_stream(stream)
    check_range(resolved, stream.rows, len(field.support))
    return Fitted(field, resolved, parse_bounds(None, stream.source.dim))


def fit_table(table: Table, model: Any = "default", bounds: Any = None) -> Fitted:
    """Fit a model to a table; warns of columns that have few values and are taken as continuous.

    Parameters
    ----------
    table : the data, with its kinds, bounds and weights
    model, bounds : as for `discoformer.DiScoFormer`; ``bounds`` go before those of the table

    >>> import numpy as np
    >>> table = Table(np.random.default_rng(0).normal(size=(50, 2)), ("a", "b"))
    >>> fit_table(table, "kde-scott").field.support
    [0, 1]
    """
    if note := few_values(table):
        warnings.warn(note, stacklevel=2)
    return fit_sample(
        table.values,
        model,
        weights=table.weights,
        bounds=bounds,
        names=table.names,
        kinds=table.kinds,
        own_bounds=table.bounds,
    )

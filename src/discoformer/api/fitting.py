"""From what a user gives to a fitted field: the one way in for estimator, functions and commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from discoformer.columns.bounds import Bound, parse_bounds
from discoformer.columns.fitting import FitRecipe
from discoformer.core.checks import check_points
from discoformer.core.fields import Field
from discoformer.methods import Resolved, check_range, resolve, without_axes
from discoformer.scale.stream import Stream

__all__ = ["Fitted", "choose", "fit_sample", "fit_stream"]


@dataclass(frozen=True)
class Fitted:
    """A fitted field and where it came from.

    Attributes
    ----------
    field : of all columns
    resolved : the method
    bounds : low and high of every column
    """

    field: Field
    resolved: Resolved
    bounds: list[Bound]

    def refit(self) -> FitRecipe:
        """The method for further fits to the columns of `Field.support`: none is left out on the way.

        A fold that lost a column would answer for another density than the others.
        """
        bounds = [self.bounds[j] for j in self.field.support]
        return FitRecipe(self.resolved.method, bounds, drop=False)


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
    axes : whether the columns' own axes may count

    >>> import numpy as np
    >>> fit_sample(np.random.default_rng(0).normal(size=(50, 2)), "kde-scott").field.support
    [0, 1]
    """
    resolved = choose(model, axes)
    context: Tensor = check_points(sample, "X", min_rows=2)
    rows, dim = context.shape[-2:]
    pairs = parse_bounds(bounds, dim, names)
    field = FitRecipe(resolved.method, pairs, names).fit(context, weights)
    check_range(resolved, rows, len(field.support))
    return Fitted(field, resolved, pairs)


def fit_stream(
    stream: Stream, model: Any = "default", *, names: Sequence[str] | None = None, axes: bool = True
) -> Fitted:
    """Fit by passes over a sample that is not in memory."""
    resolved = choose(model, axes)
    field = FitRecipe(resolved.method, names=names).fit_stream(stream)
    check_range(resolved, stream.rows, len(field.support))
    return Fitted(field, resolved, parse_bounds(None, stream.source.dim))

"""Columns without a density: counts and repeated values, in functionals of plain arrays.

An array says nothing about its columns.  A network that took whole numbers for measurements would make spikes
of them, and their log density has no limit.  So the rules of `columns.schema_rules` look at the values: those
on a lattice are fitted in bins, and a value that too many rows share gets a mass of its own.  Log densities
then refer to these masses too.  That changes entropies, but not divergences.
"""

from __future__ import annotations

from torch import Tensor

from discoformer.columns.bounds import FREE, Bound
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.columns.kinds import CONTINUOUS, ColumnKind, MixedMethod
from discoformer.columns.schema_column import ColumnSchema
from discoformer.columns.schema_rules import describe_numbers
from discoformer.core.fields import Field, Method

__all__ = ["fits_batches", "for_kinds_of"]

_REPEATING = ("count", "lattice", "atoms", "boolean")


def for_kinds_of(source: Method | Field, sample: Tensor) -> Method | Field:
    """The method, told the kinds of the columns of a sample (n, d); unchanged if all are continuous.

    Only a bare network that can take kinds is changed: a field is fitted already, and a recipe has its kinds.

    >>> import torch
    >>> from discoformer.methods import resolve
    >>> counts = torch.poisson(torch.full((200, 1), 3.0, dtype=torch.float64))
    >>> [kind.step for kind in for_kinds_of(resolve("default").method, counts).kinds]
    [1.0]
    """
    if not isinstance(source, MixedMethod) or sample.ndim != 2:
        return source
    read = [_kind(column) for column in sample.detach().double().cpu().unbind(-1)]
    if all(kind == CONTINUOUS for kind, _ in read):
        return source
    return FitRecipe(source, [bound for _, bound in read], drop=False, kinds=[kind for kind, _ in read])


def fits_batches(source: Method | Field, sample: Tensor) -> bool:
    """Whether many versions of a sample (n, d) can be fitted at once: kinds are for one table at a time."""
    told = for_kinds_of(source, sample)
    return not isinstance(told, FitRecipe) or told.kinds is None


def _kind(values: Tensor) -> tuple[ColumnKind, Bound]:
    if bool((values == values[0]).all()):
        return CONTINUOUS, FREE
    found = describe_numbers(ColumnSchema("", "continuous", ""), values.numpy())
    if found.kind not in _REPEATING:
        return CONTINUOUS, FREE
    return found.density_kind, FREE if found.kind == "boolean" else found.bounds

"""Which columns make a row unusual.

The surprise of a cell is -log p(x_j | the other columns) = log f(x without j) - log f(x), in closed form.
Its excess over what the column usually shows, the median at draws of the density, does not depend on the
column's unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.api.fitting import Fitted
from discoformer.columns.kinds import ColumnKind
from discoformer.core.checks import DataError
from discoformer.core.composed import on_support
from discoformer.core.fields import Density, Field
from discoformer.views.page.unusual import surprises

__all__ = ["CommonScale", "common_scale", "odd_columns", "without_rows"]

_DRAWS = 400
_REFIT = 8192  # rows of the fit without the unusual ones, at most
_MOST = 3  # columns that are named, at most
_SHARE = 0.1  # share of the largest excess that another column needs to be named too


@dataclass(frozen=True)
class CommonScale:
    """What makes log densities of rows with different cells comparable.

    A missing cell adds no term to the log density, and a value with a probability of its own adds one of
    another unit.  Ranked by log density, such rows would stand out for that alone.  So the surprise that is
    usual in its column is added back for every cell that has a density.

    Attributes
    ----------
    usual : (d,), usual surprise of the cells with a density, in every column
    kinds : kinds of the columns
    """

    usual: NDArray[np.float64]
    kinds: Sequence[ColumnKind]

    def __call__(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """What to add to the log densities (n,) of rows (n, d)."""
        return np.asarray(_with_density(values, self.kinds) @ self.usual)


@torch.no_grad()
def common_scale(
    field: Field, values: NDArray[np.float64], kinds: Sequence[ColumnKind]
) -> CommonScale | None:
    """The common scale of a table (n, d); None if all rows have the same cells, or without a `Density`."""
    dense = _with_density(values, kinds)
    if (dense == dense[:1]).all() or not isinstance(field, Density):
        return None
    part, columns = on_support(field)
    assert isinstance(part, Density)
    draws = part.sample(_DRAWS, torch.Generator().manual_seed(0)).cpu().numpy()
    found = np.where(_with_density(draws, [kinds[j] for j in columns]), surprises(part, draws), np.nan)
    usual = np.zeros(len(kinds))
    for place, j in enumerate(columns):
        cells = found[~np.isnan(found[:, place]), place]
        usual[j] = np.median(cells) if len(cells) else 0.0
    return CommonScale(usual, kinds)


def _with_density(values: NDArray[np.float64], kinds: Sequence[ColumnKind]) -> NDArray[np.bool_]:
    """Whether each cell (n, d) is present and has a density rather than a probability."""
    dense = ~np.isnan(values)
    for j, kind in enumerate(kinds):
        dense[:, j] &= kind.kind != "category"
        dense[:, j] &= ~np.isin(values[:, j], kind.atoms)
    return dense


@torch.no_grad()
def odd_columns(density: Density, rows: NDArray[np.float64]) -> list[list[int]]:
    """The columns that make each of the rows (k, d) unusual, the most surprising first, at least one.

    Examples
    --------
    >>> from discoformer import load_model
    >>> density = load_model("default").fit(np.random.default_rng(0).normal(size=(200, 3)))
    >>> odd_columns(density, np.array([[0.0, 9.0, 0.0]]))
    [[1]]
    """
    part, columns = on_support(density)
    assert isinstance(part, Density)
    draws = part.sample(_DRAWS, torch.Generator().manual_seed(0)).cpu().numpy()
    usual = np.median(surprises(part, draws), axis=0)
    with np.errstate(invalid="ignore"):  # a row of zero density: all its columns count as equally odd
        excess = np.nan_to_num(surprises(part, rows[:, columns]) - usual)
    found = []
    for row in excess:
        order = np.argsort(-row, kind="stable")[:_MOST]
        found.append([columns[j] for j in order if j == order[0] or row[j] > max(1.0, _SHARE * row.max())])
    return found


def without_rows(fitted: Fitted, values: NDArray[np.float64], rows: NDArray[np.int64]) -> Density | None:
    """The density of a sample (n, d) without some of its rows, so that they do not vouch for themselves."""
    rest = np.delete(np.arange(len(values)), rows)
    if len(rest) > _REFIT:
        rest = np.random.default_rng(0).choice(rest, _REFIT, replace=False)
    if len(rest) < 3 or len(fitted.field.support) < fitted.field.dim:
        return None
    try:
        with torch.no_grad():
            field = fitted.refit().fit(values[rest])
    except DataError:  # such as a column that is constant without these rows
        return None
    return field if isinstance(field, Density) else None

"""Which columns make a row unusual.

The surprise of a cell is -log p(x_j | the other columns) = log f(x without j) - log f(x), in closed form.
Its excess over what the column usually shows, the median at draws of the density, does not depend on the
column's unit.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.api.fitting import Fitted
from discoformer.columns.split import kinds_of
from discoformer.core.checks import DataError
from discoformer.core.composed import on_support
from discoformer.core.fields import Density
from discoformer.detection.reasons import over_usual, surprises

__all__ = ["odd_columns", "without_rows"]

_DRAWS = 400
_REFIT = 8192  # rows of the fit without the unusual ones, at most
_MOST = 3  # columns that are named, at most
_SHARE = 0.1  # share of the largest excess that another column needs to be named too


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
    draws, asked = part.sample(_DRAWS, torch.Generator().manual_seed(0)), torch.from_numpy(rows[:, columns])
    over = over_usual(surprises(part, asked), asked, surprises(part, draws), draws, kinds_of(part), _median)
    excess = np.nan_to_num(over.numpy())
    found = []
    for row in excess:
        order = np.argsort(-row, kind="stable")[:_MOST]
        found.append([columns[j] for j in order if j == order[0] or row[j] > max(1.0, _SHARE * row.max())])
    return found


def _median(surprise: torch.Tensor) -> torch.Tensor:
    return surprise.nanquantile(0.5, dim=0)


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

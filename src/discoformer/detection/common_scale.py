"""What makes log densities of rows with different cells comparable.

A missing cell adds no term to the log density, and a value with a probability of its own adds one of another
unit.  Ranked by log density, such rows would stand out for that alone, and with another unit of the column
for its opposite.  So every column is measured in a unit of its own, in which the usual density of its values
is one: the surprise -log p(x_j | the others) that is usual among values with a density is added back for each
of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.columns.kinds import ColumnKind
from discoformer.core.composed import on_support
from discoformer.core.fields import Density, Field
from discoformer.detection.reasons import surprises

__all__ = ["CommonScale", "common_scale", "on_scale"]

_DRAWS = 1000


@dataclass(frozen=True)
class CommonScale:
    """What is usual in every column of a table.

    Attributes
    ----------
    usual : (d,), usual surprise of the cells with a density, among such cells
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
    """The common scale of a table (n, d); None if all rows have the same cells, or without a `Density`.

    >>> from discoformer.baselines.kde import KDE
    >>> field = KDE(0.1).fit([[0.0, 0.0], [1.0, 1.0]])
    >>> common_scale(field, np.zeros((3, 2)), [ColumnKind(), ColumnKind()])
    >>> scale = common_scale(field, np.array([[0.0, np.nan], [0.0, 0.0]]), [ColumnKind(), ColumnKind()])
    >>> scale is not None and bool((scale.usual < 0).all())  # values lie close together
    True
    """
    dense = _with_density(values, kinds)
    same = not any(kind.atoms for kind in kinds) and bool((dense == dense[:1]).all())
    if same or not isinstance(field, Density):
        return None
    part, columns = on_support(field)
    assert isinstance(part, Density)
    draws = part.sample(_DRAWS, torch.Generator().manual_seed(0))
    there = _with_density(draws.cpu().numpy(), [kinds[j] for j in columns])
    found = np.where(there, surprises(part, draws).cpu().numpy(), np.nan)
    usual = np.zeros(len(kinds))
    for place, j in enumerate(columns):
        cells = found[there[:, place], place]
        if len(cells):  # that the cell has a density at all is a probability, which counts
            usual[j] = np.median(cells) + math.log(len(cells) / len(draws))
    return CommonScale(usual, kinds)


def on_scale(
    scale: CommonScale | None, log_density: NDArray[np.float64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Log densities (n,) of rows (n, d) on a common scale, where there is need of one."""
    return log_density if scale is None else log_density + scale(values)


def _with_density(values: NDArray[np.float64], kinds: Sequence[ColumnKind]) -> NDArray[np.bool_]:
    """Whether each cell (n, d) is present and has a density rather than a probability."""
    dense = ~np.isnan(values)
    for j, kind in enumerate(kinds):
        dense[:, j] &= kind.kind != "category"
        dense[:, j] &= ~np.isin(values[:, j], kind.atoms)
    return dense

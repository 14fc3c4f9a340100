"""Columns without a density that follow from the others, or never change: a row that breaks this is odd.

The log density says nothing of such columns.  What they have to be is known all the same: the one value of
the sample, or what the relation found in the sample says.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.core.composed import PushedField
from discoformer.core.fields import PointDensity
from discoformer.core.transforms import OFF_SUPPORT, KeptColumns

__all__ = ["Broken", "broken", "broken_constants"]

_ROUNDING = 1e-9  # relative error of a constant
_FAR = 10 * OFF_SUPPORT  # from a relation, in spreads of the column


class Broken(NamedTuple):
    """What columns without a density should be at rows (m, d).

    Attributes
    ----------
    expected : (m, d), NaN where nothing is known
    where : (m, d) of bool, cells that are something else; gaps are not
    """

    expected: Tensor
    where: Tensor


def broken_constants(rows: Tensor, sample: Tensor) -> Broken:
    """By the columns of a sample (n, d) that have one value only.

    >>> sample = torch.tensor([[1.0, 7.0], [2.0, 7.0]])
    >>> broken_constants(torch.tensor([[9.0, 7.0], [1.0, 5.0]]), sample).where.tolist()
    [[False, False], [False, True]]
    """
    known = sample.nan_to_num(nan=-torch.inf).amax(0)
    constant = (sample.nan_to_num(nan=torch.inf).amin(0) == known) & known.isfinite()
    expected = torch.where(constant, known, torch.nan).to(rows).expand_as(rows)
    return Broken(expected, (rows - expected).abs() > _ROUNDING * expected.abs())


def broken(density: PointDensity, rows: Tensor, sample: Tensor) -> Broken:
    """By constants, and by the relation that a density knows of the columns left out of its fit."""
    expected, where = broken_constants(rows, sample)
    first = density.transforms[0] if isinstance(density, PushedField) else None
    if isinstance(first, KeptColumns):
        kept, dropped = list(first.kept), list(first.dropped)
        found = first.relation.complete(rows[:, kept])
        off = (rows[:, dropped] - found).abs() > _FAR * first.relation.scale.to(rows)
        fixed = ~expected[:, dropped].isnan()
        expected, where = expected.clone(), where.clone()
        expected[:, dropped] = torch.where(fixed, expected[:, dropped], found)
        where[:, dropped] = torch.where(fixed, where[:, dropped], off)
    return Broken(expected, where)

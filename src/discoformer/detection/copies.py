"""Rows that are given several times: copies of a row must not vouch for it.

Three rows of -999999 are three times the same error.  Without one of them, the other two still make a spike
where they stand, and in many columns a spike is denser than anything else.  So copies leave together, unless
they are so many that the value is an atom (`discoformer.columns.schema_repeats`), which is no error.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.columns.schema_repeats import ATOM_ROWS, ATOM_SHARE
from discoformer.core.fields import Density

__all__ = ["copies", "left_out_with_copies", "recalled", "with_copies"]


def copies(rows: Tensor) -> Tensor:
    """How many rows (n,) of a sample (n, d) leave with each: all equal ones, or itself if these are an atom.

    >>> copies(torch.tensor([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])).tolist()
    [2, 1, 2]
    >>> copies(torch.zeros(5, 1)).tolist()
    [1, 1, 1, 1, 1]
    """
    return with_copies(rows, torch.ones(len(rows), dtype=torch.long))


def with_copies(rows: Tensor, weights: Tensor) -> Tensor:
    """Weight (n,) that leaves a sample (n, d) with each of its rows: that of all equal ones, or its own.

    >>> with_copies(torch.tensor([[1.0], [3.0], [1.0]]), torch.tensor([0.5, 0.25, 0.25])).tolist()
    [0.75, 0.25, 0.75]
    """
    whole = rows.nan_to_num(nan=torch.inf)  # a gap is equal to a gap
    _, group, count = torch.unique(whole, dim=0, return_inverse=True, return_counts=True)
    atom = max(ATOM_ROWS, math.ceil(ATOM_SHARE * len(rows)))
    total = weights.new_zeros(len(count)).index_add(0, group, weights)
    return torch.where((count < atom)[group], total[group], weights)


@torch.no_grad()
def left_out_with_copies(density: Density, rows: Tensor, weights: Tensor | None = None) -> Tensor:
    """`Density.left_out` (..., n) at rows (..., n, d), those of one sample (n, d) without their copies, too.

    >>> from discoformer.methods import resolve
    >>> x = torch.randn(100, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> x[:2] = 50.0
    >>> left_out_with_copies(resolve("default").method.fit(x), x).argsort()[:2].sort().values.tolist()
    [0, 1]
    """
    if rows.ndim == 2:
        multiplicity = copies(rows)
        if bool((multiplicity > 1).any()):
            share = rows.new_full((len(rows),), 1 / len(rows)) if weights is None else weights
            weights = with_copies(rows, share)
    return density.left_out(rows, weights)


def recalled(
    rows: NDArray[np.float64],
    found: NDArray[np.float64],
    sample: NDArray[np.float64],
    own: NDArray[np.float64],
) -> NDArray[np.float64]:
    """What was found at rows (m, d); at those that are in a sample (n, d), what is its ``own`` (n,) there.

    >>> sample, own = np.array([[0.0], [5.0]]), np.array([-1.0, -9.0])
    >>> recalled(np.array([[5.0], [2.0]]), np.array([-3.0, -4.0]), sample, own).tolist()
    [-9.0, -4.0]
    """
    known = dict(zip(map(_key, sample), own.tolist(), strict=True))
    return np.array([known.get(_key(row), value) for row, value in zip(rows, found.tolist(), strict=True)])


def _key(row: NDArray[np.float64]) -> bytes:
    """What equal rows share; zero has two signs."""
    return (row + 0.0).tobytes()

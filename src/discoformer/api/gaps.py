"""Gaps filled by draws of a density, given the rest of their row."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.core.fields import Density

__all__ = ["draw_gaps"]

_ROWS = 256  # conditioned on at a time: each has a density of its own


@torch.no_grad()
def draw_gaps(
    density: Density, values: NDArray[np.float64], draws: int, seed: int = 0
) -> NDArray[np.float64]:
    """Rows (n, d) with their gaps, NaN, filled ``draws`` times: (draws, n, d).

    Rows with the same gaps are done together.

    >>> from discoformer import KDE
    >>> x = torch.randn(50, 2, dtype=torch.float64)
    >>> draw_gaps(KDE().fit(x), np.array([[0.5, np.nan]]), draws=3)[:, 0, 0].tolist()
    [0.5, 0.5, 0.5]
    """
    generator = torch.Generator().manual_seed(seed)
    filled = np.repeat(values[None], draws, 0)
    there = ~np.isnan(values)
    patterns, which = np.unique(there, axis=0, return_inverse=True)
    for place, pattern in enumerate(patterns):
        known, gaps = np.flatnonzero(pattern), np.flatnonzero(~pattern)
        rows = np.flatnonzero(which.ravel() == place)
        if not len(gaps):
            continue
        if not len(known):
            drawn = density.sample(draws * len(rows), generator).numpy()
            filled[:, rows] = drawn.reshape(draws, len(rows), -1)
            continue
        for part in np.array_split(rows, -(-len(rows) // _ROWS)):
            given = density.conditional(known.tolist(), torch.from_numpy(values[np.ix_(part, known)]))
            found = given.sample(draws, generator).numpy()  # (k, draws, gaps)
            filled[:, part[:, None], gaps] = found.swapaxes(0, 1)
    return filled

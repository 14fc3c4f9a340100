"""Fits that have not seen the rows they are asked about, for everything on the page that must not flatter.

A mixture may give a single wild row a component of its own, and then finds it likely.  Asked of a fit without
it, the same row is what it is.  The fits are those of a k-fold cross-validation, of a sample of the rows if
there are many: the same that the comparison with other methods needs, so nothing is fitted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.core.fields import Method, PointDensity, as_point_density
from discoformer.core.progress import Advance, silent

__all__ = ["FEWEST", "FOLDS", "MOST", "Folds", "hold_out"]

FOLDS = 5
FEWEST = 4  # with fewer rows, a fit without one fold would have less than three
MOST = 4000  # rows that are cut into folds; the others are asked of the first fit


@dataclass(frozen=True)
class Folds:
    """Fits without a part of the rows each.

    Attributes
    ----------
    fields : one per fold
    fold : (n,), which of them has not seen a row
    sample : numbers of the rows that were cut into folds, in increasing order; all if there are few
    """

    fields: Sequence[PointDensity]
    fold: NDArray[np.int64]
    sample: NDArray[np.int64]

    def ask(
        self,
        verb: Callable[[PointDensity, NDArray[np.float64]], NDArray[np.float64]],
        rows: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """What the fits answer at the rows (n, d) they have not seen: (n, ...)."""
        parts = {k: self.fold == k for k in range(len(self.fields)) if (self.fold == k).any()}
        answers = {k: verb(self.fields[k], rows[mask]) for k, mask in parts.items()}
        first = next(iter(answers.values()))
        result = np.empty((len(rows), *first.shape[1:]))
        for k, mask in parts.items():
            result[mask] = answers[k]
        return result


def hold_out(
    method: Method,
    rows: NDArray[np.float64],
    *,
    folds: int = FOLDS,
    seed: int = 0,
    advance: Advance = silent,
) -> Folds:
    """Fit a method to the rows (n, d) but for a fold, for every fold in turn.

    The split is that of `discoformer.evaluation.held_out.held_out_log_likelihood` on the same rows.

    >>> from discoformer import KDE
    >>> x = np.random.default_rng(0).normal(size=(40, 1))
    >>> held_out = hold_out(KDE(), x)
    >>> held_out.ask(lambda field, part: field.log_density(part), x).shape
    (40,)
    """
    from sklearn.model_selection import KFold

    sample = np.arange(len(rows))
    if len(rows) > MOST:
        sample = np.sort(np.random.default_rng(seed).choice(len(rows), MOST, replace=False))
    fold = np.zeros(len(rows), dtype=np.int64)
    fields = []
    splitter = KFold(min(folds, len(sample)), shuffle=True, random_state=seed)
    for k, (inside, outside) in enumerate(splitter.split(sample)):
        advance(0, f"fitting without a fold, {k + 1} of {splitter.n_splits}")
        with torch.no_grad():
            fields.append(as_point_density(method.fit(rows[sample[inside]])))
        fold[sample[outside]] = k
        advance()
    return Folds(fields, fold, sample)

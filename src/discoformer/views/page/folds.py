"""Fits that have not seen the rows they are asked about, so that nothing on the page flatters the model.

A mixture may give a single extreme row a component of its own, and then find it likely.  A fit without that
row shows it for what it is.  The fits come from a k-fold cross-validation, on a sample of the rows if there
are many.  The comparison with other methods needs the same fits, so nothing is fitted twice.
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
FEWEST = 4  # with fewer rows, a fit without one fold would have fewer than three
MOST = 4000  # rows that are cut into folds; the first fit answers for the others


@dataclass(frozen=True)
class Folds:
    """Fits that each leave out a part of the rows.

    Attributes
    ----------
    fields : one per fold
    fold : (n,), for every row the number of a fit that has not seen it
    sample : numbers of the rows that were cut into folds, in increasing order; all if there are few
    """

    fields: Sequence[PointDensity]
    fold: NDArray[np.int64]
    sample: NDArray[np.int64]

    def ask(
        self,
        question: Callable[[PointDensity, NDArray[np.float64]], NDArray[np.float64]],
        rows: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """The answers (n, ...) at the rows (n, d), each by a fit that has not seen the row."""
        parts = {k: self.fold == k for k in range(len(self.fields)) if (self.fold == k).any()}
        answers = {k: question(self.fields[k], rows[mask]) for k, mask in parts.items()}
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
    advance: Advance = silent,
) -> Folds:
    """Fit a method to all rows (n, d) but one fold, for every fold in turn.

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
        sample = np.sort(np.random.default_rng(0).choice(len(rows), MOST, replace=False))
    fold = np.zeros(len(rows), dtype=np.int64)
    fields = []
    splitter = KFold(min(folds, len(sample)), shuffle=True, random_state=0)
    for k, (inside, outside) in enumerate(splitter.split(sample)):
        advance(0, f"fitting without a fold, {k + 1} of {splitter.n_splits}")
        with torch.no_grad():
            fields.append(as_point_density(method.fit(rows[sample[inside]])))
        fold[sample[outside]] = k
        advance()
    return Folds(fields, fold, sample)

"""Which method describes this sample best: held-out log-likelihood, for any method and any data.

Every row is predicted once, by a fit that has not seen it (k-fold cross-validation).  The mean log
density of the held-out rows needs no truth and does not reward overfitting.  Its difference between two
methods does not depend on the units of the columns.  Where the truth is known, `score_error` also says how
far the score is off.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.core.checks import DataError, check_points
from discoformer.core.fields import Method, as_point_density
from discoformer.evaluation.known_truth import Dataset, measure

__all__ = ["HeldOut", "held_out_log_likelihood", "score_error"]

Splits = list[tuple[NDArray[np.int64], NDArray[np.int64]]]


@dataclass(frozen=True)
class HeldOut:
    """Held-out log density of every row.

    Attributes
    ----------
    log_density : (n,), in the order of the rows
    seconds : for all folds, fits and answers together
    weights : (n,), how much each row counts; None if all count equally
    """

    log_density: NDArray[np.float64]
    seconds: float
    weights: NDArray[np.float64] | None = None

    @property
    def mean(self) -> float:
        """Held-out log-likelihood per row."""
        return float(np.average(self.log_density, weights=self.weights))

    @property
    def standard_error(self) -> float:
        """Standard error of `mean`, over the rows."""
        return _standard_error(self.log_density, self.weights)

    def minus(self, other: HeldOut) -> tuple[float, float]:
        """Mean lead over another method and its standard error, row by row: both find the same rows hard."""
        difference = self.log_density - other.log_density
        mean = float(np.average(difference, weights=self.weights))
        return mean, _standard_error(difference, self.weights)


def held_out_log_likelihood(
    method: Method,
    sample: Any,
    folds: int = 5,
    seed: int = 0,
    progress: Callable[[Splits], Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]]] = iter,
    *,
    weights: NDArray[np.float64] | None = None,
) -> HeldOut:
    """Log density of every row under a fit to the other folds.

    Parameters
    ----------
    method : must have a density; wrap it in `FitRecipe` for bounds and few rows, as the estimator does
    sample : array or tensor (n, d); NaN for gaps, if the method takes them
    folds : number of parts, each held out once
    seed : of the random split; the same split for every method
    progress : called with the list of splits, iterates over them; for a progress bar
    weights : (n,), how much each row counts in the fits and in the mean

    >>> from discoformer import KDE
    >>> x = np.random.default_rng(0).normal(size=(400, 1))
    >>> round(held_out_log_likelihood(KDE(), x).mean, 1)  # the best possible is -1.4
    -1.4
    """
    from sklearn.model_selection import KFold

    points = check_points(sample, "the sample", min_rows=2, gaps=True).detach().double().cpu().numpy()
    if points.ndim != 2:
        raise DataError(f"the sample has shape {points.shape}, expected (rows, columns)")
    if not 2 <= folds <= len(points):
        raise DataError(f"{folds} folds of {len(points)} rows: choose a number from 2 to {len(points)}")
    log_density = np.empty(len(points))
    start = time.perf_counter()
    for inside, outside in progress(list(KFold(folds, shuffle=True, random_state=seed).split(points))):
        with torch.no_grad():
            share = None if weights is None else weights[inside]
            field = as_point_density(method.fit(points[inside], share))
            log_density[outside] = field.log_density(points[outside])
    if not np.isfinite(log_density).all():
        row = int(np.flatnonzero(~np.isfinite(log_density))[0])
        raise DataError(f"the held-out log density of row {row} is {log_density[row]}: no comparison")
    return HeldOut(log_density, time.perf_counter() - start, weights)


def score_error(method: Method, data: Dataset) -> float:
    """Relative score error at the sample points of a fit to the whole sample (1 for the zero field)."""
    return measure({"method": method}, iter([data]))["method"].relative_score


def _standard_error(values: NDArray[np.float64], weights: NDArray[np.float64] | None) -> float:
    if weights is None:
        return float(values.std(ddof=1)) / math.sqrt(len(values))
    share = weights / weights.sum()
    return math.sqrt(float(((share * (values - share @ values)) ** 2).sum()))

"""Log density and score in one call: a sample and points in, both answers out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from discoformer.api.fitting import fit_sample
from discoformer.api.ragged import estimate_ragged, is_ragged
from discoformer.core.fields import Estimate, Method, as_point_density
from discoformer.data.containers import in_order_of

__all__ = ["estimate"]

A = TypeVar("A", NDArray[np.float64], Tensor)


@overload
def estimate(
    X: Sequence[A],
    Y: Sequence[A] | None = None,
    *,
    model: str | Path | Method = "default",
    weights: Sequence[Any] | None = None,
) -> list[Estimate[A]]: ...
@overload
def estimate(
    X: A, Y: A | None = None, *, model: str | Path | Method = "default", weights: Any = None
) -> Estimate[A]: ...
def estimate(X: Any, Y: Any = None, *, model: str | Path | Method = "default", weights: Any = None) -> Any:
    """Log density and score of the distribution behind a sample, at any points.

    Parameters
    ----------
    X : array or tensor (..., n, d)
        The sample; leading dimensions are a batch of samples.  Or a list of samples (n_i, d) of different
        sizes: then Y and weights are lists, too, and a list of answers comes back.
    Y : array or tensor (..., m, d), optional
        Where to answer; the sample itself by default.  Columns of frames go by their names.
    model : a name of `discoformer.methods`, a path to weights, or a method
    weights : (..., n), optional
        Sample weights.

    Returns
    -------
    Estimate
        ``log_density`` (..., m) and ``score`` (..., m, d): arrays for arrays; tensors for tensors, in the
        dtype of the points and differentiable in both X and Y.

    Examples
    --------
    >>> sample = np.random.default_rng(0).normal(size=(200, 2))
    >>> log_density, score = estimate(sample, sample[:5], model="kde-scott")
    >>> log_density.shape, score.shape
    ((5,), (5, 2))
    >>> first, second = estimate([sample, sample[:50]], model="kde-scott")
    >>> first.score.shape, second.score.shape
    ((200, 2), (50, 2))
    """
    if is_ragged(X):
        return estimate_ragged(X, Y, model, weights)
    field = as_point_density(fit_sample(X, model, weights=weights).field)
    return field.estimate(X if Y is None else in_order_of(X, Y))

"""Log density and score in one call: a sample and points in, both answers out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from discoformer.api.fitting import fit_sample
from discoformer.core.fields import Estimate, Method, as_point_density

__all__ = ["estimate"]

A = TypeVar("A", NDArray[np.float64], Tensor)


def estimate(
    X: A, Y: A | None = None, *, model: str | Path | Method = "default", weights: Any = None
) -> Estimate[A]:
    """Log density and score of the distribution behind a sample, at any points.

    Parameters
    ----------
    X : array or tensor (..., n, d)
        The sample; leading dimensions are a batch of samples.
    Y : array or tensor (..., m, d), optional
        Where to answer; the sample itself by default.
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
    """
    field = as_point_density(fit_sample(X, model, weights=weights).field)
    return field.estimate(X if Y is None else Y)

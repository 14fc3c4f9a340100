"""Log density and score in one call: a sample and points in, both answers out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from discoformer.columns.support import Supported
from discoformer.core.checks import DataError, check_points
from discoformer.core.fields import Estimate, Field, Method
from discoformer.methods import check_range, resolve

__all__ = ["answer", "estimate"]

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
    model : a registered name, a path to weights, "kde", or a method
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
    >>> log_density, score = estimate(sample, sample[:5], model="kde")
    >>> log_density.shape, score.shape
    ((5,), (5, 2))
    """
    resolved = resolve(model)
    context = check_points(X, "X", min_rows=2)
    check_range(resolved, *context.shape[-2:])
    field = Supported(resolved.method).fit(context, weights)
    return answer(field, X if Y is None else Y)


def answer(field: Field, queries: A) -> Estimate[A]:
    """Estimate at the queries, in their dtype, or raise `DataError` if a number is lost to overflow.

    Minus infinity is a legal log density: no mass, as outside of bounds.
    """
    if not isinstance(queries, Tensor):
        tensor = check_points(queries, "queries", dim=field.dim)
        log_density, score = answer(field, tensor)
        values = None if log_density is None else log_density.detach().cpu().numpy()
        return Estimate(values, score.detach().cpu().numpy())
    log_density, score = field.estimate(queries)
    lost = ~score.detach().isfinite().all(-1)
    if log_density is not None:
        lost = lost | log_density.detach().isnan() | log_density.detach().isposinf()
        log_density = log_density.to(queries.dtype)
    if bool(lost.any()):
        row = int(lost.nonzero()[0, -1])
        raise DataError(
            f"no finite answer at row {row} ({int(lost.sum())} such in all), too far from the sample: "
            "check the units of the points"
        )
    return Estimate(log_density, score.to(queries.dtype))

"""The spine: a method turns a sample into a field, a field answers at query points.

    field = method.fit(context)                     # context (..., n, d)
    log_density, score = field.estimate(queries)    # (..., m), (..., m, d)

Networks, kernel estimators, mixtures and exact distributions are all fields, so everything
downstream takes a field or a method and never asks which one it got.  NumPy arrays in give NumPy
arrays out; tensors stay tensors on their device and in their graph.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from discoformer.core.checks import check_context, check_points, check_weights

__all__ = ["Estimate", "Field", "Method"]

A = TypeVar("A", NDArray[np.float64], Tensor)


class Estimate(NamedTuple, Generic[A]):
    """Log density (..., m) and score, its gradient, (..., m, d) at the query points.

    Attributes
    ----------
    log_density : (..., m), or None for a field that knows only the score.
    score : (..., m, d)
    """

    log_density: A | None
    score: A


class Field(ABC):
    """Something that answers "log density and score at these points".

    Subclasses implement `_estimate` on tensors; callers use `estimate`, `log_density`, `score`.
    """

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of columns d of the points this field is defined on."""

    @abstractmethod
    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        """Answer at checked queries (..., m, d)."""

    def estimate(self, queries: A) -> Estimate[A]:
        """Log density (..., m) and score (..., m, d) at ``queries`` (..., m, d)."""
        result = self._estimate(check_points(queries, "queries", dim=self.dim))
        if isinstance(queries, Tensor):
            return result
        log_density, score = result
        return cast(
            "Estimate[A]",
            Estimate(None if log_density is None else _to_numpy(log_density), _to_numpy(score)),
        )

    def log_density(self, queries: A) -> A:
        """Log density (..., m) at ``queries``; raises if this field knows only the score."""
        result = self.estimate(queries).log_density
        if result is None:
            raise NotImplementedError(f"{type(self).__name__} estimates the score only")
        return result

    def score(self, queries: A) -> A:
        """Gradient of the log density (..., m, d) at ``queries``."""
        return self.estimate(queries).score


class Method(ABC):
    """Turns a sample into a `Field`.  Subclasses implement `_fit` on tensors."""

    @abstractmethod
    def _fit(self, context: Tensor, weights: Tensor | None) -> Field:
        """Fit to a checked context (..., n, d) and weights (..., n) that sum to one."""

    def fit(self, context: Any, weights: Any = None) -> Field:
        """Fit to a sample.

        Parameters
        ----------
        context : array or tensor (..., n, d)
            The sample; leading dimensions are a batch of samples.
        weights : array or tensor (..., n), optional
            Non-negative sample weights.
        """
        points = check_context(context)
        return self._fit(points, check_weights(weights, points))

    def for_few_rows(self) -> Method:
        """The method to use instead when a sample has few rows per column; this one unless it says else."""
        return self


def _to_numpy(tensor: Tensor) -> NDArray[np.float64]:
    return cast("NDArray[np.float64]", tensor.detach().cpu().numpy())

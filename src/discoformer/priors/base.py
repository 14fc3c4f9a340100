"""A distribution: a field whose log density and score are known in closed form, and that can be sampled."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.fields import A, Estimate, Field

__all__ = ["Distribution"]


class Distribution(Field):
    """A batch of distributions on R^d with exact ``sample``, ``log_density`` and ``score``.

    The leading dimensions of the parameters are ``batch_shape``; queries (..., m, d) broadcast
    against it.  Answers come in the dtype of the queries, samples in the dtype of the parameters.
    Queries so far out that the answer is no number of that dtype (a Gaussian at 1e160 standard
    deviations) are a `DataError`.
    """

    def estimate(self, queries: A) -> Estimate[A]:
        result = super().estimate(queries)
        if not all(bool(torch.as_tensor(part).isfinite().all()) for part in result if part is not None):
            raise DataError(
                "queries has rows so far from the distribution that their log density or score overflows: "
                "drop them, or give them in float64"
            )
        return result

    @property
    @abstractmethod
    def batch_shape(self) -> torch.Size:
        """Leading dimensions: one distribution each."""

    @abstractmethod
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw ``n`` independent points from every distribution of the batch, (*batch_shape, n, d)."""

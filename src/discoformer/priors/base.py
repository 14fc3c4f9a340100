"""A distribution: a field whose log density and score are known in closed form, and that can be sampled."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from discoformer.core.fields import PointDensity

__all__ = ["Derived", "Distribution"]


class Distribution(PointDensity):
    """A batch of distributions on R^d with exact ``sample``, ``log_density`` and ``score``.

    The leading dimensions of the parameters are ``batch_shape``; queries (..., m, d) broadcast
    against it.  Answers come in the dtype of the queries, samples in the dtype of the parameters.
    Queries so far out that the answer overflows that dtype (a Gaussian at 1e160 standard
    deviations) are a `DataError`.
    """

    @property
    @abstractmethod
    def batch_shape(self) -> torch.Size:
        """Leading dimensions: one distribution each."""

    @abstractmethod
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw ``n`` independent points from every distribution of the batch, (*batch_shape, n, d)."""


@dataclass(frozen=True, eq=False)
class Derived(Distribution):
    """A distribution made from another one of the same dimension and batch."""

    base: Distribution

    @property
    def dim(self) -> int:
        return self.base.dim

    @property
    def batch_shape(self) -> torch.Size:
        return self.base.batch_shape

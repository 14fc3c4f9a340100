"""A prior made of several: every batch comes from one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch

from discoformer.core.checks import DataError
from discoformer.priors.base import Distribution
from discoformer.priors.broad import BroadPrior
from discoformer.priors.draws import check_number
from discoformer.priors.prior import Prior
from discoformer.priors.tables.table_prior import TablePrior

__all__ = ["MixedPrior"]


@dataclass(frozen=True)
class MixedPrior(Prior):
    """One of several priors for every batch.

    Parameters
    ----------
    priors : the priors, one at least
    weights : how often each one is drawn, relative to their sum

    >>> both = MixedPrior((BroadPrior(), TablePrior()), (0.5, 0.5))
    >>> both.draw(2, 3, torch.Generator().manual_seed(0)).sample(4).shape
    torch.Size([2, 4, 3])
    """

    name: ClassVar[str] = "mixed"

    priors: tuple[Prior, ...] = (BroadPrior(), TablePrior())
    weights: tuple[float, ...] = (0.5, 0.5)

    def __post_init__(self) -> None:
        if not (isinstance(self.priors, tuple) and self.priors):
            raise DataError(f"priors = {self.priors!r} must be a list of priors, one at least")
        for prior in self.priors:
            if not isinstance(prior, Prior):
                raise DataError(f"priors holds {prior!r}, which is no prior: give its name and fields")
        if not (isinstance(self.weights, tuple) and len(self.weights) == len(self.priors)):
            raise DataError(
                f"weights = {self.weights!r} must be {len(self.priors)} numbers, one for each prior"
            )
        for weight in self.weights:
            check_number("weights", weight)
        if not any(self.weights):
            raise DataError("weights must not all be zero")

    def _choose(self, generator: torch.Generator | None) -> Prior:
        weights = torch.tensor(self.weights, dtype=torch.float64)
        return self.priors[int(torch.multinomial(weights, 1, generator=generator))]

    def _kind(
        self, dim: int, generator: torch.Generator | None, dtype: torch.dtype
    ) -> Callable[[int], Distribution]:
        return self._choose(generator)._kind(dim, generator, dtype)

    def _pair(
        self, batch: int, dim: int, generator: torch.Generator | None, dtype: torch.dtype
    ) -> tuple[Distribution, Distribution]:
        return self._choose(generator).pair(batch, dim, generator, dtype)

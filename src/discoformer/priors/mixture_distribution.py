"""Mixtures of whole distributions of any kind.

    log f(x) = logsumexp_k [log w_k + log f_k(x)],    score(x) = sum_k r_k score_k(x),

with r_k the softmax of the terms of the log density.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate
from discoformer.priors.base import Distribution

__all__ = ["MixtureDistribution"]


@dataclass(frozen=True, eq=False)
class MixtureDistribution(Distribution):
    """A batch of mixtures with k parts, each a distribution of its own kind.

    Components of one family are cheaper in one `LocationScaleMixture`: here every part is sampled and
    evaluated for all points.

    Parameters
    ----------
    weights : (..., k), not negative; normalized where they are used.
    distributions : k distributions on the same R^d, each with the batch shape of the weights.

    >>> from discoformer.priors.families import Laplace
    >>> from discoformer.priors.location_scale import LocationScaleMixture, gaussian
    >>> left = gaussian(torch.tensor([-2.0]), torch.eye(1))
    >>> right = LocationScaleMixture(torch.ones(1), torch.tensor([[2.0]]), torch.ones(1, 1), family=Laplace())
    >>> both = MixtureDistribution(torch.tensor([0.5, 0.5]), (left, right))
    >>> both.sample(4, torch.Generator().manual_seed(0)).shape
    torch.Size([4, 1])
    >>> round(both.score(torch.tensor([[-20.0]])).item(), 3)  # far out the heavier tail rules
    1.414
    """

    weights: Tensor
    distributions: tuple[Distribution, ...]

    def __post_init__(self) -> None:
        if self.weights.shape[-1:] != (len(self.distributions),) or not self.distributions:
            raise DataError(
                f"weights of shape {tuple(self.weights.shape)} need one column for each of the "
                f"{len(self.distributions)} distribution(s), at least one"
            )
        for part in self.distributions:
            if part.dim != self.dim or part.batch_shape != self.batch_shape:
                raise DataError(
                    f"a distribution of dimension {part.dim} and batch shape {tuple(part.batch_shape)} does "
                    f"not fit the others: {self.dim} and {tuple(self.batch_shape)}"
                )
        if bool((self.weights < 0).any()) or not bool((self.weights.sum(-1) > 0).all()):
            raise DataError("mixture weights must not be negative and must not all be zero")

    @property
    def dim(self) -> int:
        return self.distributions[0].dim

    @property
    def batch_shape(self) -> torch.Size:
        return self.weights.shape[:-1]

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        flat = self.weights.reshape(-1, len(self.distributions))
        labels = torch.multinomial(flat, n, replacement=True, generator=generator)
        index = labels.reshape(*self.batch_shape, n, 1, 1).expand(*self.batch_shape, n, 1, self.dim)
        draws = torch.stack([part.sample(n, generator) for part in self.distributions], -2)  # (..., n, k, d)
        return draws.gather(-2, index).squeeze(-2)

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        weights = self.weights.to(queries)
        log_weights = (weights / weights.sum(-1, keepdim=True)).log()
        parts = [part._estimate(queries) for part in self.distributions]
        # Every distribution knows its density.
        log_densities = torch.stack([part.log_density for part in parts if part.log_density is not None], -1)
        terms = log_densities + log_weights.unsqueeze(-2)  # (..., m, k)
        log_density = terms.logsumexp(-1)
        share = (terms - log_density.unsqueeze(-1)).exp().unsqueeze(-1)
        scores = torch.stack([part.score for part in parts], -2)  # (..., m, k, d)
        # The score of a part that has no share may be infinite.
        return Estimate(log_density, (share * torch.where(share > 0, scores, 0)).sum(-2))

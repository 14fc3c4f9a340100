"""How wrong a method is where the truth is known: the benchmark that every table uses.

Relative score error = sum |s_hat - s|^2 / sum |s|^2, pooled over data sets, at the sample points
(1 for the zero predictor).  Data sets are drawn one after the other from seeded
generators, so every method in a table sees the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate, Field, Method, PointDensity
from discoformer.priors import Distribution, GMMPrior, Prior

__all__ = ["Dataset", "Errors", "gmm_dataset", "gmm_datasets", "measure", "prior_datasets"]


class Dataset(NamedTuple):
    """A sample (n, d), the distribution it came from, and the exact answers at the sample points."""

    context: Tensor
    distribution: Distribution
    truth: Estimate[Tensor]


@dataclass
class Errors:
    """Running sums of errors over data sets, and the averages that tables show."""

    score_error: float = 0.0
    score_square: float = 0.0
    score_mse_sum: float = 0.0
    log_density_mse_sum: float = 0.0
    datasets: int = 0

    def add(self, field: Field, context: Tensor, truth: Estimate[Tensor]) -> None:
        """Add one data set; the error of the log density is NaN if the field knows only the score."""
        if isinstance(field, PointDensity):
            log_density, score = field.estimate(context)
        else:
            score = field.score(context)
            log_density = torch.full_like(score[..., 0], torch.nan)
        error = (score - truth.score).square().sum(-1)
        self.score_error += float(error.sum())
        self.score_square += float(truth.score.square().sum())
        self.score_mse_sum += float(error.mean())
        self.log_density_mse_sum += float((log_density - truth.log_density).square().mean())
        self.datasets += 1

    @property
    def relative_score(self) -> float:
        """Relative score error, pooled."""
        return self.score_error / self.score_square

    @property
    def score_mse(self) -> float:
        """Mean of |s_hat - s|^2 over the points, averaged over data sets."""
        return self.score_mse_sum / self.datasets

    @property
    def log_density_mse(self) -> float:
        """Mean squared error of the log density, averaged over data sets; NaN if one had no density."""
        return self.log_density_mse_sum / self.datasets


def gmm_datasets(
    dim: int,
    size: int,
    count: int,
    seed: int,
    covariance: Literal["diagonal", "rotated", "either"] | None = None,
    modes: Sequence[int] = tuple(range(1, 11)),
    prior: GMMPrior | None = None,
) -> Iterator[Dataset]:
    """The benchmark of the paper: mixtures with k = 1..10 modes in turn and equal weights.

    Covariances are diagonal unless ``covariance`` says otherwise; ``prior`` sets everything but k.
    """
    if prior is None:
        prior = GMMPrior(covariance=covariance or "diagonal", weights="equal")
    elif covariance is not None:
        raise DataError("give covariance or prior, not both: the prior has a covariance of its own")
    for index in range(count):
        k = modes[index % len(modes)]
        yield _dataset(replace(prior, modes=(k, k)), dim, size, seed + 7919 * index)


def prior_datasets(prior: Prior, dim: int, size: int, count: int, seed: int) -> Iterator[Dataset]:
    """Samples from a prior; for Gaussian mixtures, those of `gmm_datasets`.

    >>> from discoformer.priors import BroadPrior
    >>> [data.context.shape for data in prior_datasets(BroadPrior(), 2, 16, count=2, seed=0)]
    [torch.Size([16, 2]), torch.Size([16, 2])]
    """
    if isinstance(prior, GMMPrior):
        yield from gmm_datasets(dim, size, count, seed, prior=prior)
        return
    for index in range(count):
        yield _dataset(prior, dim, size, seed + 7919 * index)


def _dataset(prior: Prior, dim: int, size: int, seed: int) -> Dataset:
    generator = torch.Generator().manual_seed(seed)
    distribution = prior.draw(1, dim, generator, dtype=torch.float64)
    context = distribution.sample(size, generator)
    log_density, score = distribution.estimate(context)
    return Dataset(context[0], distribution, Estimate(log_density[0], score[0]))


def gmm_dataset(text: str, seed: int = 0) -> Dataset:
    """A sample of a random mixture from its description ``gmm:d,n,k``.

    >>> gmm_dataset("gmm:2,100,3").context.shape
    torch.Size([100, 2])
    """
    found = re.fullmatch(r"gmm:(\d+),(\d+),(\d+)", text)
    dim, size, modes = map(int, found.groups()) if found else (0, 0, 0)
    if dim < 1 or size < 2 or modes < 1:
        raise DataError(f"{text}: write gmm:d,n,k, for example gmm:2,1024,5 (5 components, 1024 rows)")
    return next(gmm_datasets(dim, size, 1, seed, covariance="rotated", modes=(modes,)))


def measure(methods: Mapping[str, Method], datasets: Iterator[Dataset]) -> dict[str, Errors]:
    """Errors of every method at the sample points of the same data sets."""
    errors = {name: Errors() for name in methods}
    for data in datasets:
        for name, method in methods.items():
            with torch.no_grad():
                errors[name].add(method.fit(data.context), data.context, data.truth)
    return errors

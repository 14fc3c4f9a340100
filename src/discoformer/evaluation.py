"""How wrong is a method where the truth is known: the benchmark every table uses.

Relative score error = sum |s_hat - s|^2 / sum |s|^2, pooled over data sets, at the sample points
(the zero predictor has one).  Data sets are drawn one after the other from seeded generators, so
every method in a table sees the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from discoformer.fields import Estimate, Method
from discoformer.priors import Distribution, GMMPrior, Prior

__all__ = ["Dataset", "Errors", "gmm_datasets", "measure", "prior_datasets"]


class Dataset(NamedTuple):
    """A sample (n, d), the distribution it came from, and the exact answers at the sample points."""

    context: Tensor
    distribution: Distribution
    truth: Estimate[Tensor]


@dataclass
class Errors:
    """Running sums of errors over data sets."""

    score_error: float = 0.0
    score_square: float = 0.0
    score_mse: float = 0.0
    log_density_mse: float = 0.0
    datasets: int = 0

    def add(self, estimate: Estimate[Tensor], truth: Estimate[Tensor]) -> None:
        """Count one data set in."""
        error = (estimate.score - truth.score).square().sum(-1)
        self.score_error += float(error.sum())
        self.score_square += float(truth.score.square().sum())
        self.score_mse += float(error.mean())
        if estimate.log_density is not None and truth.log_density is not None:
            self.log_density_mse += float((estimate.log_density - truth.log_density).square().mean())
        else:
            self.log_density_mse = float("nan")
        self.datasets += 1

    @property
    def relative_score(self) -> float:
        """Relative score error, pooled."""
        return self.score_error / self.score_square

    @property
    def mean_log_density(self) -> float:
        """Mean squared error of the log density, averaged over data sets."""
        return self.log_density_mse / self.datasets


def prior_datasets(
    prior: Prior, dim: int, size: int, count: int, seed: int, dtype: torch.dtype = torch.float64
) -> Iterator[Dataset]:
    """``count`` data sets, one draw of the prior each."""
    for index in range(count):
        yield _dataset(prior, dim, size, seed + 7919 * index, dtype)


def gmm_datasets(
    dim: int,
    size: int,
    count: int,
    seed: int,
    covariance: Literal["diagonal", "rotated", "either"] = "diagonal",
    modes: Sequence[int] = tuple(range(1, 11)),
    prior: GMMPrior | None = None,
) -> Iterator[Dataset]:
    """The benchmark of the paper: mixtures with k = 1..10 modes in turn and equal weights."""
    base = prior or GMMPrior(covariance=covariance, weights="equal")
    for index in range(count):
        k = modes[index % len(modes)]
        yield _dataset(replace(base, modes=(k, k)), dim, size, seed + 7919 * index, torch.float64)


def measure(methods: Mapping[str, Method], datasets: Iterator[Dataset]) -> dict[str, Errors]:
    """Errors of every method at the sample points of the same data sets."""
    errors = {name: Errors() for name in methods}
    for data in datasets:
        for name, method in methods.items():
            with torch.no_grad():
                errors[name].add(method.fit(data.context).estimate(data.context), data.truth)
    return errors


def _dataset(prior: Prior, dim: int, size: int, seed: int, dtype: torch.dtype) -> Dataset:
    generator = torch.Generator().manual_seed(seed)
    distribution = prior.draw(1, dim, generator, dtype=dtype)
    context = distribution.sample(size, generator)
    truth = distribution.estimate(context)
    assert truth.log_density is not None
    return Dataset(context[0], distribution, Estimate(truth.log_density[0], truth.score[0]))

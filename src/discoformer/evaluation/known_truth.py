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

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate, Method
from discoformer.priors import Distribution, GMMPrior

__all__ = ["Dataset", "Errors", "gmm_datasets", "measure"]


class Dataset(NamedTuple):
    """A sample (n, d), the distribution it came from, and the exact answers at the sample points."""

    context: Tensor
    distribution: Distribution
    truth: Estimate[Tensor]


@dataclass
class Errors:
    """Running sums of errors over data sets, and what tables make of them."""

    score_error: float = 0.0
    score_square: float = 0.0
    score_mse_sum: float = 0.0
    log_density_mse_sum: float = 0.0
    datasets: int = 0

    def add(self, estimate: Estimate[Tensor], truth: Estimate[Tensor]) -> None:
        """Count one data set in."""
        error = (estimate.score - truth.score).square().sum(-1)
        self.score_error += float(error.sum())
        self.score_square += float(truth.score.square().sum())
        self.score_mse_sum += float(error.mean())
        if estimate.log_density is not None and truth.log_density is not None:
            self.log_density_mse_sum += float((estimate.log_density - truth.log_density).square().mean())
        else:
            self.log_density_mse_sum = float("nan")
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
        generator = torch.Generator().manual_seed(seed + 7919 * index)
        distribution = replace(prior, modes=(k, k)).draw(1, dim, generator, dtype=torch.float64)
        context = distribution.sample(size, generator)
        log_density, score = distribution.estimate(context)
        assert log_density is not None  # every distribution knows its density
        yield Dataset(context[0], distribution, Estimate(log_density[0], score[0]))


def measure(methods: Mapping[str, Method], datasets: Iterator[Dataset]) -> dict[str, Errors]:
    """Errors of every method at the sample points of the same data sets."""
    errors = {name: Errors() for name in methods}
    for data in datasets:
        for name, method in methods.items():
            with torch.no_grad():
                errors[name].add(method.fit(data.context).estimate(data.context), data.truth)
    return errors

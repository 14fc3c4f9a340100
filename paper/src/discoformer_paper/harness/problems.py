"""Samples with a known truth, and the error of a method on one of them.

A `Problem` is a kind of data set.  Its data sets are numbered, and number i is the same everywhere:
experiments and benchmarks share them.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Literal, NamedTuple

import torch

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate, Method
from discoformer.evaluation.known_truth import Errors, gmm_datasets
from discoformer.priors import Distribution, Family, GMMPrior, LocationScaleMixture, Normal
from discoformer_paper.harness.contestants import Contestant
from discoformer_paper.harness.jobs import Job
from discoformer_paper.harness.ledger import Rows

__all__ = [
    "ERRORS",
    "KEYS",
    "MODES",
    "SEED",
    "Case",
    "Problem",
    "at_sample",
    "failure",
    "fixed_mixture",
    "functional_seeds",
    "gmm_problem",
    "measure_errors",
    "relative_error",
    "score_jobs",
    "seed_of",
]

SEED = 3_000_000  # of all measurements; validation has 1_000_000 and 2_000_000, training its own seeds
STEP = 7919  # between the seeds of data sets, as in `discoformer.evaluation.known_truth`
MODES = tuple(range(1, 11))
KEYS = ("setting", "d", "n", "seed", "method")
ERRORS = ("score_error", "score_square", "score_mse", "log_density_mse", "seconds")


class Case(NamedTuple):
    """A sample (n, d), the points to answer at (m, d), and the exact answers there."""

    context: torch.Tensor
    queries: torch.Tensor
    truth: Estimate[torch.Tensor]


class Problem(NamedTuple):
    """A kind of data set: its name, shape, and how to draw the one with a given number."""

    name: str
    dim: int
    size: int
    draw: Callable[[int], Case]

    def __str__(self) -> str:
        return f"{self.name} d={self.dim} n={self.size}"


def seed_of(index: int) -> int:
    """Seed of the data set with this number."""
    return SEED + STEP * index


def functional_seeds(count: int) -> range:
    """Seeds of the experiments on functionals, SD-KDE and score matching."""
    return range(5_000_000, 5_000_000 + count)


def fixed_mixture(
    weights: Sequence[float],
    means: Sequence[Sequence[float]],
    std: Sequence[Sequence[float]],
    family: Family | None = None,
) -> LocationScaleMixture:
    """A mixture of given components, of Gaussians unless another family is given.

    >>> fixed_mixture([1.0], [[0.0, 2.0]], [[1.0, 1.0]]).score(torch.zeros(1, 2).double()).tolist()
    [[0.0, 2.0]]
    """
    w, m, s = (torch.tensor(values, dtype=torch.float64) for values in (weights, means, std))
    return LocationScaleMixture(w, m, s, family=family or Normal())


def at_sample(law: Distribution, sample: torch.Tensor, rows: int | None = None) -> Case:
    """The problem at the sample points (n, d), or at the first few of them: their order is random."""
    return Case(sample, sample[:rows], law.estimate(sample[:rows]))


def gmm_problem(
    covariance: Literal["diagonal", "rotated", "either"],
    dim: int,
    size: int,
    *,
    modes: Sequence[int] = MODES,
    reading: Literal["std", "variance"] = "std",
    rows: int | None = None,
    fresh: int | None = None,
) -> Problem:
    """Random Gaussian mixtures that cycle through ``modes``; answers at the sample or at fresh points.

    >>> problem = gmm_problem("diagonal", 2, 50, modes=(3,), fresh=10)
    >>> problem.name, problem.draw(0).queries.shape
    ('diagonal k=3 at 10 fresh', torch.Size([10, 2]))
    """
    prior = GMMPrior(covariance=covariance, reading=reading, weights="equal")

    @lru_cache(maxsize=1)  # the methods are measured in turn on one data set
    def draw(index: int) -> Case:
        seed = seed_of(index)
        mode = modes[index % len(modes)]
        data = next(gmm_datasets(dim, size, 1, seed, modes=(mode,), prior=prior))
        points = data.context[None, :rows]
        if fresh is not None:
            points = data.distribution.sample(fresh, torch.Generator().manual_seed(seed + 1))
        log_density, score = data.distribution.estimate(points)
        return Case(data.context, points[0], Estimate(log_density[0], score[0]))

    name: str = covariance if reading == "std" else f"{covariance} {reading}"
    name += "" if tuple(modes) == MODES else f" k={','.join(map(str, modes))}"
    name += "" if rows is None else f" at {rows}"
    name += "" if fresh is None else f" at {fresh} fresh"
    return Problem(name, dim, size, draw)


def measure_errors(method: Method, case: Case, label: str) -> dict[str, float]:
    """Errors of one fit, by the names of `ERRORS`; those of a `failure` if it cannot be fitted."""
    errors, start = Errors(), time.perf_counter()
    try:
        with torch.no_grad():
            errors.add(method.fit(case.context), case.queries, case.truth)
    except DataError as error:
        return failure(case, label, error)
    seconds = time.perf_counter() - start
    return {name: getattr(errors, name) for name in ERRORS[:-1]} | {"seconds": seconds}


def failure(case: Case, label: str, error: DataError) -> dict[str, float]:
    """Infinite errors, and a line that says why.

    Not NaN, which means "not measured" and leaves a claim open; a failed fit must count against it.
    """
    print(f"{label}: failed: {error}", file=sys.stderr)
    square = float(case.truth.score.square().sum())  # finite, so that ratios are infinite too
    return dict.fromkeys(ERRORS, math.inf) | {"score_square": square}


def score_jobs(
    problem: Problem, contestants: Iterable[Contestant], indices: Iterable[int], *more: object
) -> Iterator[Job]:
    """The errors of every contestant on these data sets; keys as in `KEYS`, and ``more``."""
    contestants = list(contestants)
    for index in indices:
        for contestant in contestants:
            key = (problem.name, problem.dim, problem.size, seed_of(index), contestant.identity, *more)
            yield Job.single(key, partial(_errors, problem, index, contestant))


def _errors(problem: Problem, index: int, contestant: Contestant) -> dict[str, float]:
    return measure_errors(contestant.method, problem.draw(index), f"{contestant.label}, {problem}")


def relative_error(rows: Rows) -> float:
    """Relative squared error of the score, pooled over data sets; NaN without rows."""
    return rows.ratio("score_error", "score_square")

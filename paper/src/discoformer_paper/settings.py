"""Data sets with a known truth, and the error of a method on one of them.

A `Setting` is a kind of data set; its data sets are numbered, and number i is the same everywhere: the
experiments and the benchmarks measure on the same ones.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import torch

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate, Method
from discoformer.evaluation.known_truth import Dataset, Errors, gmm_datasets
from discoformer.priors import GMMPrior
from discoformer_paper.contestants import Contestant
from discoformer_paper.harness import Job
from discoformer_paper.ledger import Rows

__all__ = [
    "ERRORS",
    "KEYS",
    "MODES",
    "SEED",
    "STEP",
    "Case",
    "Setting",
    "at_sample",
    "gmm_setting",
    "measure_errors",
    "relative_error",
    "score_jobs",
    "seed_of",
]

SEED = 3_000_000  # of all tests; training draws its own, validation has 1_000_000 and 2_000_000
STEP = 7919  # between the seeds of data sets, as in `discoformer.evaluation.known_truth`
MODES = tuple(range(1, 11))
KEYS = ("setting", "d", "n", "seed", "method")
ERRORS = ("score_error", "score_square", "score_mse", "log_density_mse", "seconds")


class Case(NamedTuple):
    """A sample (n, d), the points to answer at (m, d), and the exact answers there."""

    context: torch.Tensor
    queries: torch.Tensor
    truth: Estimate[torch.Tensor]


class Setting(NamedTuple):
    """A kind of data set: its name, shape, and how to draw the one with a given index."""

    name: str
    dim: int
    size: int
    draw: Callable[[int], Case]


def seed_of(index: int) -> int:
    """Seed of the data set with this index."""
    return SEED + STEP * index


def at_sample(data: Dataset, rows: int | None = None) -> Case:
    """Answer at the sample points, or at the first few of them (the order of a sample is random)."""
    log_density, score = data.truth
    assert log_density is not None  # every distribution knows its density
    return Case(data.context, data.context[:rows], Estimate(log_density[:rows], score[:rows]))


def gmm_setting(
    covariance: Literal["diagonal", "rotated", "either"],
    dim: int,
    size: int,
    *,
    modes: Sequence[int] = MODES,
    reading: Literal["std", "variance"] = "std",
    rows: int | None = None,
    fresh: int | None = None,
) -> Setting:
    """Random Gaussian mixtures, the numbers of modes in turn; answers at the sample or at fresh points.

    >>> setting = gmm_setting("diagonal", 2, 50, modes=(3,), fresh=10)
    >>> setting.name, setting.draw(0).queries.shape
    ('diagonal k=3 at 10 fresh', torch.Size([10, 2]))
    """
    prior = GMMPrior(covariance=covariance, reading=reading, weights="equal")

    @lru_cache(maxsize=1)  # all methods in turn are measured on one data set
    def draw(index: int) -> Case:
        seed = seed_of(index)
        mode = modes[index % len(modes)]
        data = next(gmm_datasets(dim, size, 1, seed, modes=(mode,), prior=prior))
        if fresh is None:
            return at_sample(data, rows)
        queries = data.distribution.sample(fresh, torch.Generator().manual_seed(seed + 1))
        log_density, score = data.distribution.estimate(queries)
        assert log_density is not None  # every distribution knows its density
        return Case(data.context, queries[0], Estimate(log_density[0], score[0]))

    name: str = covariance if reading == "std" else f"{covariance} {reading}"
    name += "" if tuple(modes) == MODES else f" k={','.join(map(str, modes))}"
    name += "" if rows is None else f" at {rows}"
    name += "" if fresh is None else f" at {fresh} fresh"
    return Setting(name, dim, size, draw)


def measure_errors(method: Method, case: Case, label: str) -> dict[str, float]:
    """Errors of one fit, by the names of `ERRORS`; if there is none, those of a `failure`."""
    start = time.perf_counter()
    try:
        with torch.no_grad():
            estimate = method.fit(case.context).estimate(case.queries)
    except DataError as error:
        return failure(case, label, error)
    seconds = time.perf_counter() - start
    errors = Errors()
    errors.add(estimate, case.truth)
    return {
        "score_error": errors.score_error,
        "score_square": errors.score_square,
        "score_mse": errors.score_mse,
        "log_density_mse": errors.log_density_mse,
        "seconds": seconds,
    }


def failure(case: Case, label: str, error: DataError) -> dict[str, float]:
    """Infinite errors, and a line that says why.

    Not NaN: that is what was not measured, and leaves a claim open, where a failed fit must not.
    """
    print(f"{label}: failed: {error}", file=sys.stderr)
    square = float(case.truth.score.square().sum())  # finite, so that ratios are infinite too
    return dict.fromkeys(ERRORS, math.inf) | {"score_square": square}


def score_jobs(
    setting: Setting, contestants: Iterable[Contestant], indices: Iterable[int], *more: object
) -> Iterator[Job]:
    """The errors of every contestant on the data sets of a setting; keys as in `KEYS`, and ``more``."""
    contestants = list(contestants)
    for index in indices:
        for contestant in contestants:
            key = (setting.name, setting.dim, setting.size, seed_of(index), contestant.identity, *more)
            yield Job.single(key, partial(_errors, setting, index, contestant))


def _errors(setting: Setting, index: int, contestant: Contestant) -> dict[str, float]:
    label = f"{contestant.label}, {setting.name} d={setting.dim} n={setting.size}"
    return measure_errors(contestant.method, setting.draw(index), label)


def relative_error(rows: Rows, **fixed: Any) -> float:
    """Relative score error, pooled over data sets; NaN without rows."""
    found = rows.where(**fixed)
    return found.sum("score_error") / found.sum("score_square") if len(found) else math.nan

"""Do error bars and levels hold?  Coverage of 90 % intervals, and the mass of highest-density regions.

    python paper/benchmarks/error_bars.py                                  # the head, and levels: 12 minutes
    python paper/benchmarks/error_bars.py --sources bootstrap --sizes 256 1024   # 24 more fits each

*Bars*: intervals of 1.645 standard deviations (`DiScoFormer.estimate` with ``std``) around log density and
score, at 256 rows of the sample, on Gaussian mixtures (diagonal covariances, 1 to 10 modes in turn) in
d = 1, 2, 5, 10 for n from 2^8 to 2^14 and on the families of families.py: the share that holds the truth, the
factor that would make it 90 %, the mean width, and the time of an answer with bars over one without, the fit
included.  *Levels*: share of rows that the fit has not seen inside the regions of 50, 90 and 99 %: fresh
draws of the families, fitted with 2048 rows; rows of real tables, a quarter held out, over four folds.
Tables results/error_bars.csv and results/levels.csv.  Bars: coverage of 87 to 93 % (log density) and 85 to
95 % (score) on mixtures, 80 % at least on families; four times the rows make bars narrower by 1.4 at least;
time of the head 1.2 at most; levels to one point, on real tables 90 +- 2.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from families import FAMILIES, problem
from numpy.typing import NDArray

from discoformer import DiScoFormer
from discoformer.api.error_bars import BarSource
from discoformer.data.datasets import REAL, real_dataset
from discoformer_paper.harness.benchmark import Session, benchmark
from discoformer_paper.harness.problems import Problem, gmm_problem, seed_of
from discoformer_paper.harness.terminal import track

NINETY, ASKED = 1.6449, 256
SHARES, FOLDS, FRESH = (0.5, 0.9, 0.99), 4, 8192


class Measured(NamedTuple):
    """Errors over their bars, of log density and of score, the mean bar of the log density, and the time."""

    density: NDArray[Any]
    score: NDArray[Any]
    width: float
    time: float
    sets: int

    def chance(self, part: NDArray[Any]) -> float:
        """Standard error of a coverage, over data sets."""
        covered = (part < NINETY).reshape(self.sets, -1).mean(1)
        return float(covered.std() / np.sqrt(max(1, self.sets - 1)))


def ratios(model: Any, source: BarSource, case: Problem, indices: Sequence[int]) -> Measured:
    """Over data sets; the time is that of a fit and an answer with bars over that without."""
    density, score, widths, plain, barred = [], [], [], 0.0, 0.0
    for index in track(indices, f"{source}, {case}"):
        context, queries, truth = case.draw(index)
        rows = queries[:ASKED].double().numpy()
        start = time.perf_counter()
        est = DiScoFormer(model=model).fit(context.double().numpy())
        fitted = time.perf_counter()
        est.estimate(rows)
        answered = time.perf_counter()
        answer = est.estimate(rows, std=source)
        plain += answered - start
        barred += time.perf_counter() - answered + fitted - start
        off = np.abs(answer.log_density - truth.log_density[:ASKED].numpy())
        density.append(off / answer.log_density_std)
        score.append((np.abs(answer.score - truth.score[:ASKED].numpy()) / answer.score_std).ravel())
        widths.append(answer.log_density_std.mean())
    width = float(np.mean(widths))
    return Measured(np.concatenate(density), np.concatenate(score), width, barred / plain, len(indices))


def bars(run: Session, sources: Sequence[BarSource], cases: Sequence[Problem]) -> None:
    """A line a source and a problem."""
    rows = []
    for source in sources:
        widths: dict[tuple[str, int], tuple[int, float]] = {}
        for case in cases:
            found = ratios(run.model, source, case, list(run.indices))
            covers = [100 * float(np.mean(part < NINETY)) for part in (found.density, found.score)]
            factors = [float(np.quantile(part, 0.9)) / NINETY for part in (found.density, found.score)]
            mixture = case.name not in FAMILIES
            for what, cover, low in (("log density", covers[0], 87.0), ("score", covers[1], 85.0)):
                run.bar(f"{source}, {case}, {what} covered %", cover, low if mixture else 80.0, below=False)
            if mixture:
                run.bar(f"{source}, {case}, log density covered %", covers[0], 93.0)
                run.bar(f"{source}, {case}, score covered %", covers[1], 95.0)
                size, before = widths.get((case.name, case.dim), (0, 0.0))
                if case.size == 4 * size:
                    run.bar(f"{source}, {case}, narrower by", before / found.width, 1.4, below=False)
                widths[case.name, case.dim] = case.size, found.width
            if source == "head":
                run.bar(f"{source}, {case}, time over a plain answer", found.time, 1.2)
            cells = [*(f"{value:.1f}" for value in covers), *(f"{value:.2f}" for value in factors)]
            cells += [f"{found.width:.4f}", f"{found.time:.2f}"]
            cells[2:2] = [f"{100 * found.chance(part):.1f}" for part in (found.density, found.score)]
            rows.append([source, case.name, case.dim, case.size, *cells])
    header = ["source", "data", "d", "n", "log density %", "score %", "+- log density", "+- score"]
    header += ["its factor", "score factor"]
    run.finish("error_bars", [*header, "mean std", "time"], rows)


def inside(model: Any, rows: NDArray[np.float64], fresh: NDArray[np.float64]) -> list[float]:
    """Shares (%) of fresh rows in the regions of a fit."""
    level = DiScoFormer(model=model).fit(rows).level(fresh)
    return [100 * float(np.mean(level >= 1 - share)) for share in SHARES]


def masses(run: Session, families: Sequence[str], size: int, tables: Sequence[str]) -> None:
    """A line a family and a table."""
    rows = []
    for name in families:
        found = []
        for index in track(list(run.indices), name):
            sample = problem(name, size).draw(index).context.double()
            fresh = FAMILIES[name].sample(FRESH, torch.Generator().manual_seed(seed_of(index) + 1))
            found.append(inside(run.model, sample.numpy(), fresh.double().numpy()))
        means = np.mean(found, 0)
        for share, value in zip(SHARES, means, strict=True):
            run.bar(f"{name}, {share:.0%} region off by", abs(value - 100 * share), 1.0)
        rows.append([name, size, *(f"{value:.2f}" for value in means)])
    for name in tables:
        values = real_dataset(name).values
        values = values[np.random.default_rng(0).permutation(len(values))]
        held = [np.arange(len(values)) % FOLDS == fold for fold in range(FOLDS)]
        means = np.mean([inside(run.model, values[~part], values[part]) for part in held], 0)
        run.bar(f"{name}, 90% region off by", abs(means[1] - 90), 2.0)
        rows.append([name, len(values), *(f"{value:.2f}" for value in means)])
    run.finish("levels", ["data", "n", *(f"in {share:.0%}" for share in SHARES)], rows)


@benchmark(
    __doc__,
    datasets=30,  # errors of one data set go together: its coverage varies by 5 to 12 points
    options={
        "--dims": {"nargs": "+", "type": int, "default": [1, 2, 5, 10]},
        "--sizes": {"nargs": "+", "type": int, "default": [256, 1024, 4096, 16384]},
        "--sources": {"nargs": "+", "choices": get_args(BarSource), "default": ["head"]},
        "--only": {"choices": ["bars", "levels"], "help": "one of the two tables"},
    },
)
@torch.no_grad()
def main(run: Session, args: Namespace) -> None:
    sizes = [64] if args.quick else args.sizes
    families = list(FAMILIES)[:1] if args.quick else list(FAMILIES)
    cases = [gmm_problem("diagonal", dim, size) for dim in args.dims for size in sizes]
    cases += [problem(name, 64 if args.quick else 2048) for name in families]
    if args.only != "levels":
        bars(run, args.sources, cases)
    if args.only != "bars":
        masses(run, families, 64 if args.quick else 2048, REAL[:1] if args.quick else REAL)


if __name__ == "__main__":
    raise SystemExit(main())

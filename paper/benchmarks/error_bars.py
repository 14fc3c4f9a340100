"""Do error bars and levels hold?  Coverage of 90 % intervals, and the mass of highest-density regions.

*Bars*: intervals of 1.645 standard deviations (`discoformer.functionals.bootstrap`) around log density and
score, at 256 rows of the sample, on Gaussian mixtures (diagonal covariances, 1 to 10 modes in turn) in
d = 1, 2, 5, 10 for n from 2^8 to 2^14 and on the families of families.py: the share that holds the truth, the
mean width, and the factor that would make it 90 %.  *Levels*: three quarters of a sample are fitted; share of
the other rows inside the regions of 50, 90 and 99 %, for the families, and for real tables, over four folds.
Tables results/error_bars.csv and results/levels.csv.  Bars: coverage of 87 to 93 % (log density) and 85 to
95 % (score) on mixtures, 80 % at least on families; levels to one point, on real tables 90 +- 2.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from families import FAMILIES, problem
from numpy.typing import NDArray

from discoformer import DiScoFormer
from discoformer.data.datasets import REAL, real_dataset
from discoformer_paper.harness.benchmark import Session, benchmark
from discoformer_paper.harness.problems import Problem, gmm_problem
from discoformer_paper.harness.terminal import track

NINETY, ASKED = 1.6449, 256
SHARES, FOLDS = (0.5, 0.9, 0.99), 4


def ratios(model: Any, case: Problem, indices: Sequence[int]) -> tuple[NDArray[Any], NDArray[Any], float]:
    """Errors over their bars, of log density and of score, and the mean bar of the log density."""
    found: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for index in track(indices, str(case)):
        context, queries, truth = case.draw(index)
        est = DiScoFormer(model=model).fit(context.double().numpy())
        answer = est.estimate(queries[:ASKED].double().numpy(), std=True)
        off = answer.log_density - truth.log_density[:ASKED].numpy()
        found[0].append(np.abs(off) / answer.log_density_std)
        found[1].append((np.abs(answer.score - truth.score[:ASKED].numpy()) / answer.score_std).ravel())
        found[2].append(answer.log_density_std.mean())
    return np.concatenate(found[0]), np.concatenate(found[1]), float(np.mean(found[2]))


def bars(run: Session, cases: Sequence[Problem]) -> None:
    """A line a problem."""
    rows = []
    for case in cases:
        density, score, width = ratios(run.model, case, list(run.indices))
        covers = [100 * float(np.mean(part < NINETY)) for part in (density, score)]
        factors = [float(np.quantile(part, 0.9)) / NINETY for part in (density, score)]
        mixture = case.name not in FAMILIES
        for what, cover, low in (("log density", covers[0], 87.0), ("score", covers[1], 85.0)):
            run.bar(f"{case}, {what} covered %", cover, low if mixture else 80.0, below=False)
        if mixture:
            run.bar(f"{case}, log density covered %", covers[0], 93.0)
            run.bar(f"{case}, score covered %", covers[1], 95.0)
        cells = [*(f"{value:.1f}" for value in covers), *(f"{value:.2f}" for value in factors)]
        rows.append([case.name, case.dim, case.size, *cells, f"{width:.4f}"])
    header = ["data", "d", "n", "log density %", "score %", "its factor", "score factor", "mean std"]
    run.finish("error_bars", header, rows)


def inside(model: Any, rows: NDArray[np.float64], fold: int) -> list[float]:
    """Shares (%) of the rows of a fold in the regions of a fit to the others."""
    held = np.arange(len(rows)) % FOLDS == fold
    level = DiScoFormer(model=model).fit(rows[~held]).level(rows[held])
    return [100 * float(np.mean(level >= 1 - share)) for share in SHARES]


def masses(run: Session, families: Sequence[str], size: int, tables: Sequence[str]) -> None:
    """A line a family and a table."""
    rows = []
    for name in families:
        cases = [problem(name, size).draw(index).context.double().numpy() for index in run.indices]
        found = np.mean([inside(run.model, case, 0) for case in track(cases, name)], 0)
        for share, value in zip(SHARES, found, strict=True):
            run.bar(f"{name}, {share:.0%} region off by", abs(value - 100 * share), 1.0)
        rows.append([name, size, *(f"{value:.2f}" for value in found)])
    for name in tables:
        values = real_dataset(name).values
        values = values[np.random.default_rng(0).permutation(len(values))]
        found = np.mean([inside(run.model, values, fold) for fold in range(FOLDS)], 0)
        run.bar(f"{name}, 90% region off by", abs(found[1] - 90), 2.0)
        rows.append([name, len(values), *(f"{value:.2f}" for value in found)])
    run.finish("levels", ["data", "n", *(f"in {share:.0%}" for share in SHARES)], rows)


@benchmark(
    __doc__,
    datasets=10,
    options={
        "--dims": {"nargs": "+", "type": int, "default": [1, 2, 5, 10]},
        "--sizes": {"nargs": "+", "type": int, "default": [256, 1024, 4096, 16384]},
    },
)
@torch.no_grad()
def main(run: Session, args: Namespace) -> None:
    sizes = [64] if args.quick else args.sizes
    families = list(FAMILIES)[:1] if args.quick else list(FAMILIES)
    cases = [gmm_problem("diagonal", dim, size) for dim in args.dims for size in sizes]
    cases += [problem(name, 64 if args.quick else 2048) for name in families]
    bars(run, cases)
    masses(run, families, 64 if args.quick else 2730, REAL[:1] if args.quick else REAL)


if __name__ == "__main__":
    raise SystemExit(main())

"""Leave-one-out in closed form against ten folds, on the real tables of `tables.py`.

Both are log densities of every row by a fit that has not seen it; a fold misses a tenth of the rows besides.
"below" is how much less ten folds say than leave-one-out on the mean, "rank" the rank correlation over rows,
"seen" the mean in the sample itself.

`--calibrate` makes no table: on draws of the priors that the network was trained on, with seeds of
validation, it prints what ten folds take off beyond leave-one-out of the views (without
`UnifiedConfig.unseen`), as a share of what leave-one-out takes off.

Bars: at most .1 nats apart for n >= 200, .03 for n >= 2000; rank correlation at least .98.
"""

from __future__ import annotations

import warnings
from argparse import Namespace
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from number_tables import NAMES, number_table
from torch import Tensor

from discoformer.core.composed import Blend
from discoformer.core.fields import as_density
from discoformer.evaluation.known_truth import prior_datasets
from discoformer.functionals.splits import Rows, at_own_sample, log_density_of
from discoformer.priors import BroadPrior, TablePrior
from discoformer_paper.harness.benchmark import Session, benchmark

FOLDS = 10
LARGE = 2000
CLOSE, CLOSE_LARGE, RANK = 0.1, 0.03, 0.98
SHAPES = ((2, 200), (5, 200), (10, 300), (3, 500), (8, 500), (4, 1000), (2, 2000), (6, 2000))
VALIDATION = 1_000_000
VALUES = ("n", "d", "seen", "left_out", "folds", "rank")


@torch.no_grad()
def compare(run: Session, points: Tensor, unseen: float | None = None) -> dict[str, float]:
    """What the three say of a sample (n, d); leave-one-out with another share of what is unseen, if asked."""
    from scipy.stats import spearmanr

    rows = Rows(points)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        density = as_density(rows.fit(run.ours.method))
        if unseen is not None and isinstance(density, Blend):
            density = replace(density, unseen=unseen)
        seen, left_out = density.log_density(rows.points), density.left_out(rows.points)
        folds = at_own_sample(rows, run.ours.method, log_density_of, "folds", FOLDS)[0]
    rank = float(spearmanr(left_out.numpy(), folds.numpy()).statistic)
    means = [float(values.mean()) for values in (seen, left_out, folds)]
    return dict(zip(VALUES, (*rows.points.shape, *means, rank), strict=True))


def table(run: Session, names: list[str]) -> None:
    """One line per table."""
    ledger = run.runs("loo_folds", ("table",), VALUES)
    rows = []
    for name in names:
        points = torch.from_numpy(number_table(name))
        found = ledger.recall((name, run.ours.identity), partial(compare, run, points))
        apart = abs(found["left_out"] - found["folds"])
        bound = CLOSE_LARGE if found["n"] >= LARGE else CLOSE
        met = run.bar(f"{name}, apart", apart, bound)
        ranked = run.bar(f"{name}, rank correlation", found["rank"], RANK, below=False)
        cells = [f"{found[value]:.3f}" for value in ("seen", "left_out", "folds")]
        below = f"{found['left_out'] - found['folds']:.3f}"
        rows.append([name, *(int(found[v]) for v in "nd"), *cells, below, bound, met, f"{found['rank']:.4f}"])
        rows[-1].append(ranked)
    header = ["table", "n", "d", "seen", "left out", "ten folds", "below", "bound", "bar", "rank", "bar rank"]
    run.finish("loo_folds", header, rows)
    print(f"mean apart {np.mean([abs(float(row[6])) for row in rows]):.3f}")


def calibrate(run: Session) -> None:
    """The optimism that leave-one-out does not see, as a share of what it sees."""
    shares, sums = [], np.zeros(2)
    for prior in (TablePrior(), BroadPrior()):
        for dim, size in SHAPES:
            for data in prior_datasets(prior, dim, size, 2 if size < 1000 else 1, VALIDATION):
                found = compare(run, data.context, unseen=0.0)
                by_loo, beyond = found["seen"] - found["left_out"], found["left_out"] - found["folds"]
                shares.append(beyond / by_loo)
                sums += by_loo * beyond, by_loo**2
                line = f"{type(prior).__name__} d={dim} n={size}: {by_loo:.3f} nats, {beyond:.3f} beyond"
                print(f"{line}, rank correlation {found['rank']:.4f}", flush=True)
    print(f"share beyond: median {np.median(shares):.2f}, by least squares {sums[0] / sums[1]:.2f}")


TABLES = {"nargs": "+", "choices": NAMES, "default": list(NAMES), "help": "(default: all)"}


@benchmark(__doc__, options={"--tables": TABLES, "--calibrate": {"action": "store_true"}})
def main(run: Session, args: Namespace) -> None:
    run.datasets, run.seed = 1, 0
    if args.calibrate:
        return calibrate(run)
    table(run, ["geyser"] if args.quick else args.tables)


if __name__ == "__main__":
    raise SystemExit(main())

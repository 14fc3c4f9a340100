"""Leave-one-out in closed form against ten folds, on the real tables of `tables.py`.

Both are log densities of every row by a fit that has not seen it; a fold misses a tenth of the rows besides.
"below" is how much less ten folds say than leave-one-out on the mean, "rank" the rank correlation over rows,
"seen" the mean in the sample itself.

`--calibrate` makes no table: on draws of the priors that the network was trained on, with seeds of
validation, it finds `UnifiedConfig.unseen`, the share that explains best what ten folds take off beyond it.

Bars: at most .1 nats apart for n >= 200, .03 for n >= 2000; rank correlation at least .98.
"""

from __future__ import annotations

import warnings
from argparse import Namespace
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from number_tables import NAMES, number_table
from torch import Tensor

from discoformer.core.composed import Blend, less_unseen
from discoformer.core.fields import as_density
from discoformer.evaluation.known_truth import prior_datasets
from discoformer.functionals.splits import Rows, at_own_sample, log_density_of
from discoformer.priors import BroadPrior, TablePrior
from discoformer_paper.harness.benchmark import Session, benchmark

FOLDS = 10
LARGE = 2000
CLOSE, CLOSE_LARGE, RANK = 0.1, 0.03, 0.98
SHAPES = (
    (2, 200),
    (5, 200),
    (6, 200),
    (4, 300),
    (10, 300),
    (12, 400),
    (3, 500),
    (8, 500),
    (4, 1000),
    (2, 2000),
    (6, 2000),
)
VALIDATION = 1_000_000
VALUES = ("n", "d", "seen", "left_out", "folds", "rank")


class Said(NamedTuple):
    """Log densities (n,) of every row: in the sample, left out in closed form, and left out by folds."""

    seen: Tensor
    left_out: Tensor
    folds: Tensor

    @property
    def rank(self) -> float:
        from scipy.stats import spearmanr

        return float(spearmanr(self.left_out.numpy(), self.folds.numpy()).statistic)


@torch.no_grad()
def say(run: Session, rows: Rows, unseen: float | None = None) -> Said:
    """What the three say of a sample; leave-one-out with another share of what is unseen, if asked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        density = as_density(rows.fit(run.ours.method))
        if unseen is not None and isinstance(density, Blend):
            density = replace(density, unseen=unseen)
        seen, left_out = density.log_density(rows.points), density.left_out(rows.points)
        return Said(seen, left_out, at_own_sample(rows, run.ours.method, log_density_of, "folds", FOLDS)[0])


def compare(run: Session, points: Tensor) -> dict[str, float]:
    """The means over a sample (n, d), and the rank correlation."""
    rows = Rows(points)
    said = say(run, rows)
    means = [float(values.mean()) for values in said]
    return dict(zip(VALUES, (*rows.points.shape, *means, said.rank), strict=True))


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
    """The share of unseen optimism that fits draws of the priors best, by least squares."""
    ones, beyonds = [], []
    for prior in (TablePrior(), BroadPrior()):
        for dim, size in SHAPES:
            for data in prior_datasets(prior, dim, size, 4 if size < 1000 else 2, VALIDATION):
                said = say(run, Rows(data.context), unseen=0.0)
                ones.append(float((said.left_out - less_unseen(said.left_out, said.seen, 1.0)).mean()))
                beyonds.append(float((said.left_out - said.folds).mean()))
                gain = float((said.seen - said.left_out).mean())
                line = f"{type(prior).__name__} d={dim} n={size}: {gain:.3f} nats, {beyonds[-1]:.3f} beyond"
                print(f"{line}, rank correlation {said.rank:.4f}", flush=True)
    one, beyond = np.array(ones), np.array(beyonds)
    share = one @ beyond / (one @ one)
    print(f"unseen {share:.2f}; with it {np.abs(beyond - share * one).mean():.3f} nats apart on average")


TABLES = {"nargs": "+", "choices": NAMES, "default": list(NAMES), "help": "(default: all)"}


@benchmark(__doc__, options={"--tables": TABLES, "--calibrate": {"action": "store_true"}})
def main(run: Session, args: Namespace) -> None:
    run.datasets, run.seed = 1, 0
    if args.calibrate:
        return calibrate(run)
    table(run, ["geyser"] if args.quick else args.tables)


if __name__ == "__main__":
    raise SystemExit(main())

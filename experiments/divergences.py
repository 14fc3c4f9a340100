"""Kullback-Leibler divergence and relative Fisher information between random mixtures.

    python experiments/divergences.py
    python experiments/divergences.py --quick

Every seed is a pair of Gaussian mixtures (the paper's prior, equal weights) in d = 2 and d = 5, and n
points of each, n = 128 .. 8192.  The truth is a mean over a million points with the exact densities.
Both divergences are estimated as `discoformer.functionals` does when nothing is said; nearest neighbours
(KL only) come as their literature has them.  Lines go to results/divergences.csv as they are made; the
table is results/divergences_table.csv: mean of |estimate / truth - 1| with its standard error over pairs.
Bar: ours below KDE's at every n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial

import torch
from functional_runs import SEED, average, networks, shown
from particle_runs import Bars, Ledger, make_parser, results_folder, write_rows
from torch import Tensor

from discoformer.baselines.kde import KDE
from discoformer.baselines.neighbours import knn_kl_divergence
from discoformer.fields import Method
from discoformer.functionals import kl_divergence, relative_fisher_information
from discoformer.priors import Distribution, GMMPrior

SIZES = tuple(2**k for k in range(7, 14))
KEYS = ("d", "n", "seed", "oracle")
VALUES = ("kl", "kl_error", "rfi", "rfi_error")
TRUTH_POINTS, BLOCK = 1_000_000, 50_000
Estimator = Callable[[Tensor, Tensor], tuple[float, float]]


def pair(dim: int, seed: int) -> tuple[Distribution, Distribution, torch.Generator]:
    generator = torch.Generator().manual_seed(seed)
    f, g = (GMMPrior(weights="equal").draw(1, dim, generator, dtype=torch.float64) for _ in range(2))
    return f, g, generator


@cache
def truth(dim: int, seed: int, points: int) -> tuple[float, float]:
    """Both divergences of a pair, by Monte Carlo with the exact densities."""
    f, g, generator = pair(dim, seed)
    sums = torch.zeros(2, dtype=torch.float64)
    for _ in range(points // BLOCK):
        x = f.sample(BLOCK, generator)
        log_ratio = f.log_density(x) - g.log_density(x)
        gap = (f.score(x) - g.score(x)).square().sum(-1)
        sums += torch.stack([log_ratio.mean(), gap.mean()]) * BLOCK / points
    return float(sums[0]), float(sums[1])


def by_method(method: Method, x: Tensor, y: Tensor) -> tuple[float, float]:
    kl, rfi = kl_divergence(x, y, method), relative_fisher_information(x, y, method)
    return float(kl.value), float(rfi.value)


def by_neighbours(x: Tensor, y: Tensor) -> tuple[float, float]:
    return float(knn_kl_divergence(x, y).value), math.nan


def measure(estimator: Estimator, dim: int, size: int, seed: int, points: int) -> dict[str, float]:
    f, g, generator = pair(dim, seed)
    generator.manual_seed(seed + size)  # not the points of the truth
    estimates = estimator(f.sample(size, generator)[0], g.sample(size, generator)[0])
    errors = [
        abs(found / exact - 1) for found, exact in zip(estimates, truth(dim, seed, points), strict=True)
    ]
    return dict(zip(VALUES, (estimates[0], errors[0], estimates[1], errors[1]), strict=True))


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser(__doc__)
    parser.set_defaults(seeds=20)
    args = parser.parse_args(argv)
    seeds, sizes, points = (2, (128, 256), BLOCK) if args.quick else (args.seeds, SIZES, TRUTH_POINTS)
    bars = Bars()
    table: dict[tuple[str, ...], list[str]] = {}
    with results_folder(args) as folder:
        ledger = Ledger(folder / "divergences.csv", KEYS, VALUES, fresh=args.model)
        for dim in (2, 5):
            methods = {**networks(args.model, dim), "kde": KDE()}
            estimators: dict[str, Estimator] = {k: partial(by_method, m) for k, m in methods.items()}
            estimators["nearest neighbours"] = by_neighbours
            for size in sizes:
                means: dict[tuple[str, str], tuple[float, float]] = {}
                for oracle, estimator in estimators.items():
                    lines = []
                    for seed in range(SEED, SEED + seeds):
                        key = (dim, size, seed, oracle)
                        line = ledger.get(*key)
                        lines.append(line or ledger.add(key, measure(estimator, dim, size, seed, points)))
                    for what in ("kl", "rfi"):
                        means[oracle, what] = average([line[f"{what}_error"] for line in lines])
                        row = table.setdefault((str(dim), what, oracle), [])
                        row.append(shown(*means[oracle, what]))
                if args.model in estimators:
                    for what in ("kl", "rfi"):
                        ours, kde = means[args.model, what][0], means["kde", what][0]
                        bars.check(f"d={dim} {what} n={size}: error over KDE's", ours / kde, 1.0)
        header = ["d", "functional", "oracle", *(f"n={size}" for size in sizes)]
        write_rows(folder / "divergences_table.csv", header, [[*key, *row] for key, row in table.items()])
    bars.tell()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Evidence where it is known: Gaussian posteriors and Rosenbrock's, in 2, 5 and 10 columns, 4000 draws each.

Gaussians are correlated; Rosenbrock's columns come in pairs, y = x^2 + 0.3 noise.  The posterior is given as
a function (bridge sampling).  Bars, for each law and dimension: at least 90% of the runs within two of their
standard errors, and the mean absolute error below 0.1 nats.  Measurements are kept in
results/evidence_runs.csv as they are made.
"""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from discoformer import evidence
from discoformer.core.fields import Method
from discoformer_paper.harness.benchmark import Session, benchmark
from discoformer_paper.harness.terminal import track

DIMS, ROWS, NOISE = (2, 5, 10), 4000, 0.3
Array = NDArray[np.float64]


def gaussian(dim: int, rng: np.random.Generator, rows: int) -> tuple[Array, Callable[[Array], Array], float]:
    """Draws, log posterior and log evidence."""
    mixing = np.random.default_rng(dim).normal(size=(dim, dim))
    root = np.linalg.cholesky(mixing @ mixing.T + np.eye(dim))

    def log_p(x: Array) -> Array:
        return -0.5 * np.square(np.linalg.solve(root, x.T)).sum(0)

    truth = 0.5 * dim * math.log(2 * math.pi) + float(np.log(np.diag(root)).sum())
    return rng.normal(size=(rows, dim)) @ root.T, log_p, truth


def rosenbrock(
    dim: int, rng: np.random.Generator, rows: int
) -> tuple[Array, Callable[[Array], Array], float]:
    """Draws, log posterior and log evidence; an odd column stands alone."""
    draws = rng.normal(size=(rows, dim))
    draws[:, 1::2] = draws[:, : dim - dim % 2 : 2] ** 2 + NOISE * draws[:, 1::2]

    def log_p(x: Array) -> Array:
        residual = (x[:, 1::2] - x[:, : dim - dim % 2 : 2] ** 2) / NOISE
        return -0.5 * (np.square(x[:, ::2]).sum(-1) + np.square(residual).sum(-1))

    return draws, log_p, 0.5 * dim * math.log(2 * math.pi) + dim // 2 * math.log(NOISE)


LAWS = {"Gaussian": gaussian, "Rosenbrock": rosenbrock}


def measure(method: Method, name: str, dim: int, seed: int) -> dict[str, float]:
    """How far off one answer is, and its standard error."""
    draws, log_p, truth = LAWS[name](dim, np.random.default_rng(seed), ROWS)
    found = evidence(draws, log_p, model=method, seed=seed)
    return {"off": found.log_evidence - truth, "standard_error": found.standard_error}


@benchmark(__doc__, datasets=50)
def main(run: Session, args: Namespace) -> None:
    """One line per law and dimension."""
    ledger = run.runs("evidence", ("law", "d", "n", "seed"), ("off", "standard_error"))
    rows = []
    for name, dim in product(LAWS, DIMS[:1] if args.quick else DIMS):
        found = []
        for seed in track([run.seed + index for index in run.indices], f"{name} d={dim}"):
            key = (name, dim, ROWS, seed, run.ours.identity)
            found.append(ledger.recall(key, partial(measure, run.ours.method, name, dim, seed)))
        off, errors = (np.array([line[what] for line in found]) for what in ("off", "standard_error"))
        covered = float(np.mean(np.abs(off) <= 2 * errors))
        size = float(np.abs(off).mean())
        run.bar(f"{name} d={dim}: share within two standard errors", covered, 0.9, below=False)
        run.bar(f"{name} d={dim}: mean absolute error", size, 0.1)
        numbers = (off.mean(), size, np.abs(off).max(), errors.mean())
        rows.append([name, dim, *(f"{value:.4f}" for value in numbers), f"{covered:.2f}"])
    header = ["law", "d", "bias", "mean |error|", "largest", "standard error", "covered"]
    run.finish("evidence", header, rows)


if __name__ == "__main__":
    raise SystemExit(main())

"""Two samples of one law: are divergences zero, as far as their error bars say?

Ten laws, five pairs of samples of each, through the public functionals with their defaults: arrays go in, the
rest is `kl_divergence(x, y, network)`.  Five laws are continuous, three have counts, two have zeros.

Bars: the Kullback-Leibler and the Jensen-Shannon divergence are each within two standard errors of zero in at
least 45 of the 50 pairs.
"""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from discoformer.functionals import jensen_shannon, kl_divergence
from discoformer_paper.harness.benchmark import Session, benchmark

Sample = NDArray[np.float64]
SIZE, PAIRS, ERRORS, MOST = 500, 5, 2.0, 0.9
DIVERGENCES = {"kl": kl_divergence, "js": jensen_shannon}
VALUES = ("value", "standard_error")


def normal(rng: np.random.Generator, n: int) -> Sample:
    return rng.normal(size=(n, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 1.0]])


def skewed(rng: np.random.Generator, n: int) -> Sample:
    return np.exp(rng.normal(size=(n, 2)))


def clusters(rng: np.random.Generator, n: int) -> Sample:
    centers = np.array([[0.0, 0.0], [4.0, 1.0], [-2.0, 3.0]])
    return 0.5 * rng.normal(size=(n, 2)) + centers[rng.integers(3, size=n)]


def heavy(rng: np.random.Generator, n: int) -> Sample:
    return rng.standard_t(4, size=(n, 4))


def curved(rng: np.random.Generator, n: int) -> Sample:
    x = rng.normal(size=n)
    return np.column_stack([x, x**2 + 0.5 * rng.normal(size=n)])


def count(rng: np.random.Generator, n: int) -> Sample:
    return rng.poisson(4.0, size=(n, 1)).astype(np.float64)


def counts(rng: np.random.Generator, n: int) -> Sample:
    rate = rng.gamma(2.0, 2.0, n)
    return np.column_stack([rng.poisson(rate), rng.poisson(rate + 1), rate + rng.normal(size=n)])


def few_counts(rng: np.random.Generator, n: int) -> Sample:
    rate = rng.gamma(1.0, 1.0, n)
    return np.column_stack([rng.poisson(rate), np.round(20 * rng.beta(2.0, 3.0, n))])


def zeros(rng: np.random.Generator, n: int) -> Sample:
    amount = np.exp(rng.normal(size=n)) * (rng.random(n) < 0.6)
    return np.column_stack([amount, amount + rng.normal(size=n)])


def zeros_and_counts(rng: np.random.Generator, n: int) -> Sample:
    visits = rng.poisson(2.0, n)
    spent = np.where(visits > 0, rng.gamma(1.0 + visits, 3.0), 0.0)
    return np.column_stack([visits, spent, rng.normal(size=n)])


LAWS: dict[str, Callable[[np.random.Generator, int], Sample]] = {
    law.__name__: law
    for law in (
        *(normal, skewed, clusters, heavy, curved),
        *(count, counts, few_counts),
        *(zeros, zeros_and_counts),
    )
}


def divergence(run: Session, law: str, pair: int, which: str, size: int) -> dict[str, float]:
    """A divergence and its standard error."""
    rng = np.random.default_rng([pair, list(LAWS).index(law)])
    x, y = LAWS[law](rng, size), LAWS[law](rng, size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values that cannot be: they are counted
        return dict(zip(VALUES, DIVERGENCES[which](x, y, run.ours.method), strict=True))


def table(run: Session, laws: list[str], size: int) -> None:
    """One line per law: how many pairs are within their error bars, the mean, and the usual error bar."""
    ledger = run.runs("same_law", ("law", "n", "pair", "divergence"), VALUES)
    rows, within = [], dict.fromkeys(DIVERGENCES, 0)
    for law in laws:
        cells: list[object] = [law, size]
        for which in DIVERGENCES:
            found = []
            for pair in range(run.datasets):
                measure = partial(divergence, run, law, pair, which, size)
                key = (law, size, pair, which, run.ours.identity)
                found.append([*ledger.recall(key, measure).values()])
            value, error = np.array(found).T
            near = int((np.abs(value) <= ERRORS * error).sum())
            within[which] += near
            cells += [f"{near} of {len(found)}", f"{value.mean():.4f}", f"{error.mean():.4f}"]
        rows.append(cells)
    header = [name for which in DIVERGENCES for name in (f"{which} within", which, f"{which} error")]
    run.finish("same_law", ["law", "n", *header], rows)
    for which, near in within.items():
        run.bar(
            f"{which}: share of pairs within the error bars",
            near / (len(laws) * run.datasets),
            MOST,
            below=False,
        )


LAWS_OPTION = {"nargs": "+", "choices": list(LAWS), "default": list(LAWS), "help": "(default: all)"}


@benchmark(__doc__, datasets=PAIRS, options={"--laws": LAWS_OPTION})
def main(run: Session, args: Namespace) -> None:
    run.seed = 0
    table(run, ["count", "curved"] if args.quick else args.laws, 100 if args.quick else SIZE)


if __name__ == "__main__":
    raise SystemExit(main())

"""One row far outside: where does it rank among the rows of its sample, by leave-one-out log density?

A standard normal sample of n rows and d columns, whose first row is moved out along all axes until its
distance is so many standard deviations; or whose first three rows are the sentinel -999999, in every column
or in the first one only.
`DiScoFormer().fit(X).loo_log_density_` is the log density of every row under the fit without it.

Bars: the far row ranks first, the three sentinels rank first to third, in every case.
"""

from __future__ import annotations

import math
import warnings
from argparse import Namespace
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from discoformer import DiScoFormer
from discoformer_paper.harness.benchmark import Session, benchmark

DISTANCES = {f"{far:g} deviations": far for far in (10.0, 100.0, 1000.0, 1e5)}
SENTINELS = ("three sentinels", "in one column")
SENTINEL, COPIES = -999999.0, 3
DIMS, SIZES = (1, 2, 5, 10), (200, 1000, 5000)


def worst_rank(model: str, sample: NDArray[np.float64], far: int) -> int:
    """Rank of the last of the first ``far`` rows, from the least likely row on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of values far outside: that is the point
        left_out = DiScoFormer(model=model).fit(sample).loo_log_density_
    return int(np.argsort(np.argsort(left_out))[:far].max()) + 1


def moved(size: int, dim: int, index: int, what: str) -> tuple[NDArray[np.float64], int]:
    """A sample whose first rows, so many, are far outside."""
    sample = np.random.default_rng(index).normal(size=(size, dim))
    if what in DISTANCES:
        sample[0] = DISTANCES[what] / math.sqrt(dim)
        return sample, 1
    sample[:COPIES, : 1 if what == "in one column" else dim] = SENTINEL
    return sample, COPIES


def table(run: Session, dims: Sequence[int], sizes: Sequence[int]) -> None:
    """One line per d and n: the worst rank of all data sets."""
    rows = []
    for dim in dims:
        for size in sizes:
            ranks = []
            for what in (*DISTANCES, *SENTINELS):
                samples = [moved(size, dim, index, what) for index in run.indices]
                found = max(worst_rank(run.model, sample, far) for sample, far in samples)
                run.bar(f"d={dim} n={size}, {what}: rank", found, samples[0][1])
                ranks.append(found)
            rows.append([dim, size, *ranks])
    run.finish("far_rows", ["d", "n", *DISTANCES, *SENTINELS], rows)


DIMS_OPTION = {"--dims": {"type": int, "nargs": "+", "default": DIMS, "help": "numbers of columns"}}


@benchmark(__doc__, datasets=2, options=DIMS_OPTION)
def main(run: Session, args: Namespace) -> None:
    run.seed = 0
    dims = (2,) if args.quick else args.dims
    table(run, dims, (200,) if args.quick else SIZES)


if __name__ == "__main__":
    raise SystemExit(main())

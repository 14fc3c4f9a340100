"""Few rows per column: is whitening by a covariance of so few rows worth it?

Log density of fresh points, in nats below the truth, under the model as it is and under
`Method.for_few_rows` (the same networks on standardized points).  Mixtures of one, two and four Gaussians,
seeds of validation: with rotated covariances, with diagonal ones, and the rotated ones with columns mixed
until they are strongly correlated, as in real tables.  "gain" is what standardizing gains over all three;
its price is that answers no longer follow rotations.
"""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from discoformer.evaluation.known_truth import gmm_datasets
from discoformer_paper.harness.adapters import fit_density
from discoformer_paper.harness.benchmark import Session, benchmark
from discoformer_paper.harness.terminal import track

SEED = 1_000_000  # of validation: a constant that is chosen here must not see the tests
DIMS = (10, 20, 32)
RATIOS = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
MODES = (1, 2, 4)
FAMILIES = ("rotated", "diagonal", "correlated")
CONDITION = 30.0  # largest over least size of the directions of correlated columns
FRESH = 1000


class Case(NamedTuple):
    """A sample (n, d), fresh points (m, d) of the same distribution, and their exact log density (m,)."""

    sample: Tensor
    fresh: Tensor
    truth: Tensor


def cases(family: str, dim: int, size: int, count: int) -> Iterator[Case]:
    """Data sets of a family."""
    covariance: Literal["diagonal", "rotated"] = "diagonal" if family == "diagonal" else "rotated"
    for index, data in enumerate(gmm_datasets(dim, size, count, SEED, covariance=covariance, modes=MODES)):
        generator = torch.Generator().manual_seed(SEED + index)
        fresh = data.distribution.sample(FRESH, generator)
        truth = data.distribution.log_density(fresh)[0]
        if family != "correlated":
            yield Case(data.context, fresh[0], truth)
            continue
        turn = torch.linalg.qr(torch.randn(dim, dim, dtype=fresh.dtype, generator=generator))[0]
        sizes = torch.logspace(0, -math.log10(CONDITION), dim, dtype=fresh.dtype)
        mix = (turn * sizes) @ turn.mT
        yield Case(data.context @ mix, fresh[0] @ mix, truth - sizes.log().sum())


def losses(run: Session, family: str, dim: int, size: int) -> np.ndarray:
    """Mean log density of fresh points below the truth, (datasets, 2): as it is, and for few rows."""
    method = run.ours.method
    methods = (method, method.for_few_rows())
    found = []
    for case in track(list(cases(family, dim, size, run.datasets)), f"{family} d={dim} n={size}"):
        with torch.no_grad():
            answers = [fit_density(method, case.sample).log_density(case.fresh) for method in methods]
        found.append([float((case.truth - answer).mean()) for answer in answers])
    return np.array(found)


def table(run: Session, dims: Sequence[int], ratios: Sequence[float]) -> None:
    """One line per dimension and number of rows per column."""
    rows = []
    for dim in dims:
        for ratio in ratios:
            found = np.stack([losses(run, family, dim, round(ratio * dim)) for family in FAMILIES])
            gain = (found[..., 0] - found[..., 1]).flatten()
            cells = [f"{value:.2f}" for value in found.mean(1).flatten()]
            error = gain.std(ddof=1) / math.sqrt(len(gain))
            rows.append([dim, f"{ratio:g}", *cells, f"{gain.mean():.2f}", f"{error:.2f}"])
    names = [name for family in FAMILIES for name in (family, "few")]
    run.finish("few_rows", ["d", "rows per column", *names, "gain", "+-"], rows)


@benchmark(__doc__, datasets=6)
def main(run: Session, args: Namespace) -> None:
    run.seed = SEED
    if args.quick:
        table(run, [3], [2.0, 4.0])
    else:
        table(run, DIMS, RATIOS)


if __name__ == "__main__":
    raise SystemExit(main())

"""Test-time training of the paper's core: which rate lowers the score error, by n, on validation seeds.

    python paper/benchmarks/adaptation_rates.py                # all of it: hours on one core
    python paper/benchmarks/adaptation_rates.py --sizes 128 512 --datasets 3

The core in the plane takes up to 8 steps on the consistency of its heads, on Laplace and Student-t samples
whose seeds no test uses.  A row holds the mean change of the score error, in percent of that without steps,
over both families; the best rate of each n is the one whose 4 steps, the paper's number, lower it most.  It
goes into `networks.toml`.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

import torch

from discoformer.models.network import Network
from discoformer.training.adapt import adapt_path
from discoformer_paper.experiments.heavy_tails import LOSS_POINTS, SIZES, STEPS, TITLES, problem
from discoformer_paper.harness.benchmark import Session, benchmark
from discoformer_paper.harness.contestants import NETWORKS
from discoformer_paper.harness.ledger import Rows
from discoformer_paper.harness.problems import SEED, STEP, seed_of
from discoformer_paper.harness.terminal import track

RATES = (3e-5, 1e-4, 3e-4, 1e-3)
DECIDING = 4  # steps
ALL_SIZES = sorted({size for sizes in SIZES.values() for size in sizes})
VALIDATION = (2_000_000 - SEED) // STEP  # number of the first data set: seeds about 2,000,000, far from tests


def errors(network: Network, family: str, size: int, index: int, rate: float) -> list[float]:
    """Mean squared errors of the score after each of `STEPS`, over that without any, minus one."""
    case = problem(family, size).draw(index)
    found = []
    options = {"lr": rate, "points": LOSS_POINTS}
    for taken, adapted in enumerate(adapt_path(network, case.context, steps=STEPS[-1], **options)):
        if taken in STEPS:
            with torch.no_grad():
                gap = adapted.fit(case.context).score(case.queries) - case.truth.score
            found.append(float(gap.square().mean()))
    return [error / found[0] - 1 for error in found]


def measure(network: Network, sizes: Sequence[int], indices: Sequence[int]) -> Rows:
    """A row for each family, n, data set, rate and number of steps."""
    asked = [(family, n, i, rate) for n in sizes for family in TITLES for i in indices for rate in RATES]
    return Rows(
        {"n": str(n), "seed": f"{family} {index}", "rate": f"{rate:g}", "steps": str(steps), "change": change}
        for family, n, index, rate in track(asked, "rates")
        for steps, change in zip(STEPS, errors(network, family, n, index, rate), strict=True)
    )


OPTIONS = {"--sizes": {"nargs": "+", "type": int, "default": ALL_SIZES, "help": "n (those of the tables)"}}


@benchmark(__doc__, datasets=5, options=OPTIONS)
def main(run: Session, args: Namespace) -> None:
    model = run.of_model(NETWORKS["core"]["2"] if args.model == "default" else args.model)
    network = model.ours.method
    if not isinstance(network, Network):
        raise SystemExit(f"{args.model}: steps are taken by one network: give one with the attention core")
    sizes = (64,) if args.quick else args.sizes
    rows = measure(network, sizes, range(VALIDATION, VALIDATION + run.datasets))
    lines: list[list[object]] = []
    for size in sizes:
        after = {rate: rows.where(n=size, rate=f"{rate:g}", steps=DECIDING).mean("change") for rate in RATES}
        best = min(after, key=after.__getitem__)
        for rate in RATES:
            at = rows.where(n=size, rate=f"{rate:g}")
            changes = [100 * at.where(steps=steps).mean("change") for steps in STEPS[1:]]
            error = 100 * at.where(steps=DECIDING).standard_error("change")
            mark = "best" if rate == best else ""
            lines.append([size, f"{rate:g}", *(f"{x:+.1f}" for x in changes), f"{error:.1f}", mark])
    header = ["n", "rate", *(f"{steps} steps, %" for steps in STEPS[1:]), f"+- ({DECIDING} steps)", ""]
    model.seed = seed_of(VALIDATION)
    model.finish("adaptation_rates", header, lines)


if __name__ == "__main__":
    raise SystemExit(main())

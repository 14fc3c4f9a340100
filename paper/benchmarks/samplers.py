"""Langevin and Stein sampling by the score of a fit, beside the exact score, on five targets in two columns.

A fit knows no more than its sample: its law is about as far from the target as the sample is.  Of 2000 rows
that is a discrepancy of 0.05, but 200 particles that flow by the exact score come to rest at 0.02.  So the
bars are for fits to 32,000 rows and 100 particles, where what the score and the sampler do can be seen; the
lines for 2000 rows stand beside them, and in the column "sample" the discrepancy of as many exact draws.
Langevin moves are not refused (a score alone), 500 points, the sampler's own step size.  The judge is the
kernel Stein discrepancy by the exact score, with one bandwidth for all.  Of 500 points it varies by a third
from seed to seed, hence twenty of them.  Measurements are kept in results/samplers_runs.csv as they are made.
Bars: on each target, that of the fitted score within 20% of the exact one's.
"""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from itertools import product

import torch

from discoformer.core.fields import Method
from discoformer.priors import Distribution, Ring, gaussian
from discoformer.priors.families import StudentT
from discoformer.priors.location_scale import LocationScaleMixture
from discoformer.priors.warps import Banana, Warped
from discoformer.samplers import kernel_stein_discrepancy, langevin, svgd
from discoformer_paper.harness.adapters import fit_density
from discoformer_paper.harness.benchmark import Session, benchmark
from discoformer_paper.harness.terminal import track

Case = tuple[int, int, int]  # rows of the fit, Stein's particles, steps of both
CASES: tuple[Case, ...] = ((2000, 200, 1000), (32_000, 100, 1000))  # the last is judged
POINTS = 500
WAYS, WHO = ("Langevin", "Stein"), ("exact", "ours")


def _mixture(family: object = None) -> Distribution:
    means = torch.tensor([[-1.5, 0.0], [1.5, 0.5]], dtype=torch.float64)
    std = torch.tensor([[0.8, 0.6], [0.6, 0.9]], dtype=torch.float64)
    weights = torch.full((2,), 0.5, dtype=torch.float64)
    options = {} if family is None else {"family": family}
    return LocationScaleMixture(weights=weights, means=means, std=std, **options)  # type: ignore[arg-type]


def targets() -> dict[str, Distribution]:
    """Five laws in two columns."""
    square = torch.tensor([[1.0, 0.6], [0.6, 1.5]], dtype=torch.float64)
    normal = gaussian(torch.zeros(2, dtype=torch.float64), square)
    return {
        "Gaussian": normal,
        "mixture": _mixture(),
        "Student": _mixture(StudentT(5.0)),
        "banana": Warped(gaussian(torch.zeros(2).double(), torch.eye(2).double()), _banana()),
        "ring": _ring(),
    }


def _banana() -> Banana:
    return Banana(torch.tensor(0.5).double(), torch.tensor(1.0).double())


def _ring() -> Distribution:
    return Ring(torch.tensor(2.0).double(), torch.tensor(0.2).double())


def discrepancies(target: Distribution, method: Method | None, case: Case, seed: int) -> dict[str, float]:
    """Of Langevin's points and of Stein's particles, by the exact score; without a method they follow it."""
    count, particles, steps = case
    generator = torch.Generator().manual_seed(seed)
    sample = target.sample(count, generator).reshape(count, 2)
    score = target if method is None else fit_density(method, sample)
    start = 2 * torch.randn(POINTS, 2, dtype=torch.float64, generator=generator)
    walked = langevin(score.score, start, steps=steps, generator=generator)
    flowed = svgd(score, start[:particles], steps=steps)
    pairs = zip(WAYS, (walked, flowed), strict=True)
    return {way: kernel_stein_discrepancy(points, target, bandwidth=1.0) for way, points in pairs}


def of_sample(target: Distribution, count: int) -> float:
    """Discrepancy of exact draws in the root mean square, the root of E[|s|^2 + d] / n."""
    square = target.score(target.sample(10_000, torch.Generator().manual_seed(0)).reshape(-1, 2)).square()
    return float((square.sum(-1).mean() + 2) / count) ** 0.5


@benchmark(__doc__, datasets=20)
def main(run: Session, args: Namespace) -> None:
    """One line per target and size."""
    ledger = run.runs("samplers", ("target", "n", "particles", "steps", "seed"), WAYS)
    rows = []
    cases = ((500, 10, 50),) if args.quick else CASES
    for (name, target), case in product(targets().items(), cases):
        count, particles, _ = case
        found = []
        for seed in track([run.seed + index for index in run.indices], f"{name}, n={count}"):
            for who, method in (("exact", None), (run.ours.identity, run.ours.method)):
                ask = partial(discrepancies, target, method, case, seed)
                found.append(list(ledger.recall((name, *case, seed, who), ask).values()))
        exact, ours = torch.tensor(found, dtype=torch.float64).reshape(-1, 2, len(WAYS)).mean(0)
        if case == cases[-1]:
            for way, ratio in zip(WAYS, (ours / exact).tolist(), strict=True):
                run.bar(f"{name}, {way}: discrepancy over that of the exact score", ratio, 1.2)
        cells = (of_sample(target, count), exact[0], ours[0], exact[1], ours[1])
        rows.append([name, count, particles, *(f"{value:.4f}" for value in cells)])
    header = ["target", "n", "particles", "sample", *(f"{way} {who}" for way in WAYS for who in WHO)]
    run.finish("samplers", header, rows)


if __name__ == "__main__":
    raise SystemExit(main())

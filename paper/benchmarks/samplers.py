"""Langevin and Stein sampling by the score of a fit, beside the exact score, on five targets in two columns.

The fit is to 2000 points of the target.  Langevin moves are not refused (a score alone), 500 points; Stein
variational gradient descent has 200 particles.  The judge is the kernel Stein discrepancy by the exact score,
with one bandwidth for both.  Bars: on each target, that of the fitted score within 20% of the exact one's.
"""

from __future__ import annotations

from argparse import Namespace

import torch

from discoformer.core.fields import Field
from discoformer.priors import Distribution, Ring, gaussian
from discoformer.priors.families import StudentT
from discoformer.priors.location_scale import LocationScaleMixture
from discoformer.priors.warps import Banana, Warped
from discoformer.samplers import kernel_stein_discrepancy, langevin, svgd
from discoformer_paper.harness.adapters import fit_density
from discoformer_paper.harness.benchmark import Session, benchmark
from discoformer_paper.harness.terminal import track

ROWS, POINTS, PARTICLES = 2000, 500, 200


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


def discrepancies(target: Distribution, score: Field, steps: int, seed: int) -> tuple[float, float]:
    """Of Langevin's points and of Stein's particles, by the exact score."""
    generator = torch.Generator().manual_seed(seed)
    start = 2 * torch.randn(POINTS, 2, dtype=torch.float64, generator=generator)
    walked = langevin(score.score, start, steps=steps, step_size=0.01, generator=generator)
    flowed = svgd(score, start[:PARTICLES], steps=steps)
    return tuple(kernel_stein_discrepancy(points, target, bandwidth=1.0) for points in (walked, flowed))  # type: ignore[return-value]


@benchmark(__doc__, datasets=5)
def main(run: Session, args: Namespace) -> None:
    """One line per target."""
    rows = []
    for name, target in targets().items():
        found = []
        for index in track(list(run.indices), name):
            sample = target.sample(ROWS, torch.Generator().manual_seed(run.seed + index))
            fitted = fit_density(run.ours.method, sample.reshape(ROWS, 2))
            steps = 50 if args.quick else 1000
            found.append([discrepancies(target, field, steps, index) for field in (target, fitted)])
        exact, ours = torch.tensor(found, dtype=torch.float64).mean(0)
        for way, ratio in zip(("Langevin", "Stein"), (ours / exact).tolist(), strict=True):
            run.bar(f"{name}, {way}: discrepancy over that of the exact score", ratio, 1.2)
        rows.append([name, *(f"{value:.4f}" for pair in zip(exact, ours, strict=True) for value in pair)])
    header = ["target", "Langevin exact", "Langevin ours", "Stein exact", "Stein ours"]
    run.finish("samplers", header, rows)


if __name__ == "__main__":
    raise SystemExit(main())

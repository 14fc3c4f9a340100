"""Families that are not Gaussian mixtures: relative score error (%) in the plane, n = 512 and 2048.

    python paper/benchmarks/families.py --model default-gmm    # trained on Gaussian mixtures only

ring      radius 2, log-normal in the radius with relative width 0.15
banana    standard normal, bent: y2 + 2 (y1^2 - 1)
skewed    sinh-arcsinh of a standard normal, strength 0.8 in both columns
box       density proportional to exp(-y1^4 - y2^4)
spiral    two turns up to radius 3, normal width 0.2
laplace   independent Laplace columns of variance one
student   multivariate Student t, three degrees of freedom, identity scale

Bars, for any model: below both kernel densities and below both BIC mixtures, in every row; "best rival" is
the best of these four, "best peer" the best of all, the Bayesian mixture included.  The broad prior of the
default holds bent, skewed, Laplace and Student-t components (as parts of mixtures), but no
rings, boxes and spirals; the prior of Gaussian mixtures holds none of the seven.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from functools import partial

import torch

from discoformer.priors import (
    Banana,
    Distribution,
    Family,
    Laplace,
    LocationScaleMixture,
    Normal,
    Quartic,
    Ring,
    Skew,
    StudentT,
    Warped,
    spiral,
)
from discoformer_paper.harness.benchmark import Session, benchmark, best_rival, percent, ratio
from discoformer_paper.harness.contestants import RIVALS
from discoformer_paper.harness.problems import Case, Problem, at_sample, fixed_mixture, seed_of

SIZES = (512, 2048)
BARRED = ("kde-scott", "kde-loo", "gmm-full", "gmm-diag")


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def standard(family: Family) -> LocationScaleMixture:
    """The family itself, in the plane."""
    return fixed_mixture([1.0], [[0.0, 0.0]], [[1.0, 1.0]], family)


FAMILIES: dict[str, Distribution] = {
    "ring": Ring(tensor(2.0)[0], tensor(0.15)[0]),
    "banana": Warped(standard(Normal()), Banana(tensor(2.0)[0], tensor(1.0)[0])),
    "skewed": Warped(standard(Normal()), Skew(tensor(0.8, 0.8), tensor(1.0, 1.0))),
    "box": standard(Quartic()),
    "spiral": spiral(turns=2.0, radius=3.0, width=0.2),
    "laplace": standard(Laplace()),
    "student": standard(StudentT(3.0)),
}


def problem(name: str, size: int) -> Problem:
    """Samples of a family."""
    return Problem(name, 2, size, partial(_draw, FAMILIES[name], size))


def _draw(law: Distribution, size: int, index: int) -> Case:
    return at_sample(law, law.sample(size, torch.Generator().manual_seed(seed_of(index))))


def table(run: Session, sizes: Sequence[int]) -> None:
    """One row per family and n."""
    rows = []
    for name in FAMILIES:
        for size in sizes:
            errors = run.measure(problem(name, size))
            best, best_of_all = best_rival(errors, BARRED), best_rival(errors)
            value, error = ratio(errors["ours"], errors[best])
            met = run.bar(f"{name} n={size}, over {best}", value, 1.0)
            ours = [best, percent(errors["ours"]), f"{value:.3f}", f"{error:.3f}", met]
            value, error = ratio(errors["ours"], errors[best_of_all])
            shown = [percent(errors[rival]) for rival in RIVALS]
            rows.append([name, size, *shown, *ours, best_of_all, f"{value:.3f}", f"{error:.3f}"])
    ours = ["best rival", "ours", "ratio", "+-", "bar", "best peer", "ratio to best peer", "+- to best peer"]
    run.finish("families", ["family", "n", *RIVALS, *ours], rows)


@benchmark(__doc__, first=True)
def main(run: Session, args: Namespace) -> None:
    table(run, (64,) if args.quick else SIZES)


if __name__ == "__main__":
    raise SystemExit(main())

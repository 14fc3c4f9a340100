"""Families that are not Gaussian mixtures: relative score error (%) in the plane, n = 512 and 2048.

    python benchmarks/families.py                        # the default model
    python benchmarks/families.py --model default-gmm    # the same stack, trained on Gaussian mixtures only
    python benchmarks/families.py --model mixture-gmm    # one network of it
    python benchmarks/families.py --first 20             # on other data sets than the tables'
    python benchmarks/families.py --quick

ring      radius 2, log-normal in the radius with relative width 0.15
banana    standard normal, bent: y2 + 2 (y1^2 - 1)
skewed    sinh-arcsinh of a standard normal, strength 0.8 in both columns
box       density proportional to exp(-y1^4 - y2^4)
spiral    two turns up to radius 3, normal width 0.2
laplace   independent Laplace columns of variance one
student   multivariate Student t, three degrees of freedom, identity scale

Bars, for any model: below both kernel densities and below both BIC mixtures, in every row; "best rival" is
the best of these four.  "best peer" is the best of all, the Bayesian mixture too.  The broad
prior of the default holds bent, skewed, Laplace and Student-t components (as parts of mixtures), but no
rings, boxes and spirals; the prior of Gaussian mixtures holds none of the seven.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from common import (
    SEED,
    STEP,
    Case,
    Session,
    Setting,
    at_sample,
    best_peer,
    make_parser,
    percent,
    ratio,
    session,
)

from discoformer.evaluation.held_out import PEERS
from discoformer.evaluation.known_truth import Dataset
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

SIZES = (512, 2048)
RIVALS = ("kde-scott", "kde-loo", "gmm-full", "gmm-diag")


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def standard(family: Family) -> LocationScaleMixture:
    """The family itself, in the plane."""
    return LocationScaleMixture(tensor(1.0), tensor(0.0, 0.0)[None], tensor(1.0, 1.0)[None], family=family)


FAMILIES: dict[str, Distribution] = {
    "ring": Ring(tensor(2.0)[0], tensor(0.15)[0]),
    "banana": Warped(standard(Normal()), Banana(tensor(2.0)[0], tensor(1.0)[0])),
    "skewed": Warped(standard(Normal()), Skew(tensor(0.8, 0.8), tensor(1.0, 1.0))),
    "box": standard(Quartic()),
    "spiral": spiral(turns=2.0, radius=3.0, width=0.2),
    "laplace": standard(Laplace()),
    "student": standard(StudentT(3.0)),
}


def draw(name: str, size: int, index: int) -> Case:
    distribution = FAMILIES[name]
    context = distribution.sample(size, torch.Generator().manual_seed(SEED + STEP * index))
    return at_sample(Dataset(context, distribution, distribution.estimate(context)))


def table(run: Session, sizes: Sequence[int]) -> None:
    """One row per family and n."""
    rows = []
    for name in FAMILIES:
        for size in sizes:
            errors = run.measure(Setting(name, 2, size, partial(draw, name, size)), list(PEERS))
            cells = [name, str(size), *(percent(errors[peer].relative) for peer in PEERS)]
            if "ours" in errors:
                best = best_peer({peer: errors[peer] for peer in RIVALS})
                value, error = ratio(errors["ours"], errors[best])
                met = run.bar(f"{name} n={size}, over {best}", value, 1.0)
                cells += [best, percent(errors["ours"].relative), f"{value:.3f}", f"{error:.3f}", met]
                best = best_peer(errors)
                value, error = ratio(errors["ours"], errors[best])
                cells += [best, f"{value:.3f}", f"{error:.3f}"]
            print(" ".join(cells), flush=True)
            rows.append(cells)
    ours = ["best rival", "ours", "ratio", "+-", "bar"] if run.model else []
    ours += ["best peer", "ratio to best peer", "+- to best peer"] if run.model else []
    run.finish("families", ["family", "n", *PEERS, *ours], rows)


def main(argv: Sequence[str] | None = None) -> int:
    args = make_parser(__doc__, numbered=True).parse_args(argv)
    with session(args) as run:
        table(run, (64,) if args.quick else SIZES)
        return run.verdict()


if __name__ == "__main__":
    raise SystemExit(main())

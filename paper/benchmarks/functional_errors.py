"""Do intervals of entropy and divergence hold the truth?  Rotated Gaussian mixtures, d = 2 and 5.

The truth is a mean over 200,000 draws of a law.  The divergence, Jensen-Shannon's, is that of one law and the
next.  Two standard errors are compared: that of the mean over rows, and that of the Bayesian bootstrap.
Shares of data sets whose 90% interval holds the truth, and the root mean square of error over standard
error, 1 if that is right.
"""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch.nn.functional import logsigmoid

from discoformer.core.fields import Method
from discoformer.evaluation.known_truth import Dataset, gmm_datasets
from discoformer.functionals import Functional, bootstrapped, entropy, jensen_shannon
from discoformer.priors import Distribution, GMMPrior
from discoformer_paper.harness.benchmark import Session, benchmark
from discoformer_paper.harness.problems import MODES, seed_of
from discoformer_paper.harness.terminal import track

DIMS, SIZES, DRAWS = (2, 5), (256, 1024), 200_000
VALUES = ("off", "terms", "bootstrap")
FUNCTIONALS = {"entropy": entropy, "divergence": jensen_shannon}


def draws(law: Distribution) -> torch.Tensor:
    """Many points (1, n, d) of a law."""
    return law.sample(DRAWS, torch.Generator().manual_seed(0))


def true_entropy(law: Distribution) -> float:
    """-E log f."""
    return -float(law.log_density(draws(law)).mean())


def true_divergence(data: Sequence[Dataset]) -> float:
    """(E_f log f/m + E_g log g/m) / 2, m = (f + g) / 2."""
    laws = [part.distribution for part in data]
    terms = []
    for own, other in (laws, laws[::-1]):
        points = draws(own)
        terms.append(logsigmoid(own.log_density(points) - other.log_density(points)).mean())
    return math.log(2) + float(sum(terms)) / 2


def measure(method: Method, name: str, dim: int, size: int, index: int) -> dict[str, float]:
    """How far off one answer is, and both standard errors."""
    prior = GMMPrior(covariance="rotated", weights="equal")
    data = [
        next(gmm_datasets(dim, size, 1, seed_of(k), modes=(MODES[k % len(MODES)],), prior=prior))
        for k in (index, index + 1)
    ]
    samples = [part.context for part in data[: 1 if name == "entropy" else 2]]
    truth = true_entropy(data[0].distribution) if name == "entropy" else true_divergence(data)
    value, error = FUNCTIONALS[name](*samples, method)
    again: Functional = bootstrapped(FUNCTIONALS[name], *samples, source=method)
    found = (float(value) - truth, float(error), float(again.standard_error))
    return dict(zip(VALUES, found, strict=True))


@benchmark(__doc__, datasets=30, first=True)
def main(run: Session, args: Namespace) -> None:
    """One line per functional, dimension and size."""
    ledger = run.runs("functional_errors", ("functional", "d", "n", "dataset"), VALUES)
    rows = []
    for name in FUNCTIONALS:
        for dim in DIMS[:1] if args.quick else DIMS:
            for size in (64,) if args.quick else SIZES:
                found = []
                for index in track(list(run.indices), f"{name} d={dim} n={size}"):
                    key = (name, dim, size, index, run.ours.identity)
                    ask = partial(measure, run.ours.method, name, dim, size, index)
                    found.append(ledger.recall(key, ask))
                off = np.array([line["off"] for line in found])
                cells = [f"{off.mean():.4f}", f"{np.sqrt(np.square(off).mean()):.4f}"]
                for kind in VALUES[1:]:
                    error = np.array([line[kind] for line in found])
                    held = float(np.mean(np.abs(off) <= 1.645 * error))
                    cells += [
                        f"{error.mean():.4f}",
                        f"{held:.2f}",
                        f"{np.sqrt(np.mean((off / error) ** 2)):.2f}",
                    ]
                rows.append([name, dim, size, *cells])
    kinds = [f"{kind}{what}" for kind in VALUES[1:] for what in (": mean", ": held", ": ratio")]
    run.finish("functional_errors", ["functional", "d", "n", "bias", "rms error", *kinds], rows)


if __name__ == "__main__":
    raise SystemExit(main())

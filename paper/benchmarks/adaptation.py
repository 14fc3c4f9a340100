"""Test-time training: a few steps on the sample itself, without labels, change of the score error.

    python paper/benchmarks/adaptation.py --model mixture   # one of them, or a path to weights

The paper's core takes 4 steps on the consistency of its two heads (`adapt_consistency`), on Laplace and
Student-t samples as in the paper.  A mixture network, whose score is consistent by construction, takes 8
steps on the cross-validated likelihood of the sample (`adapt_likelihood`), on all families of families.py.
Score errors |s_hat - s|^2 are means over the n = 512 points of samples in the plane.  Bar: lower on the
average over the samples.
"""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Sequence

import numpy as np
import torch
from families import FAMILIES, problem

from discoformer.models.mixture.views import Views
from discoformer.models.network import Network
from discoformer.training.adapt import adapt
from discoformer_paper.harness.benchmark import Session, benchmark
from discoformer_paper.harness.problems import Problem
from discoformer_paper.harness.terminal import track

MODELS = ("attention-d2", "default", "default-gmm")
STEPS, USUAL_STEPS = {"attention-d2": 4}, 8
ASKED = {"attention-d2": ("laplace", "student")}  # the families of the paper; all of them for the others


def errors(network: Network, of: Problem, indices: Sequence[int], steps: int) -> np.ndarray:
    """Score errors before and after, (datasets, 2)."""
    lines = []
    for case in map(of.draw, track(indices, str(of))):
        pair = []
        for method in (network, adapt(network, case.context, steps=steps)):
            with torch.no_grad():
                guess = method.fit(case.context).score(case.queries)
            pair.append(float((guess - case.truth.score).square().sum(-1).mean()))
        lines.append(pair)
    return np.array(lines)


def table(run: Session, size: int) -> None:
    """One row per family."""
    label, _, method = run.ours
    network = method.network if isinstance(method, Views) else method
    assert isinstance(network, Network)  # main has seen to it
    steps = STEPS.get(label, USUAL_STEPS)
    rows = []
    for name in ASKED.get(label, FAMILIES):
        found = errors(network, problem(name, size), run.indices, steps)
        before, after = found.mean(0)
        gains = found[:, 1] - found[:, 0]
        error = float(gains.std(ddof=1) / math.sqrt(len(gains)))
        met = run.bar(f"{label}, {name} n={size}, change by {steps} steps", float(gains.mean()), 0.0)
        numbers = (f"{value:.4f}" for value in (before, after, gains.mean(), error))
        rows.append([name, size, steps, *numbers, met])
    run.finish("adaptation", ["family", "n", "steps", "score error", "after", "change", "+-", "bar"], rows)


@benchmark(__doc__, first=True)
def main(run: Session, args: Namespace) -> None:
    for name in MODELS if args.model == "default" else [args.model]:
        one = run.of_model(name)
        if not isinstance(one.ours.method, Network | Views):
            raise SystemExit(f"{name}: steps are taken by a network: give one to --model")
        table(one, 64 if args.quick else 512)


if __name__ == "__main__":
    raise SystemExit(main())

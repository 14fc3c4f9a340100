"""Test-time training: a few steps on the sample itself, without labels, change of the score error.

    python benchmarks/adaptation.py                   # attention-d2, mixture and mixture-gmm
    python benchmarks/adaptation.py --model mixture   # one of them, or a path to weights
    python benchmarks/adaptation.py --first 20        # on other data sets than the tables'
    python benchmarks/adaptation.py --quick

The paper's core takes 4 steps on the consistency of its two heads (`adapt_consistency`), on Laplace and
Student-t samples as in the paper.  A mixture network, whose score is consistent by construction, takes 8
steps on the cross-validated likelihood of the sample (`adapt_likelihood`), on all families of families.py.
Score errors |s_hat - s|^2 are means over the n = 512 points of samples in the plane.  Bar: lower on the
average over the samples.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from common import Session, Setting, make_parser, session
from families import FAMILIES, draw

from discoformer.models.network import Network
from discoformer.training.adapt import adapt
from discoformer.views.terminal import track

MODELS = ("attention-d2", "mixture", "mixture-gmm")
STEPS, USUAL_STEPS = {"attention-d2": 4}, 8
ASKED = {"attention-d2": ("laplace", "student")}  # the families of the paper; all of them for the others


def changes(network: Network, setting: Setting, indices: Sequence[int], steps: int) -> np.ndarray:
    """Score errors before and after, (datasets, 2)."""
    lines = []
    for index in track(indices, f"{setting.name} n={setting.size}"):
        case = setting.draw(index)
        pair = []
        for method in (network, adapt(network, case.context, steps=steps)):
            with torch.no_grad():
                guess = method.fit(case.context).score(case.queries)
            pair.append(float((guess - case.truth.score).square().sum(-1).mean()))
        lines.append(pair)
    return np.array(lines)


def table(run: Session, size: int) -> None:
    """One row per family."""
    assert isinstance(run.model, Network)  # main has seen to it
    steps = STEPS.get(run.label, USUAL_STEPS)
    rows = []
    for name in ASKED.get(run.label, FAMILIES):
        errors = changes(run.model, Setting(name, 2, size, partial(draw, name, size)), run.indices, steps)
        before, after = errors.mean(0)
        gains = errors[:, 1] - errors[:, 0]
        error = float(gains.std(ddof=1) / math.sqrt(len(gains)))
        met = run.bar(f"{run.label}, {name} n={size}, change by {steps} steps", float(gains.mean()), 0.0)
        cells = [name, str(size), str(steps), f"{before:.4f}", f"{after:.4f}"]
        rows.append([*cells, f"{gains.mean():.4f}", f"{error:.4f}", met])
        print(" ".join(rows[-1]), flush=True)
    run.finish("adaptation", ["family", "n", "steps", "score error", "after", "change", "+-", "bar"], rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser(__doc__, numbered=True)
    parser.set_defaults(model=None)
    args = parser.parse_args(argv)
    if args.peers:
        parser.error("peers are not trained on what they are asked about")
    status = 0
    for name in MODELS if args.model is None else [args.model]:
        one = copy.copy(args)
        one.model = name
        with session(one) as run:
            if not isinstance(run.model, Network):
                parser.error(f"{name}: steps are taken by one network, not a stack: give a member to --model")
            table(run, 64 if args.quick else 512)
            status |= run.verdict()
    return status


if __name__ == "__main__":
    raise SystemExit(main())

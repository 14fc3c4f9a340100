"""The paper's core on the paper's benchmark, mixtures with diagonal covariances, against Scott's KDE.

    python benchmarks/attention.py                      # d = 1, 2, 3, 10; n = 256, 1024, 4096
    python benchmarks/attention.py --table adaptation   # test-time training, Laplace and Student-t samples
    python benchmarks/attention.py --quick

Network `attention-d<d>`, relative score error pooled over data sets with 1 to 10 modes in turn, and mean
squared error of the log density, both at the sample points.  Bars: at most 0.35 of the kernel density's
score error in d = 2 (n >= 1024), 0.15 in d = 10 (n = 1024); log-density error below its everywhere.

Adaptation: score error |s_hat - s|^2, mean over n = 512 points in the plane, of the network as it is and
after 4 steps on the consistency of its two heads; bar: lower on the average over the samples.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from common import Session, Setting, gmm_setting, make_parser, percent, ratio, session
from families import draw

from discoformer.adapt import adapt_consistency
from discoformer.models.network import Network

RIVAL = "kde-scott"
DIMS, SIZES = (1, 2, 3, 10), (256, 1024, 4096)
BOUNDS = {(2, 1024): 0.35, (2, 4096): 0.35, (10, 1024): 0.15}
STEPS = 4


def mixtures(run: Session, dim: int, sizes: Sequence[int]) -> None:
    """One row per n."""
    rows = []
    for size in sizes:
        errors = run.measure(gmm_setting("diagonal", dim, size), [RIVAL])
        ours, theirs = errors["ours"], errors[RIVAL]
        value, error = ratio(ours, theirs)
        bound = BOUNDS.get((dim, size))
        met = "" if bound is None else run.bar(f"d={dim} n={size}, score error over {RIVAL}", value, bound)
        density, rival = ours.log_density_mse.mean(), theirs.log_density_mse.mean()
        below = run.bar(f"d={dim} n={size}, log-density error over {RIVAL}", density / rival, 1.0)
        cells = [str(dim), str(size), percent(theirs.relative), percent(ours.relative), f"{value:.3f}"]
        rows.append([*cells, f"{error:.3f}", met, f"{rival:.4f}", f"{density:.4f}", below])
    header = ["d", "n", f"{RIVAL} %", "ours %", "ratio", "+-", "bar", f"{RIVAL} log density", "ours", "bar"]
    run.finish("attention", header, rows)


def adaptation(run: Session, size: int) -> None:
    """One row per family."""
    assert isinstance(run.model, Network)
    rows = []
    for name in ("laplace", "student"):
        setting = Setting(name, 2, size, partial(draw, name, size))
        gains, before = [], []
        for index in range(run.datasets):
            case = setting.draw(index)
            plain, adapted = run.model, adapt_consistency(run.model, case.context, steps=STEPS)
            errors = [
                float(
                    (network.fit(case.context).score(case.queries) - case.truth.score).square().sum(-1).mean()
                )
                for network in (plain, adapted)
            ]
            before.append(errors[0])
            gains.append(errors[1] - errors[0])
        error = float(np.std(gains, ddof=1) / math.sqrt(len(gains)))
        met = run.bar(f"{name} n={size}, change by {STEPS} steps", float(np.mean(gains)), 0.0)
        cells = [name, str(size), f"{np.mean(before):.4f}", f"{np.mean(before) + np.mean(gains):.4f}"]
        rows.append([*cells, f"{np.mean(gains):.4f}", f"{error:.4f}", met])
    header = ["family", "n", "score error", f"after {STEPS} steps", "change", "+-", "bar"]
    run.finish("adaptation", header, rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--table", nargs="+", choices=("mixtures", "adaptation"), default=["mixtures"])
    parser.add_argument("--dims", nargs="+", type=int, default=list(DIMS))
    args = parser.parse_args(argv)
    status = 0
    for dim in args.dims if "mixtures" in args.table else ():
        one = copy.copy(args)
        one.model = f"attention-d{dim}" if args.model == "default" else args.model
        with session(one) as run, torch.no_grad():
            mixtures(run, dim, (64,) if args.quick else SIZES)
            status |= run.verdict()
    if "adaptation" in args.table:
        one = copy.copy(args)
        one.model = "attention-d2" if args.model == "default" else args.model
        with session(one) as run:
            adaptation(run, 64 if args.quick else 512)
            status |= run.verdict()
    return status


if __name__ == "__main__":
    raise SystemExit(main())

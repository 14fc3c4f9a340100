"""The paper's core on the paper's benchmark, mixtures with diagonal covariances, against Scott's KDE.

    python benchmarks/attention.py                      # d = 1, 2, 3, 10; n = 256, 1024, 4096
    python benchmarks/attention.py --dims 2 --model runs/attention-d2/weights.safetensors
    python benchmarks/attention.py --first 20           # on other data sets than the tables'
    python benchmarks/attention.py --quick

Network `attention-d<d>`, relative score error pooled over data sets with 1 to 10 modes in turn, and mean
squared error of the log density, both at the sample points.  Bars: at most 0.35 of the kernel density's
score error in d = 2 (n >= 1024), 0.15 in d = 10 (n = 1024); log-density error below its everywhere.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from common import Session, gmm_setting, make_parser, percent, ratio, session

RIVAL = "kde-scott"
DIMS, SIZES = (1, 2, 3, 10), (256, 1024, 4096)
BOUNDS = {(2, 1024): 0.35, (2, 4096): 0.35, (10, 1024): 0.15}


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


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser(__doc__, numbered=True)
    parser.add_argument("--dims", nargs="+", type=int, default=list(DIMS))
    args = parser.parse_args(argv)
    status = 0
    for dim in args.dims:
        one = copy.copy(args)
        one.model = f"attention-d{dim}" if args.model == "default" else args.model
        with session(one) as run, torch.no_grad():
            mixtures(run, dim, (64,) if args.quick else SIZES)
            status |= run.verdict()
    return status


if __name__ == "__main__":
    raise SystemExit(main())

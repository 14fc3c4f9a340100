"""The paper's core on the paper's benchmark, mixtures with diagonal covariances, against Scott's KDE.

    python paper/benchmarks/attention.py --dims 2 --model runs/attention-d2/weights.safetensors

Network `attention-d<d>`, relative score error pooled over data sets with 1 to 10 modes in turn, and mean
squared error of the log density, both at the sample points.  Bars: at most 0.35 of the kernel density's
score error in d = 2 (n >= 1024), 0.15 in d = 10 (n = 1024); log-density error below its everywhere.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from discoformer_paper.harness.benchmark import Session, benchmark, percent, ratio
from discoformer_paper.harness.contestants import CORE_NAME
from discoformer_paper.harness.problems import gmm_problem

RIVAL = "kde-scott"
DIMS, SIZES = (1, 2, 3, 10), (256, 1024, 4096)
BOUNDS = {(2, 1024): 0.35, (2, 4096): 0.35, (10, 1024): 0.15}


def table(run: Session, dim: int, sizes: Sequence[int]) -> None:
    """One row per n."""
    rows = []
    for size in sizes:
        errors = run.measure(gmm_problem("diagonal", dim, size), [RIVAL])
        ours, theirs = errors["ours"], errors[RIVAL]
        value, error = ratio(ours, theirs)
        bound = BOUNDS.get((dim, size))
        met = "" if bound is None else run.bar(f"d={dim} n={size}, score error over {RIVAL}", value, bound)
        density, rival = ours.mean("log_density_mse"), theirs.mean("log_density_mse")
        below = run.bar(f"d={dim} n={size}, log-density error over {RIVAL}", density / rival, 1.0)
        cells = [dim, size, percent(theirs), percent(ours), f"{value:.3f}", f"{error:.3f}", met]
        rows.append([*cells, f"{rival:.4f}", f"{density:.4f}", below])
    header = ["d", "n", f"{RIVAL} %", "ours %", "ratio", "+-", "bar", f"{RIVAL} log density", "ours", "bar"]
    run.finish("attention", header, rows)


@benchmark(__doc__, first=True, options={"--dims": {"nargs": "+", "type": int, "default": DIMS}})
def main(run: Session, args: Namespace) -> None:
    for dim in args.dims:
        model = f"{CORE_NAME}{dim}" if args.model == "default" else args.model
        table(run.of_model(model), dim, (64,) if args.quick else SIZES)


if __name__ == "__main__":
    raise SystemExit(main())

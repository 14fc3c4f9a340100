"""The paper's core on the paper's benchmark, mixtures with diagonal covariances, against Scott's KDE.

    python paper/benchmarks/attention.py                 # the best core of every dimension
    python paper/benchmarks/attention.py --kind plain    # those without kernels
    python paper/benchmarks/attention.py --dims 2 --model runs/kernel-d2/weights.safetensors

Networks are those of `networks.toml`.  Relative score error pooled over data sets with 1 to 10 modes in turn,
and mean squared error of the log density, both at the sample points.  Bars: the score error over the kernel
density's (the paper's own ratios in d = 2 are .335, .262 and .294 at n = 256, 1024 and 4096); log-density
error below its everywhere.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from discoformer_paper.harness.benchmark import Session, benchmark, percent, ratio
from discoformer_paper.harness.contestants import NETWORKS
from discoformer_paper.harness.problems import gmm_problem

RIVAL = "kde-scott"
DIMS, SIZES = (1, 2, 3, 10), (256, 1024, 4096)
BOUNDS = {  # by kind and dimension, for the three sizes
    ("core", 1): (0.30, 0.18, 0.15),
    ("core", 2): (0.29, 0.18, 0.13),
    ("core", 10): (0.075, 0.022, 0.008),
    ("plain", 2): (0.32, 0.22, 0.20),
}


def table(run: Session, kind: str, dim: int, sizes: Sequence[int]) -> None:
    """One row per n."""
    rows, bounds = [], dict(zip(SIZES, BOUNDS.get((kind, dim), ()), strict=False))
    for size in sizes:
        errors = run.measure(gmm_problem("diagonal", dim, size), [RIVAL])
        ours, theirs = errors["ours"], errors[RIVAL]
        value, error = ratio(ours, theirs)
        bound = bounds.get(size)
        met = "" if bound is None else run.bar(f"d={dim} n={size}, score error over {RIVAL}", value, bound)
        density, rival = ours.mean("log_density_mse"), theirs.mean("log_density_mse")
        below = run.bar(f"d={dim} n={size}, log-density error over {RIVAL}", density / rival, 1.0)
        cells = [dim, size, percent(theirs), percent(ours), f"{value:.3f}", f"{error:.3f}", met]
        rows.append([*cells, f"{rival:.4f}", f"{density:.4f}", below])
    header = ["d", "n", f"{RIVAL} %", "ours %", "ratio", "+-", "bar", f"{RIVAL} log density", "ours", "bar"]
    run.finish("attention", header, rows)


OPTIONS = {
    "--dims": {"nargs": "+", "type": int, "default": DIMS},
    "--kind": {"choices": ("core", "plain"), "default": "core", "help": "of networks.toml (core)"},
}


@benchmark(__doc__, first=True, options=OPTIONS)
def main(run: Session, args: Namespace) -> None:
    for dim in args.dims:
        model = NETWORKS[args.kind].get(str(dim)) if args.model == "default" else args.model
        if model is not None:
            table(run.of_model(model), args.kind, dim, (64,) if args.quick else SIZES)


if __name__ == "__main__":
    raise SystemExit(main())

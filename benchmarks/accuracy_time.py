"""Relative score error against seconds, for every method that gives a score.

    python benchmarks/accuracy_time.py
    python benchmarks/accuracy_time.py --quick

The benchmark of random Gaussian mixtures, k = 1..10 modes in turn, n from 2^8 to 2^14, d = 2 and 10: the
error is pooled over the data sets, the seconds are the mean of fitting and answering at all points, in one
process after a warm-up.  The table is results/accuracy_time.csv, the figure docs/images/accuracy_time.png.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import torch
from common import SEED, make_parser, session
from scaling import ATTENTION, BIC, MIXTURE, MODEL, OURS, available, find, image_folder

from discoformer.evaluation import Errors, gmm_datasets
from discoformer.fields import Method

NAMES = (MODEL, MIXTURE, ATTENTION, OURS, BIC)


def measure(method: Method, dim: int, size: int, datasets: int) -> tuple[float, float]:
    """Relative score error and mean seconds."""
    errors, spent = Errors(), 0.0
    for data in gmm_datasets(dim, size, datasets, SEED):
        start = time.perf_counter()
        estimate = method.fit(data.context).estimate(data.context)
        spent += time.perf_counter() - start
        errors.add(estimate, data.truth)
    return errors.relative_score, spent / datasets


def draw(rows: Sequence[Sequence[str]], dims: Sequence[int], path: Path) -> None:
    """A line a method, a point a size."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5 * len(dims), 4.2), layout="constrained")
    for axis, dim in zip(figure.subplots(1, len(dims), squeeze=False)[0], dims, strict=True):
        for index, name in enumerate(NAMES):
            own = [row for row in rows if row[:2] == [name, str(dim)]]
            if not own:
                continue
            error, spent = ([float(row[place]) for row in own] for place in (3, 4))
            axis.plot(spent, error, "o-", color=f"C{index}", label=name)
            axis.annotate(f"n={own[-1][2]}", (spent[-1], error[-1]), fontsize=7, va="bottom")
        axis.set(title=f"d = {dim}", xlabel="seconds", ylabel="relative score error, %")
        axis.set(xscale="log", yscale="log")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser(__doc__)
    parser.set_defaults(datasets=10)
    args = parser.parse_args(argv)
    if args.peers:
        parser.error("times are compared in one run, so a model is needed")
    dims, sizes = (2, 10), [2**k for k in (8, 10, 12, 14)]
    if args.quick:
        dims, sizes = (2,), [128, 256]
    rows = []
    with session(args) as run, image_folder(quick=args.quick) as images, torch.no_grad():
        for dim in dims:
            for name in NAMES:
                if not available(name, dim):
                    continue
                method = find(name, args.model, dim)
                assert method is not None  # all of these are methods of the spine
                warm = torch.randn(512, dim, dtype=torch.float64)
                method.fit(warm).estimate(warm)
                for size in sizes:
                    error, spent = measure(method, dim, size, run.datasets)
                    rows.append([name, str(dim), str(size), f"{100 * error:.3f}", f"{spent:.4f}"])
                    print(*rows[-1])
        draw(rows, dims, images / "accuracy_time.png")
        run.finish("accuracy_time", ["method", "d", "n", "score error %", "seconds"], rows)
        return run.verdict()


if __name__ == "__main__":
    raise SystemExit(main())

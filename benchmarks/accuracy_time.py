"""Relative score error against seconds, for every method that gives a score.

    python benchmarks/accuracy_time.py
    python benchmarks/accuracy_time.py --quick

The benchmark of random Gaussian mixtures, k = 1..10 modes in turn, n from 2^8 to 2^14, d = 2 and 10: the
error is pooled over the data sets, the seconds are the mean of fitting and answering at all points, in one
process after a warm-up.  The paper's core, which is quadratic in n, stops at the largest n it was trained on.

Measurements are kept in results/accuracy_time_unfinished.csv as they are made, so an interrupted run goes on
where it stopped; the file goes when the table is written: results/accuracy_time.csv, and the figure
docs/images/accuracy_time.png.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from common import SEED, Store, at_sample, make_parser, session
from scaling import ATTENTION, BIC, MIXTURE, MODEL, OURS, available, find, image_folder, unfinished

from discoformer.core.fields import Method
from discoformer.evaluation.known_truth import gmm_datasets
from discoformer_paper.contestants import CORE_SIZE
from discoformer_paper.settings import measure_errors

NAMES = (MODEL, MIXTURE, ATTENTION, OURS, BIC)
KEYS, VALUES = ("model", "threads", "method", "d", "n", "dataset"), ("score_error", "score_square", "seconds")


def measure(
    store: Store, key: Sequence[str], method: Method, dim: int, size: int, datasets: int
) -> tuple[float, float]:
    """Relative score error and mean seconds; what is in the store is not measured again."""
    lines = []
    for index, data in enumerate(gmm_datasets(dim, size, datasets, SEED)):
        own = (*key, dim, size, index)
        line = store.get(*own)
        if line is None:
            line = store.add(own, measure_errors(method, at_sample(data), f"{key[-1]}, n={size} d={dim}"))
        lines.append(line)
    error, square, spent = (sum(line[name] for line in lines) for name in VALUES)
    return error / square, spent / datasets


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
    parser = make_parser(__doc__, datasets=10)
    args = parser.parse_args(argv)
    if args.peers:
        parser.error("times are compared in one run, so a model is needed")
    dims: tuple[int, ...] = (2, 10)
    sizes = [2**k for k in (8, 10, 12, 14)]
    if args.quick:
        dims, sizes = (2,), [128, 256]
    rows = []
    with session(args) as run, image_folder(quick=args.quick) as images, torch.no_grad():
        threads = str(torch.get_num_threads())
        with unfinished(run.results / "accuracy_time_unfinished.csv", KEYS, VALUES) as store:
            for dim in dims:
                for name in filter(partial(available, dim=dim), NAMES):
                    method = find(name, args.model, dim)
                    assert method is not None  # all of these are methods of the spine
                    warm = torch.randn(512, dim, dtype=torch.float64)
                    method.fit(warm).estimate(warm)
                    for size in sizes:
                        if name == ATTENTION and size > CORE_SIZE:
                            continue
                        key = (run.identity, threads, name)
                        error, spent = measure(store, key, method, dim, size, run.datasets)
                        rows.append([name, str(dim), str(size), f"{100 * error:.3f}", f"{spent:.4f}"])
                        print(*rows[-1], flush=True)
            draw(rows, dims, images / "accuracy_time.png")
            run.finish("accuracy_time", ["method", "d", "n", "score error %", "seconds"], rows)
        return run.verdict()


if __name__ == "__main__":
    raise SystemExit(main())

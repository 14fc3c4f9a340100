"""Relative score error against seconds, for every method that gives a score.

The benchmark of random Gaussian mixtures, k = 1..10 modes in turn, n from 2^8 to 2^14, d = 2 and 10: the
error is pooled over the data sets, the seconds are the mean of fitting and answering at all points, in one
process after a warm-up.  The paper's core, which is quadratic in n, stops at the largest n it was trained on.

Measurements are kept in results/accuracy_time_unfinished.csv as they are made, so an interrupted run
continues where it stopped; the file goes when the table is written: results/accuracy_time.csv, and the figure
docs/images/accuracy_time.png.
"""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from pathlib import Path

import torch
from fresh_scaling import ATTENTION, BIC, MIXTURE, MODEL, OURS, find
from scaling import available

from discoformer.core.fields import Method
from discoformer_paper.harness.benchmark import Session, benchmark, unfinished
from discoformer_paper.harness.contestants import CORE_SIZE
from discoformer_paper.harness.figures import finish, panels
from discoformer_paper.harness.jobs import Job
from discoformer_paper.harness.problems import Problem, gmm_problem, measure_errors, relative_error
from discoformer_paper.harness.runner import fill

NAMES = (MODEL, MIXTURE, ATTENTION, OURS, BIC)
KEYS, VALUES = ("model", "threads", "method", "d", "n", "dataset"), ("score_error", "score_square", "seconds")


def errors(method: Method, problem: Problem, index: int, label: str) -> dict[str, float]:
    return measure_errors(method, problem.draw(index), label)


def draw(rows: list[list[str]], dims: tuple[int, ...], path: Path) -> None:
    """A line a method, a point a size."""
    figure, axes = panels(len(dims), width=5.5, height=4.2)
    for axis, dim in zip(axes, dims, strict=True):
        for index, name in enumerate(NAMES):
            own = [row for row in rows if row[:2] == [name, str(dim)]]
            if own:
                spent, error = ([float(row[place]) for row in own] for place in (4, 3))
                axis.plot(spent, error, "o-", color=f"C{index}", label=name)
                axis.annotate(f"n={own[-1][2]}", (spent[-1], error[-1]), fontsize=7, va="bottom")
        axis.set(title=f"d = {dim}", xlabel="seconds", ylabel="relative score error, %")
    finish(figure, axes, log="xy").savefig(path, dpi=120)


@benchmark(__doc__, datasets=10)
@torch.no_grad()
def main(run: Session, args: Namespace) -> None:
    dims, sizes = ((2,), [128, 256]) if args.quick else ((2, 10), [2**k for k in (8, 10, 12, 14)])
    run_key = (run.ours.identity, str(torch.get_num_threads()))
    rows = []
    with unfinished(run.results / "accuracy_time_unfinished.csv", KEYS, VALUES) as ledger:
        for dim in dims:
            for name in filter(partial(available, dim=dim), NAMES):
                method = find(name, args.model, dim)
                assert method is not None  # all of these have a score
                warm = torch.randn(512, dim, dtype=torch.float64)
                method.fit(warm).score(warm)
                for size in [n for n in sizes if name != ATTENTION or n <= CORE_SIZE]:
                    problem = gmm_problem("diagonal", dim, size)
                    jobs = [
                        Job.single((*run_key, name, dim, size, i), partial(errors, method, problem, i, name))
                        for i in run.indices
                    ]
                    fill(ledger, jobs, f"{name}, {problem}")
                    found = ledger.rows(job.keys[0] for job in jobs)
                    cells = [f"{100 * relative_error(found):.3f}", f"{found.mean('seconds'):.4f}"]
                    rows.append([name, str(dim), str(size), *cells])
        draw(rows, dims, run.picture("accuracy_time"))
        run.finish("accuracy_time", ["method", "d", "n", "score error %", "seconds"], rows)


if __name__ == "__main__":
    raise SystemExit(main())

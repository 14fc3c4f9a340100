"""What more views of a sample cost where one is enough: random Gaussian mixtures, beside one view.

    python paper/benchmarks/one_view.py

The default looks at a sample as it is, with its margins made normal, and without its axes; "one view" is the
same network that sees it as it is only.  Settings and data sets are those of `gmm.py`; relative score errors
(%) at the sample points.  Bar: no line more than 2 % above one view.
"""

from __future__ import annotations

from argparse import Namespace

from gmm import DIMS, SIZES

from discoformer.core.checks import DataError
from discoformer_paper.harness.benchmark import Session, benchmark, percent, ratio
from discoformer_paper.harness.contestants import ONE_VIEW, Networks
from discoformer_paper.harness.problems import gmm_problem
from discoformer_paper.harness.runner import fill

BOUND = 1.02


@benchmark(__doc__, first=True)
def main(run: Session, args: Namespace) -> None:
    one = Networks(run.model).one_view()
    if one is None:
        raise DataError(f"{run.model} has one view only: give --model default")
    rows = []
    for covariance, dims in DIMS.items():
        for dim in (2,) if args.quick else dims:
            for size in (64,) if args.quick else SIZES:
                problem = gmm_problem(covariance, dim, size)
                ours = run.measure(problem, [])["ours"]
                jobs = run.jobs(problem, one)
                fill(run.models, jobs, f"{ONE_VIEW}, {problem}")
                alone = run.models.rows(key for job in jobs for key in job.keys)
                value, error = ratio(ours, alone)
                met = run.bar(f"{covariance} d={dim} n={size}, over {ONE_VIEW}", value, BOUND)
                cells = [percent(alone), percent(ours), f"{value:.3f}", f"{error:.3f}", met]
                rows.append([covariance, dim, size, *cells])
    run.finish("one_view", ["covariance", "d", "n", ONE_VIEW, "ours", "ratio", "+-", "bar"], rows)


if __name__ == "__main__":
    raise SystemExit(main())

"""Time of the default, fit and answers at the sample's own points, against its network with one view.

Gaussian mixtures with five components, rotated; both in one process on one thread, in turns, best of the
repeats.  And at n = 1000, d = 5 against scikit-learn's search for the number of components (1 to 20, full
covariances, BIC).  Bars: at most three times the one view, at most a quarter of the search.
"""

from __future__ import annotations

from argparse import Namespace

import torch

from discoformer.core.fields import Method
from discoformer.models.registry import load_network
from discoformer_paper.harness.adapters import fit_density
from discoformer_paper.harness.benchmark import Session, benchmark, seconds
from discoformer_paper.harness.contestants import rival
from discoformer_paper.harness.problems import gmm_problem

CASES = ((1024, 2), (1024, 10), (4096, 2), (4096, 10))
SEARCH = (1000, 5)


def answers(method: Method, sample: torch.Tensor) -> None:
    """Fit, and ask at the sample's own points."""
    with torch.no_grad():
        fit_density(method, sample).estimate(sample)


@benchmark(__doc__, options={"--repeats": {"type": int, "default": 7}})
def main(run: Session, args: Namespace) -> None:
    run.datasets = 1
    torch.set_num_threads(1)
    rows = []
    cases = [(64, 2), (64, 3)] if args.quick else [*CASES, SEARCH]
    for size, dim in cases:
        sample = gmm_problem("rotated", dim, size, modes=(5,)).draw(0).context
        one_view = load_network(run.model)
        search = (size, dim) == cases[-1]
        other: Method = rival("gmm-full").method if search else one_view
        name, bound = ("BIC search", 0.25) if search else ("one view", 3.0)
        answers(run.ours.method, sample), answers(one_view, sample)  # warm-up
        ours, theirs = torch.inf, torch.inf
        for _ in range(1 if args.quick or search else args.repeats):
            ours = min(ours, seconds(lambda x=sample: answers(run.ours.method, x), 2))
            theirs = min(theirs, seconds(lambda x=sample, other=other: answers(other, x), 1 if search else 2))
        met = run.bar(f"n={size} d={dim}: time over {name}", ours / theirs, bound)
        rows.append([size, dim, name, f"{theirs:.3f}", f"{ours:.3f}", f"{ours / theirs:.3f}", bound, met])
    run.finish("fit_time", ["n", "d", "against", "their s", "our s", "ratio", "bound", "bar"], rows)


if __name__ == "__main__":
    raise SystemExit(main())

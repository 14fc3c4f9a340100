"""Time of an answer: encode and read at n = 4096 points in d = 10, against scipy and scikit-learn.

Ours gives log density and score, and is timed with the fit; so is scikit-learn's search for the number of
components (1 to 20, full covariances, BIC).  scipy's `gaussian_kde` gives the density only, and its fit is
not counted.  Wall time in one process, best of the repeats after a warm-up; the search runs once.  Bars:
less time than one `gaussian_kde` evaluation at the same points, at most a tenth of the search.
"""

from __future__ import annotations

from argparse import Namespace

import torch
from scipy.stats import gaussian_kde

from discoformer_paper.harness.adapters import fit_density
from discoformer_paper.harness.benchmark import Session, benchmark, seconds
from discoformer_paper.harness.contestants import rival
from discoformer_paper.harness.problems import gmm_problem


@benchmark(__doc__, options={"--repeats": {"type": int, "default": 5}})
def main(run: Session, args: Namespace) -> None:
    run.datasets = 1
    size, dim, repeats = (128, 2, 1) if args.quick else (4096, 10, args.repeats)
    sample = gmm_problem("rotated", dim, size, modes=(5,)).draw(0).context
    points = sample.numpy().T
    kde, search = gaussian_kde(points), rival("gmm-full").method

    def ours() -> None:
        with torch.no_grad():
            fit_density(run.ours.method, sample).estimate(sample)

    ours()  # warm-up
    kde.evaluate(points[:, :64])
    mine = seconds(ours, repeats)
    rivals = {
        "scipy gaussian_kde, one evaluation": (seconds(lambda: kde.evaluate(points), repeats), 1.0),
        "scikit-learn BIC search": (seconds(lambda: fit_density(search, sample).estimate(sample), 1), 0.1),
    }
    rows = []
    for name, (theirs, bound) in rivals.items():
        met = run.bar(f"n={size} d={dim}: time over {name}", mine / theirs, bound)
        times = [f"{theirs:.3f}", f"{mine:.3f}", f"{mine / theirs:.4f}"]
        rows.append([size, dim, torch.get_num_threads(), name, *times, f"{bound:g}", met])
    run.finish("timing", ["n", "d", "threads", "rival", "their s", "our s", "ratio", "bound", "bar"], rows)


if __name__ == "__main__":
    raise SystemExit(main())

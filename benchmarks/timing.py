"""Time of an answer: encode and read at n = 4096 points in d = 10, against scipy and scikit-learn.

    python benchmarks/timing.py
    python benchmarks/timing.py --quick

Ours gives log density and score, and is timed with the fit; so is scikit-learn's search for the number of
components (1 to 20, full covariances, BIC).  scipy's `gaussian_kde` gives the density only, and its fit is
not counted.  Wall time in one process, best of the repeats after a warm-up; the search runs once.  Bars:
less time than one `gaussian_kde` evaluation at the same points, at most a tenth of the search.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from common import SEED, Session, make_parser, seconds, session
from scipy.stats import gaussian_kde

from discoformer.baselines import GaussianMixtureBIC
from discoformer.evaluation.known_truth import gmm_datasets


def table(run: Session, size: int, dim: int, repeats: int) -> None:
    """Seconds of each, and the ratios."""
    data = next(gmm_datasets(dim, size, 1, SEED, covariance="rotated", modes=(5,)))
    points = data.context.numpy()
    kde = gaussian_kde(points.T)

    def ours() -> None:
        with torch.no_grad():
            run.model.fit(points).estimate(points)

    ours()  # warm-up
    kde.evaluate(points.T[:, :64])
    mine = seconds(ours, repeats)
    search = GaussianMixtureBIC()
    rivals = {
        "scipy gaussian_kde, one evaluation": (seconds(lambda: kde.evaluate(points.T), repeats), 1.0),
        "scikit-learn BIC search": (seconds(lambda: search.fit(points).estimate(points), 1), 0.1),
    }
    rows = []
    for name, (theirs, bound) in rivals.items():
        met = run.bar(f"n={size} d={dim}: time over {name}", mine / theirs, bound)
        threads = str(torch.get_num_threads())
        cells = [str(size), str(dim), threads, name, f"{theirs:.3f}", f"{mine:.3f}"]
        rows.append([*cells, f"{mine / theirs:.4f}", f"{bound:g}", met])
    run.finish("timing", ["n", "d", "threads", "rival", "their s", "our s", "ratio", "bound", "bar"], rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args(argv)
    if args.peers:
        parser.error("times are compared in one run, so a model is needed")
    with session(args) as run:
        run.datasets = 1
        size, dim, repeats = (128, 2, 1) if args.quick else (4096, 10, args.repeats)
        table(run, size, dim, repeats)
        return run.verdict()


if __name__ == "__main__":
    raise SystemExit(main())

"""Random Gaussian mixtures: relative score error (%) against the best peer, and the paper's large-n table.

    python benchmarks/gmm.py                        # all three tables
    python benchmarks/gmm.py --table rotated        # rotated covariances, d = 1, 2, 3, 5, 10
    python benchmarks/gmm.py --table diagonal       # diagonal covariances, d = 2, 10
    python benchmarks/gmm.py --table large-n        # diagonal, n up to 2^17, as a ratio to Scott's KDE
    python benchmarks/gmm.py --peers --max-size 1024  # fill the peers' file, without a model
    python benchmarks/gmm.py --first 20             # on other data sets than the tables'
    python benchmarks/gmm.py --quick                # a few seconds

Means uniform in [-3, 3]^d, standard deviations uniform in [0.2, 1], equal weights, k = 1..10 in turn.
Errors are pooled over the data sets and taken at the sample points; in the large-n table, for n >= 2^16,
at the first 4096 of them, for every method, so that kernel density stays affordable.  Peers: kernel
density (Scott, leave-one-out), scikit-learn's Gaussian mixture by BIC (full, diag) and Bayesian mixture.

At n = 16384 some peers take a minute for a data set.  One whose error at n = 4096, same d and covariances,
was more than three times the best peer's is not measured there: its cell in the tables is "-", unless
`peers.csv` holds all its lines, and the best peer is the best of those shown.  The large-n table, which is
made first, leaves nothing out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from common import Pooled, Session, best_peer, gmm_setting, make_parser, percent, ratio, session

from discoformer.evaluation.held_out import PEERS
from discoformer_paper import large_n as large_n_table

SIZES = (256, 1024, 4096, 16_384)
LARGE, BEHIND = SIZES[-1], 3.0  # here, peers that were so many times behind at the size before are left out
DIMS = {"rotated": (1, 2, 3, 5, 10), "diagonal": (2, 10)}
# error of the paper's model over that of Scott's KDE, from its table: 2^8, 2^10, 2^12, 2^14
PAPER = {2: (0.335, 0.262, 0.294, 0.395), 10: (0.114, 0.076, 0.058, 0.054)}


def in_reach(errors: dict[str, Pooled]) -> list[str]:
    """The peers that are not far behind the best one."""
    best = errors[best_peer(errors)].relative
    return [name for name in PEERS if not errors[name].relative > BEHIND * best]


def against_peers(run: Session, covariance: str, dims: Sequence[int], sizes: Sequence[int]) -> None:
    """One row per d and n: every method, the best peer, the ratio to it."""
    rows = []
    for dim in dims:
        errors: dict[str, Pooled] = {}
        for size in sizes:
            setting = gmm_setting(covariance, dim, size)
            reach = in_reach(errors) if size == LARGE else list(PEERS)
            errors = run.measure(setting, [p for p in PEERS if p in reach or run.holds(setting, p)])
            best = best_peer(errors)
            shown = [percent(errors[name].relative) if name in errors else "-" for name in PEERS]
            cells = [str(dim), str(size), *shown, best]
            if "ours" in errors:
                value, error = ratio(errors["ours"], errors[best])
                bound = 0.95 if covariance == "diagonal" else 0.85 if size <= 1024 else 1.0
                met = run.bar(f"{covariance} d={dim} n={size}, over {best}", value, bound)
                cells += [percent(errors["ours"].relative), f"{value:.3f}", f"{error:.3f}", f"{bound}", met]
            print(" ".join(cells), flush=True)
            rows.append(cells)
    ours = ["ours", "ratio", "+-", "bound", "bar"] if run.model else []
    run.finish(f"gmm_{covariance}", ["d", "n", *PEERS, "best peer", *ours], rows)
    if any("-" in row for row in rows):
        print(f"-: not measured, error at the n before more than {BEHIND:g} times the best peer's")


def large_n(run: Session, sizes: Sequence[int]) -> None:
    """Scott's KDE and ours as n grows, beside the ratio that the paper reports."""
    rows = []
    for dim, paper in PAPER.items():
        previous = math.inf
        for index, size in enumerate(sizes):
            errors = run.measure(large_n_table.setting(dim, size), ["kde-scott"])
            cells = [str(dim), str(size), percent(errors["kde-scott"].relative)]
            if "ours" in errors:
                ours = errors["ours"].relative
                value, error = ratio(errors["ours"], errors["kde-scott"])
                text = f"large n, d={dim} n={size}"
                if index < len(paper):
                    bound = paper[index] / 2 if size >= 2**12 else paper[index]
                    met = run.bar(f"{text}, over Scott's KDE", value, bound)
                    published = [f"{paper[index]}", f"{bound:.4g}"]
                else:
                    met = run.bar(f"{text}, over n={sizes[index - 1]}", ours / previous, 1.0)
                    published = ["", "still falling"]
                cells += [percent(ours), f"{value:.4f}", f"{error:.4f}", *published, met]
                previous = ours
            print(" ".join(cells), flush=True)
            rows.append(cells)
    ours_header = ["ours", "ratio", "+-", "paper's ratio", "bound", "bar"] if run.model else []
    run.finish("gmm_large_n", ["d", "n", "kde-scott", *ours_header], rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser(__doc__, numbered=True)
    tables = (*DIMS, "large-n")
    parser.add_argument("--table", nargs="+", choices=tables, default=tables, help="(default: all)")
    parser.add_argument("--max-size", type=int, default=2**17, help="leave out larger samples")
    args = parser.parse_args(argv)
    with session(args) as run:
        if "large-n" in args.table:  # first: the table of diagonal covariances shows what it has measured
            sizes = [n for n in large_n_table.SIZES[: 2 if args.quick else None] if n <= args.max_size]
            large_n(run, sizes)
        for covariance in [table for table in DIMS if table in args.table]:
            dims = (2,) if args.quick else DIMS[covariance]
            sizes = [64] if args.quick else [size for size in SIZES if size <= args.max_size]
            against_peers(run, covariance, dims, sizes)
        return run.verdict()


if __name__ == "__main__":
    raise SystemExit(main())

"""Speed and memory of the kernel density estimate against scipy's and scikit-learn's.

    python benchmarks/kde.py            # the full table and the memory of a large estimate
    python benchmarks/kde.py --quick    # small sizes, a few seconds, to see that it runs

Ours is timed for log density AND score, the others for the log density alone, all in float64 and in
one run, after one warm-up call, best of a few repeats.  scipy is timed twice: `evaluate` (the
density, which underflows to zero far out) and `logpdf` (the log density, as ours).  Memory is the
peak resident size of a fresh process that makes one large estimate, imports included.
"""

from __future__ import annotations

import argparse
import csv
import math
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from common import seconds
from memory import peak_gigabytes
from scipy.stats import gaussian_kde
from sklearn.neighbors import KernelDensity

from discoformer.baselines import KDE

HEADER = ["n", "m", "d", "threads", "quantity", "ours", "theirs", "ratio"]
BAR_RATIO, BAR_GB = 3.0, 1.5


def compare(n: int, m: int, d: int, repeats: int) -> Iterator[tuple[str, float, float]]:
    """Name, our seconds and the rival's, for every rival."""
    rng = np.random.default_rng(0)
    context, queries = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    bandwidth = n ** (-1 / (d + 4))
    full, isotropic = KDE("scott-full").fit(context), KDE(bandwidth).fit(context)
    scipy_kde, sklearn_kde = gaussian_kde(context.T), KernelDensity(bandwidth=bandwidth).fit(context)
    for name, field, rival in (
        ("scipy gaussian_kde.evaluate", full, partial(scipy_kde.evaluate, queries.T)),
        ("scipy gaussian_kde.logpdf", full, partial(scipy_kde.logpdf, queries.T)),
        ("sklearn KernelDensity", isotropic, partial(sklearn_kde.score_samples, queries)),
    ):
        ours = partial(field.estimate, queries)
        ours(), rival()  # warm-up
        yield name, seconds(ours, repeats), seconds(rival, max(1, repeats // 3))


def gigabytes_of_an_estimate(n: int, m: int, d: int) -> float:
    """Peak resident memory of a fresh process that makes one estimate."""
    command = [sys.executable, __file__, "--estimate", str(n), str(m), str(d)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def estimate_once(n: int, m: int, d: int) -> None:
    rng = np.random.default_rng(0)
    KDE("scott").fit(rng.normal(size=(n, d))).estimate(rng.normal(size=(m, d)))
    print(peak_gigabytes())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes; nothing is written")
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "kde.csv")
    parser.add_argument(
        "--estimate", type=int, nargs=3, metavar=("N", "M", "D"), help="one estimate, print its memory"
    )
    args = parser.parse_args()
    if args.estimate:
        estimate_once(*args.estimate)
        return 0
    n, m = (2048, 512) if args.quick else (16_384, 4_096)
    large = (8192, 1024, 10) if args.quick else (131_072, 8_192, 10)
    threads = torch.get_num_threads()
    rows: list[list[object]] = []
    slowest = math.inf
    print(f"n={n} m={m}, {threads} threads; seconds for log density + score (ours), log density (theirs)")
    for d in (2, 10):
        for name, ours, theirs in compare(n, m, d, args.repeats):
            slowest = min(slowest, theirs / ours)
            rows.append(
                [
                    n,
                    m,
                    d,
                    threads,
                    f"s, against {name}",
                    f"{ours:.4f}",
                    f"{theirs:.4f}",
                    f"{theirs / ours:.1f}",
                ]
            )
            print(f"d={d:<3} ours {ours:6.3f}   {name:<28} {theirs:6.3f}   ratio {theirs / ours:5.1f}")
    gigabytes = gigabytes_of_an_estimate(*large)
    rows.append([*large, threads, "peak resident GB", f"{gigabytes:.3f}", "", ""])
    print(f"peak resident memory, n={large[0]} m={large[1]} d={large[2]}: {gigabytes:.2f} GB")
    if not args.quick:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        with args.out.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])
        met = slowest >= BAR_RATIO and gigabytes <= BAR_GB
        print(f"bars ({BAR_RATIO:g}x faster, {BAR_GB:g} GB): {'met' if met else 'missed'}")
        return 0 if met else 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Speed and memory of the kernel density estimate against scipy's and scikit-learn's.

Ours is timed for log density AND score, the others for the log density alone, all in float64 and in
one run, after one warm-up call, best of a few repeats.  scipy is timed twice: `evaluate` (the
density, which underflows to zero far out) and `logpdf` (the log density, as ours).  Memory is the
peak resident size of a fresh process that makes one large estimate, imports included.  Bars: at least 3 times
faster than each, at most 1.5 GB.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from scipy.stats import gaussian_kde
from sklearn.neighbors import KernelDensity

from discoformer.baselines import KDE
from discoformer_paper.harness.adapters import fit_density
from discoformer_paper.harness.benchmark import Session, benchmark, run_fresh, seconds

HEADER = ["n", "m", "d", "threads", "quantity", "ours", "theirs", "ratio"]
BAR_RATIO, BAR_GB = 3.0, 1.5
ESTIMATE = """
import numpy as np
from discoformer.baselines import KDE
from discoformer_paper.harness.memory import peak_gigabytes
rng = np.random.default_rng(0)
KDE("scott").fit(rng.normal(size=({0}, {2}))).estimate(rng.normal(size=({1}, {2})))
print(peak_gigabytes())
"""


def compare(n: int, m: int, d: int, repeats: int) -> Iterator[tuple[str, float, float]]:
    """Name, our seconds and the rival's, for every rival."""
    rng = np.random.default_rng(0)
    context, queries = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    bandwidth = n ** (-1 / (d + 4))
    full, isotropic = (fit_density(KDE(rule), context) for rule in ("scott-full", bandwidth))
    scipy_kde, sklearn_kde = gaussian_kde(context.T), KernelDensity(bandwidth=bandwidth).fit(context)
    for name, field, rival in (
        ("scipy gaussian_kde.evaluate", full, partial(scipy_kde.evaluate, queries.T)),
        ("scipy gaussian_kde.logpdf", full, partial(scipy_kde.logpdf, queries.T)),
        ("sklearn KernelDensity", isotropic, partial(sklearn_kde.score_samples, queries)),
    ):
        ours = partial(field.estimate, queries)
        ours(), rival()  # warm-up
        yield name, seconds(ours, repeats), seconds(rival, max(1, repeats // 3))


@benchmark(__doc__, options={"--repeats": {"type": int, "default": 6}})
def main(run: Session, args: Namespace) -> None:
    n, m = (2048, 512) if args.quick else (16_384, 4_096)
    large = (8192, 1024, 10) if args.quick else (131_072, 8_192, 10)
    threads = torch.get_num_threads()
    rows: list[list[object]] = []
    for d in (2, 10):
        for name, ours, theirs in compare(n, m, d, args.repeats):
            run.bar(f"d={d}, times faster than {name}", theirs / ours, BAR_RATIO, below=False)
            times = [f"{ours:.4f}", f"{theirs:.4f}", f"{theirs / ours:.1f}"]
            rows.append([n, m, d, threads, f"s, against {name}", *times])
    gigabytes = float(run_fresh("-c", ESTIMATE.format(*large)))
    run.bar("peak resident GB", gigabytes, BAR_GB)
    rows.append([*large, threads, "peak resident GB", f"{gigabytes:.3f}", "", ""])
    run.finish("kde", HEADER, rows, by_model=False)


if __name__ == "__main__":
    raise SystemExit(main())

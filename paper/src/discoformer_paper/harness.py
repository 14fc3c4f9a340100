"""One way to run every table and figure: measure what is missing, draw, sum up.

An experiment is a module with one `Experiment`: its name and what it shows, the columns of its CSV file,
`run`, which lists the measurements as `Job`\\ s, `figure`, which draws the rows, and `summary`, which
puts them beside the published numbers.  `reproduce` does the rest: a job whose rows are on disk is not
done again, rows of networks with new weights are, and an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from discoformer.core.checks import DataError
from discoformer.core.files import replacing
from discoformer.views.plots import STYLE
from discoformer.views.terminal import print_table, track
from discoformer_paper.contestants import Networks
from discoformer_paper.ledger import Ledger, Rows
from discoformer_paper.provenance import check_sizes, record_minutes, record_run
from discoformer_paper.summary import Summary
from discoformer_paper.workers import measure_on_workers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Context", "Experiment", "Job", "Key", "open_folder", "reproduce", "tell"]

Key = tuple[object, ...]
Values = Mapping[str, float]


class Job(NamedTuple):
    """Rows that are measured together: their keys, and a function that returns their numbers in order."""

    keys: Sequence[Key]
    measure: Callable[[], Sequence[Values]]

    @classmethod
    def single(cls, key: Key, measure: Callable[[], Values]) -> Job:
        """One row."""
        return cls([key], lambda: [measure()])


@dataclass(frozen=True)
class Context:
    """What a run is given.

    Attributes
    ----------
    folder : where results go
    scratch : a folder for unfinished work (checkpoints), removed when the experiment is complete
    seeds : data sets, samples or trials per setting
    quick : tiny sizes, to see that it runs
    networks : who takes part
    """

    folder: Path
    scratch: Path
    seeds: int
    quick: bool
    networks: Networks


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, or of ours.

    Attributes
    ----------
    name : of the command and of the files
    title : of the section
    source : the table or figure of the paper
    shows : one sentence
    keys, values : columns of the CSV file; a column ``method`` holds who was measured
    seeds : how many, unless the command says otherwise
    run : the measurements of a context
    summary : of the rows, given the name of our network
    figure : of the rows; what is no function of rows, a picture of a field, may use the context's networks
    quick_seeds : seeds with ``--quick``
    alone : its times are the result, so nothing runs beside it
    """

    name: str
    title: str
    source: str
    shows: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    seeds: int
    run: Callable[[Context], Iterable[Job]]
    summary: Callable[[Rows, str], Summary]
    figure: Callable[[Rows, Context], Figure] | None = None
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

    With several ``workers`` jobs run on processes of their own, except where an experiment measures times.
    How long it took is kept if nothing was there before.
    """
    started = time.monotonic()
    check_sizes(context.folder, quick=context.quick)
    jobs = list(experiment.run(context))
    ledger = experiment.ledger(context.folder)
    ledger.forget(context.networks.is_stale)
    missing = [i for i, job in enumerate(jobs) if not all(key in ledger for key in job.keys)]
    before = len(ledger)
    whole = context.quick or context.seeds == experiment.seeds
    anew = whole and not before and not context.scratch.exists()
    if missing:
        ledger.run = record_run(context.folder, quick=context.quick)
        context.scratch.mkdir(parents=True, exist_ok=True)
    several = workers > 1 and len(missing) > 1 and not experiment.alone
    answers = _on_workers(experiment, context, jobs, missing, workers) if several else _here(jobs, missing)
    for job, found in track(answers, experiment.name, len(missing)):
        for key, values in zip(job.keys, found, strict=True):
            if key not in ledger:
                ledger.add(key, values)
    ledger.arrange(key for job in jobs for key in job.keys)  # workers and new weights mix them
    if missing:
        shutil.rmtree(context.scratch)
    if experiment.figure is not None:
        _draw(experiment.figure, ledger.rows(), context, context.folder / f"{experiment.name}.png")
    minutes = round((time.monotonic() - started) / 60, 2)
    if anew and missing:
        taken = {"rows": len(ledger), "workers": workers if several else 1, "minutes": minutes}
        record_minutes(context.folder, experiment.name, taken, ledger.run or "")
    return len(ledger) - before, minutes


def _here(jobs: Sequence[Job], numbers: Sequence[int]) -> Iterator[tuple[Job, Sequence[Values]]]:
    for number in numbers:
        yield jobs[number], jobs[number].measure()


def _on_workers(
    experiment: Experiment, context: Context, jobs: Sequence[Job], numbers: Sequence[int], workers: int
) -> Iterator[tuple[Job, Sequence[Values]]]:
    """Jobs and their values; a worker that found other jobs or networks on the disk is refused."""
    for number, keys, values in measure_on_workers(experiment.name, context, numbers, workers):
        if keys != [list(map(str, key)) for key in jobs[number].keys]:
            raise DataError(f"{experiment.name} or its networks have changed since it began: run it again")
        yield jobs[number], values


def tell(experiment: Experiment, summary: Summary, ours: str) -> None:
    """Print a summary."""
    print(f"\n{experiment.title} ({experiment.source}): {summary.unit}")
    if summary.lines:
        print_table(*summary.table(ours))
    for sentence in (*summary.worse(ours), *summary.core_worse()):
        print(f"worse: {sentence}")
    for claim in summary.claims:
        verdict = {True: "holds", False: "DOES NOT HOLD", None: "not measured"}[claim.holds]
        print(f"{claim.whose}, {verdict}: {claim.text} ({claim.evidence})")


@contextlib.contextmanager
def open_folder(out: Path | None, *, quick: bool) -> Iterator[Path]:
    """The folder of results, which need not exist: as asked; a temporary one if quick; else the usual one."""
    if out is None and quick:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder) / "results"
        return
    if out is None:
        out = Path("docs/results") if Path("docs/results").is_dir() else Path("results")
    yield out


def _draw(figure: Callable[[Rows, Context], Figure], rows: Rows, context: Context, path: Path) -> None:
    if find_spec("matplotlib") is None:
        print(f"no {path.name}: drawing needs matplotlib: pip install 'discoformer[plot]'")
        return
    from matplotlib import rc_context

    path.parent.mkdir(parents=True, exist_ok=True)
    # the date and the version of the library would make every picture new
    with rc_context(STYLE), replacing(path) as temporary:
        figure(rows, context).savefig(temporary, format="png", metadata={"Software": None})

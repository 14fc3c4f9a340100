"""What the benchmarks share: options, measurements on disk, tables, ratios with errors, and bars.

A benchmark is a script whose `main` is made by `benchmark`.  Errors are written line by line, so an
interrupted run continues where it stopped.  Those of rivals are in `peers.csv`, which new weights do not
affect; those of networks in `models.csv`, where a network has its name and fingerprint.  The tables,
`results/<table>.csv`, are made from the two.
"""

from __future__ import annotations

import argparse
import csv
import math
import subprocess
import sys
import timeit
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from discoformer.core.checks import DataError
from discoformer_paper.harness.contestants import RIVALS, Contestant, Networks, rival
from discoformer_paper.harness.jobs import Job
from discoformer_paper.harness.ledger import Ledger, Rows, write_csv
from discoformer_paper.harness.options import add_options
from discoformer_paper.harness.problems import ERRORS, KEYS, Problem, relative_error, score_jobs, seed_of
from discoformer_paper.harness.runner import fill, open_folder
from discoformer_paper.harness.terminal import print_folded

__all__ = [
    "PAPER",
    "RESULTS",
    "Session",
    "benchmark",
    "best_rival",
    "percent",
    "ratio",
    "run_fresh",
    "seconds",
    "unfinished",
]

PAPER = Path(__file__).parents[3]  # the folder of this distribution in a clone
RESULTS = PAPER / "benchmarks" / "results"
OURS = "ours"


class Session:
    """One run of a benchmark: the model, the files, the number of data sets, and the bars so far.

    Parameters
    ----------
    results : folder
    datasets : per setting
    model : name or path; loaded when it is needed
    first : number of the first data set; any but 0 gives tables of their own
    """

    def __init__(self, results: Path, datasets: int, model: str = "default", first: int = 0) -> None:
        self.results, self.datasets, self.model, self.first = results, datasets, model, first
        self.seed = seed_of(first)
        self.peers = Ledger(results / "peers.csv", KEYS, ERRORS)
        self.models = Ledger(results / "models.csv", KEYS, ERRORS)
        self.bars: list[tuple[str, str, str, bool]] = []

    @cached_property
    def ours(self) -> Contestant:
        """The model."""
        return Networks(self.model).ours()

    def of_model(self, model: str) -> Session:
        """The same run for another model; bars are kept together."""
        other = Session(self.results, self.datasets, model, self.first)
        other.bars = self.bars
        return other

    @property
    def indices(self) -> range:
        """Numbers of the data sets."""
        return range(self.first, self.first + self.datasets)

    def picture(self, name: str) -> Path:
        """Where a figure goes: into the guide from a full run, else beside the tables."""
        folder = PAPER.parent / "docs" / "images" if self.results == RESULTS else self.results
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name}.png"

    def jobs(self, problem: Problem, contestant: Contestant) -> list[Job]:
        """The errors of a contestant on all data sets of a problem."""
        return list(score_jobs(problem, [contestant], self.indices))

    def holds(self, problem: Problem, peer: str) -> bool:
        """Whether a rival has been measured on all data sets of a problem."""
        return all(key in self.peers for job in self.jobs(problem, rival(peer)) for key in job.keys)

    def measure(self, problem: Problem, peers: Sequence[str] = RIVALS) -> dict[str, Rows]:
        """Errors of rivals and, under the name "ours", of the model; only what is missing is computed."""
        found = {}
        for name in (*peers, OURS):
            ledger, contestant = (self.models, self.ours) if name == OURS else (self.peers, rival(name))
            jobs = self.jobs(problem, contestant)
            fill(ledger, jobs, f"{contestant.label}, {problem}")
            found[name] = ledger.rows(key for job in jobs for key in job.keys)
        return found

    def runs(self, table: str, keys: Sequence[str], values: Sequence[str]) -> Ledger:
        """The single measurements of a table, in results/<table>_runs.csv; the method is the last key.

        Those of rivals are kept; those of former weights of the model are dropped.
        """
        ledger = Ledger(self.results / f"{table}_runs.csv", (*keys, "method"), values)
        label, identity, _ = self.ours
        ledger.forget(lambda key: key["method"].split("@")[0] == label and key["method"] != identity)
        return ledger

    def bar(self, text: str, value: float, bound: float, *, below: bool = True) -> str:
        """Record a bar, value <= bound (or >= with ``below=False``), and say whether it is met."""
        met = value <= bound if below else value >= bound
        self.bars.append((text, f"{value:.4g}", f"{'<=' if below else '>='} {bound:.4g}", met))
        return "met" if met else "MISSED"

    def finish(
        self, table: str, header: Sequence[str], rows: Sequence[Sequence[object]], *, by_model: bool = True
    ) -> None:
        """Print a table and keep it in results/<table>.csv, in place of this model's earlier rows.

        Without ``by_model`` the table has no columns for model and data sets, and replaces the whole file.
        """
        cells = [list(map(str, row)) for row in rows]
        path = self.results / f"{table}{f'_from_{self.first}' if self.first else ''}.csv"
        kept: list[list[str]] = []
        if by_model:
            label, identity, _ = self.ours
            print(f"\n{table}: {self.datasets} data sets each, seeds from {self.seed}, model {identity}")
        print_folded(header, cells)
        if by_model:
            header = ["model", "seed", "datasets", *header]
            if path.exists():
                with path.open(newline="", encoding="utf-8") as file:
                    old_header, *old = csv.reader(file)
                kept = [line for line in old if old_header == header and line[0].split("@")[0] != label]
            cells = [[identity, str(self.seed), str(self.datasets), *row] for row in cells]
        write_csv(path, [header, *kept, *cells])

    def verdict(self) -> int:
        """Print every bar, then how many are met, and return the exit code: 1 if one is missed.

        A missed bar is a number to improve, not a failure of the program, which raises an exception.
        `make bench` runs all benchmarks, and fails at the end if one did.
        """
        if self.bars:
            print("\nbars:")
            rows = [[text, value, bound, "met" if met else "MISSED"] for text, value, bound, met in self.bars]
            print_folded(["bar", "value", "bound", ""], rows)
            print(f"{sum(met for *_, met in self.bars)} of {len(self.bars)} bars met")
        return 0 if all(met for *_, met in self.bars) else 1


def benchmark(
    description: str | None,
    *,
    datasets: int = 20,
    first: bool = False,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Callable[[Callable[[Session, argparse.Namespace], None]], Callable[..., int]]:
    """Make a script's `main` from a function of the session and the parsed options.

    ``datasets`` is their usual number, ``first`` adds an option for the number of the first one, and
    ``options`` are further options as `add_argument` takes them.
    """

    def decorate(measure: Callable[[Session, argparse.Namespace], None]) -> Callable[..., int]:
        def main(argv: Sequence[str] | None = None) -> int:
            formatter = argparse.RawDescriptionHelpFormatter
            parser = argparse.ArgumentParser(description=description, formatter_class=formatter)
            add_options(parser, "paper/benchmarks/results")
            parser.add_argument("--datasets", type=int, default=datasets, help=f"per setting ({datasets})")
            if first:
                number = "number of the first data set (default: 0); with another, a table of its own"
                parser.add_argument("--first", type=_index, default=0, help=number)
            for name, how in (options or {}).items():
                parser.add_argument(name, **how)
            args = parser.parse_args(argv)
            count = min(args.datasets, 2) if args.quick else args.datasets
            with open_folder(args.out, RESULTS, quick=args.quick) as results:
                run = Session(results, count, args.model, args.first if first else 0)
                measure(run, args)
                return run.verdict()

        return main

    return decorate


def _index(text: str) -> int:
    """A whole number, zero or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a data set: give one from 0")
    return int(text)


@contextmanager
def unfinished(path: Path, keys: Sequence[str], values: Sequence[str]) -> Iterator[Ledger]:
    """Measurements that are on disk as soon as they are made, and deleted when the run is complete."""
    yield Ledger(path, keys, values)
    path.unlink(missing_ok=True)


def best_rival(errors: Mapping[str, Rows], names: Sequence[str] | None = None) -> str:
    """The rival with the least relative score error; NaN, from a fit that overflowed, comes last."""
    found = {name: relative_error(errors[name]) for name in names or errors if name != OURS}
    return min(found, key=lambda name: (math.isnan(found[name]), found[name]))


def ratio(ours: Rows, theirs: Rows) -> tuple[float, float]:
    """Ratio of pooled relative score errors and its standard error, by the jackknife over data sets."""
    value = relative_error(ours) / relative_error(theirs)
    if len(ours) < 2:
        return value, math.nan
    mine, rivals = ours.values("score_error"), theirs.values("score_error")
    left_out = (mine.sum() - mine) / (rivals.sum() - rivals)
    return value, float(np.std(left_out) * math.sqrt(len(ours) - 1))


def run_fresh(*arguments: str, timeout: float | None = None) -> str:
    """Standard output of a fresh interpreter with these arguments; an error quotes its last line."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise DataError(f"the fresh process failed: {reason}")
    return done.stdout


def seconds(call: Callable[[], object], repeats: int) -> float:
    """Wall time of the fastest of ``repeats`` calls."""
    return min(timeit.repeat(call, number=1, repeat=repeats))


def percent(rows: Rows) -> str:
    """Relative score error in percent, as text."""
    return f"{100 * relative_error(rows):.2f}"

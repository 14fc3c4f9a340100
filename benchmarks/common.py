"""What the benchmarks share: measurements kept in files, ratios with errors, and bars.

A measurement is one line of a CSV file: a method on one data set.  Lines are appended as they are made,
so an interrupted run goes on where it stopped.  What other methods do is kept in `results/peers.csv`,
which new weights leave as it is; what networks do is kept in `results/models.csv`, where a network is
known by its name and a fingerprint of its answers, so new weights are measured again.  The tables,
`results/<table>.csv`, are made from the two.  Files, data sets and fingerprints are those of the
experiments, `discoformer_paper`.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import math
import tempfile
import timeit
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from discoformer.core.fields import Method
from discoformer.evaluation.held_out import PEERS, make_method
from discoformer.views.terminal import print_table, track
from discoformer_paper.contestants import fingerprint, model_label
from discoformer_paper.ledger import Ledger as Store
from discoformer_paper.settings import (
    KEYS,
    SEED,
    STEP,
    Case,
    Setting,
    at_sample,
    gmm_setting,
    measure_errors,
)

__all__ = [
    "RESULTS",
    "SEED",
    "STEP",
    "Case",
    "Pooled",
    "Session",
    "Setting",
    "Store",
    "at_sample",
    "best_peer",
    "fingerprint",
    "gmm_setting",
    "make_parser",
    "model_label",
    "percent",
    "ratio",
    "seconds",
    "session",
]

RESULTS = Path(__file__).parent / "results"


class Pooled(NamedTuple):
    """Errors of one method over the data sets of a setting, each (datasets,)."""

    score_error: np.ndarray
    score_square: np.ndarray
    score_mse: np.ndarray
    log_density_mse: np.ndarray
    seconds: np.ndarray

    @property
    def relative(self) -> float:
        """Relative score error, pooled."""
        return float(self.score_error.sum() / self.score_square.sum())


@dataclass
class Session:
    """One run of a benchmark: the model, the files, the number of data sets, and the bars so far."""

    results: Path
    datasets: int
    label: str  # name of the model
    identity: str  # name and fingerprint; empty if only the peers are measured
    model: Method | None
    seed: int = SEED  # of the first data set, for the tables
    first: int = 0  # its number; later ones than the usual first get tables of their own

    def __post_init__(self) -> None:
        self.peers = Store(self.results / "peers.csv", KEYS, Pooled._fields)
        self.models = Store(self.results / "models.csv", KEYS, Pooled._fields)
        self.bars: list[tuple[str, str, str, bool]] = []

    @property
    def indices(self) -> range:
        """Numbers of the data sets."""
        return range(self.first, self.first + self.datasets)

    def holds(self, setting: Setting, peer: str) -> bool:
        """Whether a peer has been measured on all data sets of a setting."""
        return all(_key(setting, index, peer) in self.peers for index in self.indices)

    def measure(self, setting: Setting, peers: Sequence[str]) -> dict[str, Pooled]:
        """Errors of the peers and, under the name "ours", of the model; only what is missing is computed."""
        sources = {name: (self.peers, name) for name in peers}
        if self.model is not None:
            sources["ours"] = (self.models, self.identity)
        lines: dict[str, list[dict[str, float]]] = {name: [] for name in sources}
        label = f"{setting.name} d={setting.dim} n={setting.size}"
        for index in track(self.indices, label):
            case: Case | None = None
            for name, (store, identity) in sources.items():
                key = _key(setting, index, identity)
                line = store.get(*key)
                if line is None:
                    case = case or setting.draw(index)
                    method = self.model if name == "ours" else PEERS[name]()
                    line = store.add(key, measure_errors(method, case, f"{identity}, {label}"))
                lines[name].append(line)
        return {
            name: Pooled(*(np.array([line[field] for line in found]) for field in Pooled._fields))
            for name, found in lines.items()
        }

    def bar(self, text: str, value: float, bound: float, *, below: bool = True) -> str:
        """Note a bar, value <= bound (or >= with ``below=False``), and say whether it is met."""
        met = value <= bound if below else value >= bound
        sign = "<=" if below else ">="
        self.bars.append((text, f"{value:.4g}", f"{sign} {bound:.4g}", met))
        return "met" if met else "MISSED"

    def finish(self, table: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table and keep it in results/<table>.csv, in place of what this model had there."""
        print(
            f"\n{table}: {self.datasets} data sets each, seeds from {self.seed}, model {self.identity or '-'}"
        )
        print_table(header, rows)
        if self.model is None:
            return
        path = self.results / f"{table}{f'_from_{self.first}' if self.first else ''}.csv"
        columns = ["model", "seed", "datasets", *header]
        kept: list[list[str]] = []
        if path.exists():
            with path.open(newline="") as file:
                old_columns, *old = csv.reader(file)
            kept = [line for line in old if old_columns == columns and line[0].split("@")[0] != self.label]
        new = [[self.identity, str(self.seed), str(self.datasets), *row] for row in rows]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([columns, *kept, *new])

    def verdict(self) -> int:
        """Print every bar, then how many are met, and return the exit code: 1 if one is missed.

        `make bench` runs all benchmarks whatever each returns, and fails in the end if one did.  A missed
        bar is a number to improve, not a broken program: that is an exception, with a traceback.
        """
        if self.bars:
            print("\nbars:")
            rows = [[text, value, bound, "met" if met else "MISSED"] for text, value, bound, met in self.bars]
            print_table(["bar", "value", "bound", ""], rows)
            print(f"{sum(met for *_, met in self.bars)} of {len(self.bars)} bars met")
        return 0 if all(met for *_, met in self.bars) else 1


def _key(setting: Setting, index: int, identity: str) -> tuple[object, ...]:
    return (setting.name, setting.dim, setting.size, SEED + STEP * index, identity)


def make_parser(
    description: str | None, datasets: int = 20, *, numbered: bool = False
) -> argparse.ArgumentParser:
    """Options that all benchmarks have; how many data sets unless told otherwise.

    With ``numbered`` there is one for the number of the first data set.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="default", metavar="NAME_OR_PATH", help="(default: default)")
    parser.add_argument("--datasets", type=int, default=datasets, help=f"per setting (default: {datasets})")
    if numbered:
        help_text = "number of the first data set (default: 0); with another, a table of its own"
        parser.add_argument("--first", type=_number, default=0, help=help_text)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--peers", action="store_true", help="measure the peers only, no model is needed")
    parser.add_argument(
        "--results", type=Path, help="folder (default: benchmarks/results; a temporary one with --quick)"
    )
    return parser


def _number(text: str) -> int:
    """A whole number from zero; argparse tells what else is wrong."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of a data set: give one from 0")
    return int(text)


@contextlib.contextmanager
def session(args: argparse.Namespace) -> Iterator[Session]:
    """The session of parsed arguments."""
    with contextlib.ExitStack() as stack:
        results = args.results or RESULTS
        if args.quick and args.results is None:
            results = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        datasets = min(args.datasets, 2) if args.quick else args.datasets
        if args.peers:
            run = Session(results, datasets, "", "", None)
        else:
            model = make_method(args.model)
            label = model_label(args.model)
            run = Session(results, datasets, label, f"{label}@{fingerprint(model)}", model)
        run.first = vars(args).get("first", 0)
        run.seed += STEP * run.first
        yield run


def best_peer(errors: dict[str, Pooled]) -> str:
    """The peer with the least relative score error; NaN, from a fit that overflowed, comes last."""
    found = {name: pooled.relative for name, pooled in errors.items() if name != "ours"}
    return min(found, key=lambda name: (math.isnan(found[name]), found[name]))


def ratio(ours: Pooled, theirs: Pooled) -> tuple[float, float]:
    """Ratio of pooled relative score errors and its standard error, by the jackknife over data sets."""
    value = ours.relative / theirs.relative
    count = len(ours.score_error)
    if count < 2:
        return value, math.nan
    left_out = [
        (ours.score_error.sum() - a) / (theirs.score_error.sum() - b)
        for a, b in zip(ours.score_error, theirs.score_error, strict=True)
    ]
    return value, float(np.std(left_out) * math.sqrt(count - 1))


def seconds(call: Callable[[], object], repeats: int) -> float:
    """Wall time of the fastest of ``repeats`` calls."""
    return min(timeit.repeat(call, number=1, repeat=repeats))


def percent(value: float) -> str:
    return f"{100 * value:.2f}"

"""What the benchmarks share: test seeds, measurements kept in files, ratios with errors, and bars.

A measurement is one line of a CSV file: a method on one data set.  Lines are appended as they are made,
so an interrupted run goes on where it stopped.  What other methods do is kept in `results/peers.csv`,
which new weights leave as it is; what networks do is kept in `results/models.csv`, where a network is
known by its name and a fingerprint of its answers, so new weights are measured again.  The tables,
`results/<table>.csv`, are made from the two.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import hashlib
import math
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from discoformer.checks import DataError
from discoformer.cli.show import print_table, track
from discoformer.comparison import PEERS, make_method
from discoformer.evaluation import Dataset, Errors, gmm_datasets
from discoformer.fields import Estimate, Method
from discoformer.priors import GMMPrior

SEED = 3_000_000  # of all tests; training draws its own, validation has 1_000_000 and 2_000_000
STEP = 7919  # between the seeds of data sets, as in `discoformer.evaluation`
RESULTS = Path(__file__).parent / "results"
MODES = tuple(range(1, 11))


class Case(NamedTuple):
    """A sample (n, d), the points to answer at (m, d), and the exact answers there."""

    context: torch.Tensor
    queries: torch.Tensor
    truth: Estimate[torch.Tensor]


class Setting(NamedTuple):
    """A kind of data set: its name, shape, and how to draw the one with a given index."""

    name: str
    dim: int
    size: int
    draw: Callable[[int], Case]


def at_sample(data: Dataset, rows: int | None = None) -> Case:
    """Answer at the sample points, or at the first few of them (the order of a sample is random)."""
    truth = Estimate(data.truth.log_density[:rows], data.truth.score[:rows])
    return Case(data.context, data.context[:rows], truth)


def gmm_setting(
    covariance: str,
    dim: int,
    size: int,
    *,
    modes: Sequence[int] = MODES,
    reading: str = "std",
    rows: int | None = None,
    fresh: int | None = None,
) -> Setting:
    """Random Gaussian mixtures, the numbers of modes in turn; answers at the sample or at fresh points."""
    prior = GMMPrior(covariance=covariance, reading=reading, weights="equal")

    def draw(index: int) -> Case:
        seed = SEED + STEP * index
        mode = modes[index % len(modes)]
        data = next(gmm_datasets(dim, size, 1, seed, modes=(mode,), prior=prior))
        if fresh is None:
            return at_sample(data, rows)
        queries = data.distribution.sample(fresh, torch.Generator().manual_seed(seed + 1))
        log_density, score = data.distribution.estimate(queries)
        return Case(data.context, queries[0], Estimate(log_density[0], score[0]))

    name = covariance if reading == "std" else f"{covariance} {reading}"
    name += "" if modes == MODES else f" k={','.join(map(str, modes))}"
    name += "" if rows is None else f" at {rows}"
    name += "" if fresh is None else f" at {fresh} fresh"
    return Setting(name, dim, size, draw)


class Store:
    """Lines of a CSV file by key; a new line is on disk when `add` returns."""

    def __init__(self, path: Path, keys: Sequence[str], values: Sequence[str]) -> None:
        self.path, self.keys, self.values = path, list(keys), list(values)
        self.lines: dict[tuple[str, ...], dict[str, float]] = {}
        if path.exists():
            with path.open(newline="") as file:
                for line in csv.DictReader(file):
                    key = tuple(line[name] for name in self.keys)
                    self.lines[key] = {name: float(line[name]) for name in self.values}

    def get(self, *key: object) -> dict[str, float] | None:
        return self.lines.get(tuple(map(str, key)))

    def add(self, key: Sequence[object], values: dict[str, float]) -> dict[str, float]:
        self.lines[tuple(map(str, key))] = values
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = not self.path.exists()
        with self.path.open("a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if new:
                writer.writerow([*self.keys, *self.values])
            writer.writerow([*key, *(f"{values[name]:.8g}" for name in self.values)])
        return values


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


_KEYS = ("setting", "d", "n", "seed", "method")


@dataclass
class Session:
    """One run of a benchmark: the model, the files, the number of data sets, and the bars so far."""

    results: Path
    datasets: int
    label: str  # name of the model
    identity: str  # name and fingerprint; empty if only the peers are measured
    model: Method | None

    def __post_init__(self) -> None:
        self.peers = Store(self.results / "peers.csv", _KEYS, Pooled._fields)
        self.models = Store(self.results / "models.csv", _KEYS, Pooled._fields)
        self.bars: list[tuple[str, str, str, bool]] = []

    def measure(self, setting: Setting, peers: Sequence[str]) -> dict[str, Pooled]:
        """Errors of the peers and, under the name "ours", of the model; only what is missing is computed."""
        sources = {name: (self.peers, name) for name in peers}
        if self.model is not None:
            sources["ours"] = (self.models, self.identity)
        lines: dict[str, list[dict[str, float]]] = {name: [] for name in sources}
        label = f"{setting.name} d={setting.dim} n={setting.size}"
        for index in track(range(self.datasets), label):
            case: Case | None = None
            for name, (store, identity) in sources.items():
                key = (setting.name, setting.dim, setting.size, SEED + STEP * index, identity)
                line = store.get(*key)
                if line is None:
                    case = case or setting.draw(index)
                    method = self.model if name == "ours" else PEERS[name]()
                    line = store.add(key, _errors(method, case, f"{identity}, {label}"))
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
        print(f"\n{table}: {self.datasets} data sets each, seeds from {SEED}, model {self.identity or '-'}")
        print_table(header, rows)
        if self.model is None:
            return
        path = self.results / f"{table}.csv"
        columns = ["model", "seed", "datasets", *header]
        kept: list[list[str]] = []
        if path.exists():
            with path.open(newline="") as file:
                old_columns, *old = csv.reader(file)
            kept = [line for line in old if old_columns == columns and line[0].split("@")[0] != self.label]
        new = [[self.identity, str(SEED), str(self.datasets), *row] for row in rows]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([columns, *kept, *new])

    def verdict(self) -> int:
        """Print every bar, then how many are met; for the exit code of the command."""
        if self.bars:
            print("\nbars:")
            rows = [[text, value, bound, "met" if met else "MISSED"] for text, value, bound, met in self.bars]
            print_table(["bar", "value", "bound", ""], rows)
            print(f"{sum(met for *_, met in self.bars)} of {len(self.bars)} bars met")
        return 0


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Options that all benchmarks have."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="default", metavar="NAME_OR_PATH", help="(default: default)")
    parser.add_argument("--datasets", type=int, default=20, help="per setting (default: 20)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--peers", action="store_true", help="measure the peers only, no model is needed")
    parser.add_argument(
        "--results", type=Path, help="folder (default: benchmarks/results; a temporary one with --quick)"
    )
    return parser


@contextlib.contextmanager
def session(args: argparse.Namespace) -> Iterator[Session]:
    """The session of parsed arguments."""
    with contextlib.ExitStack() as stack:
        results = args.results or RESULTS
        if args.quick and args.results is None:
            results = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        datasets = min(args.datasets, 2) if args.quick else args.datasets
        if args.peers:
            yield Session(results, datasets, "", "", None)
        else:
            model = make_method(args.model)
            label = model_label(args.model)
            yield Session(results, datasets, label, f"{label}@{fingerprint(model)}", model)


def model_label(name: str) -> str:
    """A short name for a model given by name or path; a run is named after its folder.

    >>> model_label("default"), model_label("runs/wide/weights.safetensors")
    ('default', 'wide')
    """
    path = Path(name)
    return path.stem if path.stem != "weights" else path.parent.name


def fingerprint(method: Method) -> str:
    """Eight digits that change with the weights and with the code that uses them.

    They are made from mean log densities of fixed samples, rounded so that the order of a sum is no news.
    """
    digits = []
    for dim, size in ((1, 64), (2, 300), (5, 1100), (10, 64)):
        with contextlib.suppress(DataError), torch.no_grad():  # a network for one dimension only
            sample = torch.randn(size, dim, generator=torch.Generator().manual_seed(dim), dtype=torch.float64)
            log_density = method.fit(sample**3).log_density(sample)
            digits.append(f"{dim}:{float(log_density.mean()):.6f}")
    return hashlib.sha256(" ".join(digits).encode()).hexdigest()[:8]


def best_peer(errors: dict[str, Pooled]) -> str:
    """The peer with the least relative score error."""
    peers = [name for name in errors if name != "ours"]
    return min(peers, key=lambda name: errors[name].relative)


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


def _errors(method: Method, case: Case, label: str) -> dict[str, float]:
    """Errors of one fit; a method that cannot be fitted has NaN, which meets no bar."""
    start = time.perf_counter()
    try:
        with torch.no_grad():
            estimate = method.fit(case.context).estimate(case.queries)
    except DataError as error:
        print(f"{label}: failed: {error}")
        return dict.fromkeys(Pooled._fields, math.nan)
    seconds = time.perf_counter() - start
    errors = Errors()
    errors.add(estimate, case.truth)
    return {
        "score_error": errors.score_error,
        "score_square": errors.score_square,
        "score_mse": errors.score_mse,
        "log_density_mse": errors.log_density_mse,
        "seconds": seconds,
    }

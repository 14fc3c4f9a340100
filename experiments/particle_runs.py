"""What the particle experiments share: measurements kept line by line, bars, and how they are told."""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from discoformer.cli.show import print_table

RESULTS = Path(__file__).parent / "results"
SEED = 4_000_000  # of all particle experiments; benchmarks and validation have their own


class Ledger:
    """A CSV file of measurements by key; a line is on disk when `add` returns, so a run can be continued.

    Rivals do not change and are measured once.  A network may have new weights under an old name, so
    what ``fresh`` names is forgotten when the file is opened, and measured again.
    """

    def __init__(self, path: Path, keys: Sequence[str], values: Sequence[str], fresh: str) -> None:
        self.path, self.keys, self.values = path, tuple(keys), tuple(values)
        self.lines: dict[tuple[str, ...], dict[str, float]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            with path.open(newline="") as file:
                for line in csv.DictReader(file):
                    if line["oracle"] != fresh:
                        key = tuple(line[name] for name in self.keys)
                        self.lines[key] = {name: float(line[name]) for name in self.values}
        with path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*self.keys, *self.values])
            writer.writerows([*key, *line.values()] for key, line in self.lines.items())

    def get(self, *key: object) -> dict[str, float] | None:
        return self.lines.get(tuple(map(str, key)))

    def add(self, key: Sequence[object], line: dict[str, float]) -> dict[str, float]:
        rounded = {name: float(f"{line[name]:.8g}") for name in self.values}
        self.lines[tuple(map(str, key))] = rounded
        with self.path.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow([*key, *rounded.values()])
        return rounded


class Bars:
    """Bounds that the numbers must keep, told at the end."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []

    def check(self, what: str, value: float, bound: float) -> None:
        """Note the bar value <= bound; a NaN meets no bar."""
        self.rows.append([what, f"{value:.4g}", f"<= {bound:.4g}", "met" if value <= bound else "MISSED"])

    def tell(self) -> None:
        print_table(["bar", "value", "bound", ""], self.rows)
        print(f"{sum(row[-1] == 'met' for row in self.rows)} of {len(self.rows)} bars met")


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Options that all particle experiments have."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="default", help="our oracle, a name or a path (default: default)")
    parser.add_argument("--seeds", type=int, default=10, help="samples per setting (default: 10)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument(
        "--results", type=Path, help="folder (default: experiments/results; a temporary one with --quick)"
    )
    return parser


@contextmanager
def results_folder(args: argparse.Namespace) -> Iterator[Path]:
    """The folder of parsed arguments."""
    if args.quick and args.results is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    else:
        yield args.results or RESULTS


def write_rows(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table and keep it as CSV."""
    print(f"\n{path.name}")
    print_table(header, rows)
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])

"""Where numbers come from: the commit and the machine, kept beside them in `runs.csv`.

Every line of a results file names its run by six digits.  `runs.csv` in the same folder says which commit and
which kind of machine that was, and whether the sizes were full or those of ``--quick``; a folder holds one
kind only.  `minutes.csv` says how long an experiment took when it was measured from an empty folder.
No file names a host, a user or a path.
"""

from __future__ import annotations

import csv
import hashlib
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch

import discoformer
from discoformer.core.checks import DataError
from discoformer_paper.harness.ledger import Ledger, write_csv

__all__ = [
    "QUICK",
    "RUNS",
    "Run",
    "check_sizes",
    "commit",
    "machine",
    "minutes_ledger",
    "read_runs",
    "record_minutes",
    "record_run",
]

RUNS = "runs.csv"
FULL, QUICK = "full", "quick"
_PACKAGE = Path(discoformer.__file__).parent


class Run(NamedTuple):
    """Commit, machine and sizes ("full" or "quick") of a run."""

    commit: str
    machine: str
    sizes: str


def commit() -> str:
    """The commit of this source tree, with a plus if the package has changed; without git, the version."""
    try:
        top = _git("rev-parse", "--show-toplevel")
        # an installed package may lie inside another repository
        if Path(top, "src", "discoformer").resolve() == _PACKAGE.resolve():
            changed = _git("--no-optional-locks", "status", "--porcelain", "--", str(_PACKAGE))
            return _git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        pass
    return f"discoformer {discoformer.__version__}"


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(_PACKAGE), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def machine() -> str:
    """Processor, number of cores and version of torch.

    >>> machine().split(", ")[-1].startswith("torch ")
    True
    """
    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{[*names, processor][0]}, {os.cpu_count()} cores, torch {torch.__version__}"


def check_sizes(folder: Path, *, quick: bool) -> None:
    """Refuse a folder with measurements of the other kind, so that tiny ones never pass for results."""
    kinds = {run.sizes for run in read_runs(folder).values()}
    if quick and FULL in kinds:
        raise DataError(f"{folder} holds results of full size: give --quick another --out, or none")
    if not quick and QUICK in kinds:
        raise DataError(f"{folder} holds results of --quick: remove it, or give another --out")


def record_run(folder: Path, *, quick: bool) -> str:
    """Name of a run of this commit on this machine, which is added to `runs.csv` of the folder."""
    run = Run(commit(), machine(), QUICK if quick else FULL)
    name = hashlib.sha256("|".join(run).encode()).hexdigest()[:6]
    known = read_runs(folder)
    if name not in known:
        lines = [[key, *values] for key, values in (known | {name: run}).items()]
        write_csv(folder / RUNS, [["run", *Run._fields], *lines])
    return name


def read_runs(folder: Path) -> dict[str, Run]:
    """The runs that a folder holds, by name."""
    path = folder / RUNS
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {line.pop("run"): Run(**line) for line in csv.DictReader(file)}


def minutes_ledger(folder: Path, run: str = "") -> Ledger:
    """How long experiments took from an empty folder: rows measured, processes, minutes."""
    return Ledger(folder / "minutes.csv", ("experiment",), ("rows", "workers", "minutes"), run)


def record_minutes(folder: Path, experiment: str, taken: Mapping[str, float], run: str) -> None:
    """Keep how long an experiment took, in place of an earlier entry."""
    ledger = minutes_ledger(folder, run)
    ledger.forget(lambda key: key["experiment"] == experiment)
    ledger.add([experiment], taken)

"""Where numbers come from: the commit and the machine, kept beside them in `runs.csv`.

Every line of a results file names its run, six digits; `runs.csv` in the same folder says which commit of
the project and which kind of machine that was.  No names of hosts, users or paths.
"""

from __future__ import annotations

import csv
import hashlib
import os
import platform
import subprocess
from pathlib import Path

import torch

import discoformer
from discoformer.io import replacing

__all__ = ["RUNS", "commit", "machine", "read_runs", "record_run"]

RUNS = "runs.csv"
_PACKAGE = Path(discoformer.__file__).parent


def commit() -> str:
    """The commit of this source tree, with a plus if the package has changed since; else the version."""
    try:
        top = _git("rev-parse", "--show-toplevel")
        # an installed package may lie in somebody else's repository
        if Path(top, "src", "discoformer").resolve() == _PACKAGE.resolve():
            changed = _git("--no-optional-locks", "status", "--porcelain", "--", str(_PACKAGE))
            return _git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        pass
    return f"discoformer {discoformer.__version__}"


def machine() -> str:
    """Processor, number of cores and version of torch.

    >>> machine().split(", ")[-1].startswith("torch ")
    True
    """
    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
                break
    return f"{processor}, {os.cpu_count()} cores, torch {torch.__version__}"


def record_run(folder: Path) -> str:
    """The name of a run of this commit on this machine, which `runs.csv` of the folder then holds."""
    said = (commit(), machine())
    name = hashlib.sha256("|".join(said).encode()).hexdigest()[:6]
    known = read_runs(folder)
    if name not in known:
        folder.mkdir(parents=True, exist_ok=True)
        known[name] = said
        with replacing(folder / RUNS) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["run", "commit", "machine"])
            writer.writerows([key, *values] for key, values in known.items())
    return name


def read_runs(folder: Path) -> dict[str, tuple[str, str]]:
    """Commit and machine of the runs that a folder holds, by name."""
    path = folder / RUNS
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {line["run"]: (line["commit"], line["machine"]) for line in csv.DictReader(file)}


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(_PACKAGE), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

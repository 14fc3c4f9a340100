"""The path of a call through the package: files, functions, changes of file, checks that numbers are finite.

    python tools/call_path.py fit          DiScoFormer().fit of 80 x 2
    python tools/call_path.py estimate     the fitted estimator asked at three rows
    python tools/call_path.py command      `discoformer estimate FILE` of 80 rows
    python tools/call_path.py train        one step of a small recipe
    python tools/call_path.py fit --all    every file with its functions, in the order of first use

Only code of the package counts.  A first call fills the caches; the second one is followed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import torch

import discoformer

PACKAGE = Path(discoformer.__file__).parent
FINITE = (
    "check_points",
    "refuse_missing",
    "_refuse_lost",
    "answer",
)  # functions that look for NaN and infinity


class Calls(list[tuple[str, str]]):
    """The package's calls in order: file and function."""

    def follow(self, call: Callable[[], object]) -> None:
        """Record the package's calls of one run."""

        def profile(frame: FrameType, event: str, _: object) -> None:
            file = Path(frame.f_code.co_filename)
            if event == "call" and file.is_relative_to(PACKAGE) and not frame.f_code.co_name.startswith("<"):
                self.append((str(file.relative_to(PACKAGE)), frame.f_code.co_qualname))

        sys.setprofile(profile)
        try:
            call()
        finally:
            sys.setprofile(None)


def calls() -> dict[str, Callable[[], object]]:
    """What can be followed, by name."""
    sample = np.random.default_rng(0).normal(size=(80, 2))
    fitted = discoformer.DiScoFormer().fit(sample)
    folder = Path(tempfile.mkdtemp())
    np.savetxt(folder / "data.csv", sample, delimiter=",", header="a,b", comments="")

    def command() -> None:
        from discoformer.cli import main

        with contextlib.redirect_stdout(io.StringIO()):
            main(["estimate", str(folder / "data.csv")])

    def train() -> Callable[[], object]:
        from discoformer.training.config import Recipe
        from discoformer.training.loop import Trainer

        core = {"kind": "unified", "layers": 1, "width": 8, "heads": 2, "slots": 4}
        values = {"name": "x", "core": core, "frame": "whiten", "prior": {"name": "gmm"}}
        trainer = Trainer(Recipe(**values, sizes=(32, 32), tokens=64), folder, "cpu")
        return trainer.train_step

    return {
        "fit": lambda: discoformer.DiScoFormer().fit(sample),
        "estimate": lambda: fitted.estimate(sample[:3]),
        "command": command,
        "train": train(),
    }


def main() -> None:
    """Follow one call and print its path."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("call", choices=("fit", "estimate", "command", "train"))
    parser.add_argument("--all", action="store_true", help="list files and functions")
    args = parser.parse_args()
    torch.set_num_threads(1)
    call = calls()[args.call]
    call()
    path = Calls()
    path.follow(call)
    files: dict[str, dict[str, None]] = {}
    for file, function in path:
        files.setdefault(file, {})[function] = None
    changes = sum(a[0] != b[0] for a, b in zip(path, path[1:], strict=False))
    checks = sum(function.split(".")[-1] in FINITE for _, function in path)
    functions = sum(map(len, files.values()))
    counts = f"{len(files)} files, {functions} functions, {changes} changes of file"
    print(f"{args.call}: {counts}, {checks} checks that numbers are finite")
    if args.all:
        for file, names in files.items():
            print(f"  {file}: {', '.join(names)}")


if __name__ == "__main__":
    main()

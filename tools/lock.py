"""Write lock.txt: the versions of constraints.txt with the hashes of their files.

    python3.11 tools/lock.py python3.11 python3.12 python3.13

asks the pip of every interpreter named for the files that it would install here, and writes the hashes of
all of them; nothing is installed.  torch is left out: which build of it is at hand differs between machines,
and it is installed first (see the Makefile).  What has no file for an interpreter is named.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEADER = """\
# The versions of constraints.txt with the hashes of their files, for `make locked`; by tools/lock.py.
# Linux on x86-64, for the interpreters that the tests run with.
"""


def pins() -> list[str]:
    """The lines of constraints.txt that name a version, torch's not among them."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [line for line in lines if "==" in line and not line.startswith(("#", "torch=="))]


def hashes_of(python: str, wanted: list[str]) -> dict[str, str]:
    """The sha256 of the files that an interpreter would install, by pin; all in one call if all are there."""
    ask = [
        python,
        "-m",
        "pip",
        "install",
        "-q",
        "--dry-run",
        "--ignore-installed",
        "--no-deps",
        "--report",
        "-",
    ]
    done = subprocess.run([*ask, *wanted], capture_output=True, text=True)
    if done.returncode:
        if len(wanted) == 1:
            print(f"{wanted[0]}: no file for {python}")
            return {}
        half = len(wanted) // 2
        return hashes_of(python, wanted[:half]) | hashes_of(python, wanted[half:])
    found = {
        plain(item["metadata"]["name"]): str(item["download_info"]["archive_info"]["hashes"]["sha256"])
        for item in json.loads(done.stdout)["install"]
    }
    return {pin: found[plain(pin.split("==")[0])] for pin in wanted}


def plain(name: str) -> str:
    """A package's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main(interpreters: list[str]) -> None:
    every = [hashes_of(python, pins()) for python in interpreters]
    entries = []
    for pin in pins():
        hashes = sorted({found[pin] for found in every if pin in found})
        if hashes:
            entries.append(" \\\n".join([pin, *(f"    --hash=sha256:{digest}" for digest in hashes)]))
    (ROOT / "lock.txt").write_text(HEADER + "\n".join(entries) + "\n")
    print(f"{len(entries)} packages in lock.txt")


if __name__ == "__main__":
    main(sys.argv[1:] or [sys.executable])

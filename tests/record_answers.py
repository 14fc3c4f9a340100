"""Write what every case of `recorded_cases.py` answers now: `python tests/record_answers.py`.

To be run on purpose only, when answers are meant to change; `test_recorded_answers.py` compares with it.
With names, or beginnings of names, only those cases are asked again and the others stay as they are.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from recorded_cases import CASES, Answer, ask

RECORDING = Path(__file__).with_name("recorded_answers.json")


def read(path: Path = RECORDING) -> dict[str, dict[str, object]]:
    """The recording: nested lists of numbers, or words, by case and name."""
    recorded: dict[str, dict[str, object]] = json.loads(path.read_text())
    return recorded


def as_json(answer: Answer) -> dict[str, object]:
    """Numbers with all their digits, so that reading gives the same ones back."""
    return {key: value if isinstance(value, str) else value.tolist() for key, value in answer.items()}


def write(recorded: dict[str, dict[str, object]], path: Path) -> None:
    """A line for each case, so that a difference shows which ones have changed."""
    lines = [f"{json.dumps(name)}: {json.dumps(recorded[name])}" for name in sorted(recorded)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def run() -> None:
    parser = argparse.ArgumentParser(description="Record what the package answers now.")
    parser.add_argument("names", nargs="*", help="cases, or beginnings of their names (default: all)")
    parser.add_argument("--out", type=Path, default=RECORDING, help="(default: recorded_answers.json)")
    args = parser.parse_args()
    chosen = [name for name in CASES if not args.names or name.startswith(tuple(args.names))]
    recorded = {name: found for name, found in read(args.out).items() if name in CASES} if args.names else {}
    began = time.perf_counter()
    for name in chosen:
        recorded[name] = as_json(ask(name))
    write(recorded, args.out)
    size, seconds = args.out.stat().st_size / 1024, time.perf_counter() - began
    print(f"{len(chosen)} case(s) recorded in {seconds:.0f} s, {len(recorded)} in all, {size:.0f} KB")


if __name__ == "__main__":
    run()

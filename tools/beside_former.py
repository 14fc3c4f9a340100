"""Committed tables of the default beside those of a former commit: errors, and their ratio.

    python tools/beside_former.py              # the default of stage one, a stack of two networks (e790a36)
    python tools/beside_former.py --commit REV

Reads paper/benchmarks/results here and in the commit; measures nothing.
"""

from __future__ import annotations

import argparse
import io
import subprocess
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[1]
TABLES = (
    "gmm_diagonal",
    "gmm_rotated",
    "gmm_diagonal_from_20",
    "gmm_rotated_from_20",
    "families",
    "dimensions",
)
KEYS = ("family", "covariance", "d", "n")


def former(commit: str, table: str) -> pd.DataFrame:
    """The lines of the default in a commit, whose benchmarks may be in another folder."""
    for folder in ("paper/benchmarks", "benchmarks"):
        name = f"{commit}:{folder}/results/{table}.csv"
        done = subprocess.run(["git", "-C", str(ROOT), "show", name], capture_output=True, text=True)
        if done.returncode == 0:
            return of_default(pd.read_csv(io.StringIO(done.stdout)))
    raise SystemExit(f"{table}.csv is not in {commit}: give another --commit")


def of_default(table: pd.DataFrame) -> pd.DataFrame:
    """The lines of the network that is the default."""
    return table[table.model.str.startswith("default@")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--commit", default="e790a36")
    args = parser.parse_args()
    for name in TABLES:
        now = of_default(pd.read_csv(ROOT / "paper" / "benchmarks" / "results" / f"{name}.csv"))
        keys = [key for key in KEYS if key in now]
        both = now.merge(former(args.commit, name), on=keys, suffixes=("", " then"))
        both["ratio"] = both.ours / both["ours then"]
        pooled = both.ours.sum() / both["ours then"].sum()
        print(f"\n{name}: {', '.join(both.model.unique())}; sum of errors over the sum then: {pooled:.3f}")
        print(both[[*keys, "ours", "ours then", "ratio"]].round(3).to_string(index=False))


if __name__ == "__main__":
    main()

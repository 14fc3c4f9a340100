"""Errors planted in real rows: is the right column named, and are false discoveries as rare as asked?

    python paper/benchmarks/planted.py --data DIR

Normal rows of ten tables of ADBench (see adbench.py for ``--data``).  A random half, at most 2000 rows, is
fitted.  *Reasons*: in each of 200 other rows one value is spoiled: multiplied by ten (a swapped unit), with
the wrong sign, or copied from another row; it counts as an error if it moves by at least one standard
deviation of its column.  How often is that column the first of `explain`?  *Discoveries*: of up to 1000 other
rows a tenth is spoiled in the same ways; rows are called odd by conformal p-values at a false discovery rate
of 10 %.  Tables results/planted_reasons.csv and results/planted_discoveries.csv.  The tables of ADBench have
at least a thousand rows: the p-value of n rows is not below 1 / (n + 1), and few rows can prove nothing.
Bars: 85 % named first over all; the rate of false discoveries, over all tables and splits, from 8 to 12 %.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from adbench import DATA, find_tables
from numpy.typing import NDArray

from discoformer import DiScoFormer
from discoformer.columns.split import kinds_of
from discoformer.detection.reasons import over_usual, surprises, usual_rows
from discoformer_paper.harness.benchmark import Session, benchmark
from discoformer_paper.harness.terminal import track

TABLES = (
    "annthyroid",
    "cover",
    "magic.gamma",
    "mammography",
    "pendigits",
    "PageBlocks",
    "vowels",
    "thyroid",
    "Waveform",
    "Wilt",
)
KINDS = ("unit", "sign", "copy")
FITTED, SPOILED, ASKED, RATE = 2000, 200, 1000, 0.1
Array = NDArray[np.float64]


def normal_rows(path: Path) -> Array:
    """Rows that are no anomalies, of the columns that vary."""
    with np.load(path) as table:
        rows = table["X"][table["y"] == 0].astype(np.float64)
    return rows[:, rows.std(0) > 0]


def spoil(rows: Array, kinds: NDArray[np.int64], rng: np.random.Generator) -> tuple[Array, NDArray[np.int64]]:
    """Rows with an error each, and its column; -1 where none was found that moves the value far enough."""
    spread, result = rows.std(0), rows.copy()
    columns = np.full(len(rows), -1)
    for i, kind in enumerate(kinds):
        for j in rng.permutation(rows.shape[1]):
            value = rows[i, j]
            wrong = {"unit": 10 * value, "sign": -value, "copy": rows[rng.integers(len(rows)), j]}[
                KINDS[kind]
            ]
            if abs(wrong - value) >= spread[j]:
                result[i, j], columns[i] = wrong, j
                break
    return result, columns


def split(rows: Array, rng: np.random.Generator, model: Any) -> tuple[DiScoFormer, Array]:
    """An estimator of a half of the rows, and the other half."""
    rows = rows[rng.permutation(len(rows))]
    half = min(len(rows) // 2, FITTED)
    return DiScoFormer(model=model).fit(rows[:half]), rows[half:]


def named_first(est: DiScoFormer, rows: Array, rng: np.random.Generator) -> dict[str, list[bool]]:
    """Whether the spoiled column comes first, by kind of error."""
    rows = rows[:SPOILED]
    kinds = np.arange(len(rows)) % len(KINDS)
    spoiled, columns = spoil(rows, kinds, rng)
    with torch.no_grad():
        sample = torch.from_numpy(est._sample)
        support = est.field_.support
        inner = est.field_.marginal(support) if len(support) < est.field_.dim else est.field_
        asked, usual = torch.from_numpy(spoiled[:, support]), usual_rows(sample[:, support])
        found = surprises(inner, asked)
        excess = over_usual(found, asked, surprises(inner, usual), usual, kinds_of(inner))
    first = np.array(support)[excess.argmax(-1).numpy()]
    return {
        kind: (first == columns)[(kinds == k) & np.isin(columns, support)].tolist()
        for k, kind in enumerate(KINDS)
    }


def discovered(est: DiScoFormer, rows: Array, rng: np.random.Generator) -> tuple[float, float]:
    """Share of false discoveries, and share of the errors found."""
    rows = rows[:ASKED].copy()
    count = len(rows) // 10
    spoiled, _ = spoil(rows, rng.integers(len(KINDS), size=len(rows)), rng)
    rows[:count] = spoiled[:count]
    wrong = np.arange(len(rows)) < count
    found = est.discoveries(rows, rate=RATE)
    return float((found & ~wrong).sum() / max(1, found.sum())), float(found[wrong].mean())


@benchmark(
    __doc__,
    datasets=5,
    options={
        "--data": {"type": Path, "default": DATA, "metavar": "DIR", "help": "folder of the npz files"},
        "--tables": {"nargs": "+", "metavar": "NAME", "default": list(TABLES), "help": "other tables"},
    },
)
def main(run: Session, args: Namespace) -> None:
    reasons, rates = [], []
    for name, path in find_tables(args.data, args.tables).items():
        rows = normal_rows(path)
        rows = rows[:300] if args.quick else rows
        named: dict[str, list[bool]] = {kind: [] for kind in KINDS}
        shares = []
        for index in track(list(run.indices), name):
            rng = np.random.default_rng(index)
            est, others = split(rows, rng, run.model)
            for kind, hits in named_first(est, others, rng).items():
                named[kind] += hits
            shares.append(discovered(est, others, rng))
        hits = [hit for kind in KINDS for hit in named[kind]]
        cells = [f"{100 * np.mean(named[kind]):.1f}" if named[kind] else "" for kind in KINDS]
        reasons.append([name, rows.shape[1], len(hits), *cells, f"{100 * np.mean(hits):.1f}"])
        false, power = np.mean(shares, 0)
        error = np.std(shares, 0)[0] / np.sqrt(len(shares))
        rates.append([name, len(shares), f"{100 * false:.1f}", f"{100 * error:.1f}", f"{100 * power:.1f}"])
    first = float(np.mean([float(line[-1]) for line in reasons]))
    run.bar("column named first, %", first, 85.0, below=False)
    rate = float(np.mean([float(line[2]) for line in rates]))
    run.bar("false discoveries, %", rate, 12.0)
    run.bar("false discoveries, %", rate, 8.0, below=False)
    run.finish(
        "planted_reasons", ["table", "d", "errors", *(f"{k} %" for k in KINDS), "named first %"], reasons
    )
    run.finish("planted_discoveries", ["table", "splits", "false %", "+-", "errors found %"], rates)


if __name__ == "__main__":
    raise SystemExit(main())

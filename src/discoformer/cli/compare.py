"""`discoformer compare`: which method describes a sample best, by held-out log-likelihood."""

from __future__ import annotations

import argparse
import csv
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from discoformer.baselines.combination import MixturePerCombination
from discoformer.baselines.independent import IndependentColumns
from discoformer.cli.options import (
    FILES,
    add_columns,
    add_fit,
    independent,
    name_list,
    read_file,
    read_input,
    seed_number,
)
from discoformer.cli.parser import command_parser
from discoformer.columns.bounds import FREE, fill_bounds, fit_maps, parse_bounds
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.columns.kinds import CONTINUOUS
from discoformer.columns.schema import infer_schema
from discoformer.core.atomic_files import check_folder, replacing
from discoformer.core.checks import DataError, refuse_unknown
from discoformer.core.fields import Method
from discoformer.core.progress import track
from discoformer.data.datasets import REAL, real_dataset
from discoformer.data.files import Table, few_values
from discoformer.evaluation.held_out import HeldOut, held_out_log_likelihood, score_error
from discoformer.evaluation.known_truth import Dataset, gmm_dataset
from discoformer.methods import PEERS, Resolved, describe_methods, resolve, takes_kinds
from discoformer.views.terminal import print_table

__all__ = ["make_parser", "run"]

DESCRIPTION = """\
Compare methods on the rows of FILE by 5-fold cross-validation: the mean log density of rows that the fit
has not seen (higher is better), its standard error, and how far each method is behind the best one, with
the standard error of that difference, row by row. Several files get a table each, and one of all.
Methods other than networks know numbers alone. On tables with categories or gaps, or with --types, the peers
are "combination", a Gaussian mixture for every combination of labels, and "independent", which takes every
column by itself.
"""

EXAMPLES = f"""\
methods:
{describe_methods()}

examples:
  discoformer compare data.csv
  discoformer compare data.parquet --columns age,income --folds 10 --out comparison.csv
  discoformer compare data.csv --bounds income=0:      all methods within the bounds
  discoformer compare wine --flow
  discoformer compare {" ".join(REAL)}
  discoformer compare breast_cancer --model default,kde-loo,gmm-full --json
  discoformer compare gmm:5,1024,4          a random mixture: 5 columns, 1024 rows, 4 components; since the
                                            truth is known, the error of the score is shown as well
"""


INDEPENDENT, COMBINATION = "independent", "combination"
MIXED_PEERS = {
    COMBINATION: "a Gaussian mixture for every combination of labels",
    INDEPENDENT: "every column by itself",
}


@dataclass(frozen=True)
class Row:
    """One line of the result; None where there is nothing to say."""

    data: str
    method: str
    log_likelihood: float | None = None
    standard_error: float | None = None
    behind_best: float | None = None
    behind_best_error: float | None = None
    score_error: float | None = None
    seconds: float | None = None
    failure: str | None = None


@dataclass(frozen=True)
class ComparedTable:
    """What to compare on: a table with its name, its bounds and, for a random mixture, the truth."""

    name: str
    table: Table
    bounds: Sequence[tuple[float, float]] | None = None
    truth: Dataset | None = None

    @property
    def mixed(self) -> bool:
        """Whether it has more than plain numbers: other kinds of columns, or gaps."""
        return set(self.table.kinds) != {CONTINUOUS} or bool(np.isnan(self.table.values).any())


def make_parser(name: str) -> argparse.ArgumentParser:
    """Options of the subcommand."""
    parser = command_parser(name, DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "data",
        metavar="FILE",
        nargs="+",
        help=f"{FILES}; or one of {', '.join(REAL)}; or gmm:d,n,k",
    )
    add_columns(parser)
    add_fit(parser, model=False)
    parser.add_argument("--folds", type=int, default=5, help="parts of the cross-validation (default: 5)")
    parser.add_argument(
        "--seed", type=seed_number, default=0, help="of the split, and of gmm:d,n,k (default: 0)"
    )
    parser.add_argument(
        "--model",
        metavar="M,M",
        type=name_list,
        default=["default", *PEERS],
        help=f"what to compare (default: default,{','.join(PEERS)})",
    )
    parser.add_argument("--flow", action="store_true", help="add a neural spline flow; takes minutes")
    parser.add_argument("--out", metavar="CSV", type=Path, help="write the table")
    return parser


def run(args: argparse.Namespace) -> None:
    """Read the data and make every method first; then fit fold by fold, and report the best first."""
    if args.out:
        if args.out.suffix.lower() != ".csv":
            raise DataError(f"{args.out}: the table is written as .csv, give such a name to --out")
        check_folder(args.out)
        if os.path.realpath(args.out) in map(os.path.realpath, args.data):
            raise DataError(f"{args.out}: is an input file, give another name to --out")
    names = list(dict.fromkeys([*args.model, *(["flow"] if args.flow else [])]))
    methods = {name: resolve(name).method for name in names}
    samples = [_read(name, args) for name in dict.fromkeys(args.data)]
    for sample in samples:
        _check_folds(sample, args.folds)

    results = []
    for sample in samples:
        results.append(_compare(sample, methods, args))
        if not args.json:
            print(end="\n" if len(results) > 1 else "")
            _print(sample, results[-1], args.folds, names)
    if args.out:
        _write([row for rows in results for row in rows], args.out)
    if args.json:
        found = [_object(sample, rows, args) for sample, rows in zip(samples, results, strict=True)]
        print(json.dumps(found[0] if len(found) == 1 else {"files": found}))
        return
    if len(samples) > 1:
        _print_all(results, [*names, *MIXED_PEERS])
    if args.out:
        print(f"wrote {args.out}")


def _read(name: str, args: argparse.Namespace) -> ComparedTable:
    if name.startswith("gmm:"):
        for option in ("columns", "exclude", "types", "drop_dependent", "bounds", "weights"):
            if getattr(args, option):
                option = option.replace("_", "-")
                raise DataError(f"--{option} does not go with gmm:d,n,k: the truth is for what it draws")
        data = gmm_dataset(name, args.seed)
        columns = tuple(f"x{j}" for j in range(data.context.shape[1]))
        return ComparedTable(name, Table(data.context.numpy(), columns), truth=data)
    table = _read_real(name, args.columns) if name in REAL else _read_table(name, args)
    kept = independent(table)[0] if args.drop_dependent else table
    pairs = fill_bounds(parse_bounds(args.bounds, len(table.names), table.names), table.bounds)
    if set(pairs) == {FREE}:
        return ComparedTable(name, kept)
    bounds = [pairs[table.names.index(column)] for column in kept.names]
    if not ComparedTable(name, kept).mixed:
        # values beyond a bound are refused here: in a fold, the message would count that fold's rows
        fit_maps(torch.as_tensor(kept.values), None, bounds, kept.names)
    return ComparedTable(name, kept, bounds)


def _read_table(name: str, args: argparse.Namespace) -> Table:
    """A file as plain numbers, which all methods take; with kinds given categories, gaps or --types."""
    raw = read_file(args, name)
    mixed = any(takes_kinds(resolve(model)) for model in args.model)
    if mixed and not args.types:
        schema = infer_schema(raw.frame, {}, args.exclude, args.columns, raw.units)
        mixed = any(column.use == "code" or column.gaps for column in schema.used)
    return read_input(args, name, plain=not mixed, raw=raw)


def _check_folds(sample: ComparedTable, folds: int) -> None:
    """Raise `DataError` unless every fold holds out a row and leaves two to fit."""
    rows = len(sample.table.values)
    if rows < 3:
        raise DataError(f"{sample.name}: {rows} rows are too few to hold some out, give at least 3")
    least = 3 if rows == 3 else 2
    if not least <= folds <= rows:
        raise DataError(
            f"{sample.name}: {folds} folds of {rows} rows: "
            f"choose a number from {least} to {rows} with --folds"
        )


def _read_real(name: str, columns: Sequence[str] | None) -> Table:
    table = real_dataset(name)
    if columns:
        refuse_unknown(columns, table.names, "it has", f"{name}: ")
        kept = [table.names.index(column) for column in columns]
        table = Table(table.values[:, kept], tuple(columns))
    return table


def _compare(sample: ComparedTable, known: dict[str, Method], args: argparse.Namespace) -> list[Row]:
    """Every method on one sample; a method that fails gets a row with its message."""
    methods: dict[str, Method | None] = {**known}
    if sample.mixed:
        methods = {n: m for n, m in known.items() if takes_kinds(Resolved(m, n, None)) or n not in PEERS}
        methods |= {COMBINATION: MixturePerCombination(), INDEPENDENT: None}
    held_out: dict[str, HeldOut] = {}
    errors: dict[str, float] = {}
    failures: dict[str, str] = {}
    for name, method in methods.items():
        bar = partial(track, label=f"{sample.name}, {name}")
        try:
            held_out[name] = held_out_log_likelihood(
                _recipe(method, sample),
                sample.table.values,
                args.folds,
                args.seed,
                bar,
                weights=sample.table.weights,
            )
            if sample.truth is not None:
                errors[name] = score_error(_recipe(method, sample), sample.truth)
        except DataError as error:
            failures[name] = str(error)
    if not held_out:
        name, text = next(iter(failures.items()))
        raise DataError(f"{sample.name}: no method could be fitted; {name}: {text}")
    if sample.truth is not None:
        held_out["truth"], errors["truth"] = HeldOut(sample.truth.truth.log_density.numpy(), 0.0), 0.0
    failed = [Row(sample.name, name, failure=text) for name, text in failures.items()]
    return [*_ranked(sample.name, held_out, errors), *failed]


def _recipe(method: Method | None, sample: ComparedTable) -> Method:
    """The method with the table's kinds and bounds; None stands for independent columns."""
    kinds = sample.table.kinds if sample.mixed else None
    recipe = FitRecipe(
        method or resolve("default").method, sample.bounds, sample.table.names, drop=False, kinds=kinds
    )
    return recipe if method is not None else IndependentColumns(recipe)


def _ranked(data: str, held_out: dict[str, HeldOut], errors: dict[str, float]) -> list[Row]:
    """Rows with the best first; the truth is shown, but does not compete."""
    order = sorted(held_out, key=lambda name: -held_out[name].mean)
    best = held_out[next(name for name in order if name != "truth")]
    rows = []
    for name in order:
        result = held_out[name]
        behind, error = best.minus(result)
        rows.append(
            Row(
                data,
                name,
                log_likelihood=result.mean,
                standard_error=result.standard_error,
                behind_best=behind,
                behind_best_error=error,
                score_error=errors.get(name),
                seconds=None if name == "truth" else result.seconds,
            )
        )
    return rows


def _object(sample: ComparedTable, rows: Sequence[Row], args: argparse.Namespace) -> dict[str, Any]:
    """The JSON object for one sample."""
    n, d = sample.table.values.shape
    head = {"data": sample.name, "n": n, "d": d, "columns": sample.table.names}
    return {**head, "folds": args.folds, "seed": args.seed, "rows": [asdict(row) for row in rows]}


def _write(rows: Sequence[Row], path: Path) -> None:
    with replacing(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(asdict(rows[0])), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def _print(sample: ComparedTable, rows: Sequence[Row], folds: int, asked: Sequence[str]) -> None:
    table = sample.table
    n, d = table.values.shape
    print(f"{sample.name}: {n} rows, {d} column(s); log-likelihood per held-out row, {folds} folds\n")
    done = [row for row in rows if row.failure is None]
    header = ["method", "log-likelihood", "+-", "behind the best", "+-", "seconds"]
    cells = [
        [
            row.method,
            _number(row.log_likelihood, 3),
            _number(row.standard_error, 3),
            _number(row.behind_best, 3),
            _number(row.behind_best_error, 3),
            _number(row.seconds, 1),
        ]
        for row in done
    ]
    if any(row.score_error is not None for row in done):
        header.append("score error %")
        percents = [None if row.score_error is None else 100 * row.score_error for row in done]
        cells = [[*line, _number(value, 1)] for line, value in zip(cells, percents, strict=True)]
    print_table(header, cells)
    if sample.mixed:
        what = "; ".join(f"{name} is {peer}" for name, peer in MIXED_PEERS.items())
        print(f"\nall take the same kinds, bounds and gaps; {what}")
        if left := [name for name in asked if name not in {row.method for row in rows}]:
            print(f"left out, since they need numbers without gaps: {', '.join(left)}")
    for row in rows:
        if row.failure is not None:
            print(f"{row.method} failed: {row.failure}")
    if note := few_values(table):
        print(f"note: {note}, where narrow spikes gain without limit: leave such columns out with --columns")


def _print_all(results: Sequence[Sequence[Row]], methods: Sequence[str]) -> None:
    """One line per sample, one column per method, and the best method."""
    methods = [name for name in methods if any(row.method == name for rows in results for row in rows)]
    lines = []
    for rows in results:
        found = {row.method: _number(row.log_likelihood, 3) for row in rows}
        best = next(row.method for row in rows if row.method != "truth")
        lines.append([rows[0].data, *(found.get(name, "") or "none" for name in methods), best])
    print("\nall: log-likelihood per held-out row\n")
    print_table(["data", *methods, "best"], lines)


def _number(value: float | None, decimals: int) -> str:
    """A number for the table; a huge one, which an extreme row can cause, in three digits."""
    if value is None:
        return ""
    return f"{value:.{decimals}f}" if abs(value) < 1e6 else f"{value:.3g}"

"""`discoformer compare`: which method describes a sample best, by held-out log-likelihood."""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from discoformer.checks import DataError, column_names
from discoformer.cli.options import add_columns, independent, name_list
from discoformer.cli.show import print_table, track
from discoformer.comparison import (
    FLOW,
    PEERS,
    HeldOut,
    held_out_log_likelihood,
    make_method,
    score_error,
)
from discoformer.datasets import REAL, gmm_dataset, real_dataset
from discoformer.evaluation import Dataset
from discoformer.io import Table, check_folder, read_sample, replacing

__all__ = ["make_parser", "run"]

DESCRIPTION = """\
Compare methods on the rows of FILE by 5-fold cross-validation: the mean log density of rows that the fit
has not seen (higher is better), its standard error, and how far each method is behind the best one, with
the standard error of that difference, row by row.
"""

EXAMPLES = f"""\
methods:
  default      the network in the package; any name of `discoformer models` or a path to weights works too
  kde-scott    kernel density, Scott's rule per column
  kde-loo      kernel density, bandwidth of largest leave-one-out likelihood
  gmm-full     scikit-learn GaussianMixture, 1 to 20 components by BIC, full covariances
  gmm-diag     the same with diagonal covariances
  bayes-gmm    scikit-learn BayesianGaussianMixture with 20 components
  {FLOW}         neural spline flow, trained on each fold with early stopping (needs zuko)

examples:
  discoformer compare data.csv
  discoformer compare data.parquet --columns age,income --folds 10 --out comparison.csv
  discoformer compare wine --flow
  discoformer compare breast_cancer --methods default,kde-loo,gmm-full --json
  discoformer compare gmm:5,1024,4          a random mixture: 5 columns, 1024 rows, 4 components; since the
                                            truth is known, the error of the score is shown as well
"""

FEW_VALUES = 10  # a column with fewer distinct values than this gets a note


@dataclass(frozen=True)
class Row:
    """One line of the result; None where there is nothing to say."""

    method: str
    log_likelihood: float | None = None
    standard_error: float | None = None
    behind_best: float | None = None
    behind_best_error: float | None = None
    score_error: float | None = None
    seconds: float | None = None
    failure: str | None = None


def make_parser() -> argparse.ArgumentParser:
    """Options of the subcommand."""
    parser = argparse.ArgumentParser(
        prog="discoformer compare",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "data", metavar="FILE", help=f"csv, tsv, npy or parquet; or one of {', '.join(REAL)}; or gmm:d,n,k"
    )
    add_columns(parser)
    parser.add_argument("--folds", type=int, default=5, help="parts of the cross-validation (default: 5)")
    parser.add_argument("--seed", type=int, default=0, help="of the split, and of gmm:d,n,k (default: 0)")
    parser.add_argument(
        "--methods",
        metavar="M,M",
        type=name_list,
        default=["default", *PEERS],
        help=f"what to compare (default: default,{','.join(PEERS)})",
    )
    parser.add_argument("--flow", action="store_true", help="add a neural spline flow; takes minutes")
    parser.add_argument("--out", metavar="CSV", type=Path, help="write the table")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    return parser


def run(args: argparse.Namespace) -> None:
    """Read, make every method before the work starts, fit fold by fold, report the best first."""
    if args.out:
        if args.out.suffix.lower() != ".csv":
            raise DataError(f"{args.out}: the table is written as .csv, give such a name to --out")
        check_folder(args.out)
        if args.out.resolve() == Path(args.data).resolve():
            raise DataError(f"{args.out}: is an input file, give another name to --out")
    names = list(dict.fromkeys([*args.methods, *([FLOW] if args.flow else [])]))
    methods = {name: make_method(name) for name in names}
    table, truth = _read(args)

    held_out: dict[str, HeldOut] = {}
    errors: dict[str, float] = {}
    failures: dict[str, str] = {}
    for name, method in methods.items():
        bar = partial(track, label=name)
        try:
            held_out[name] = held_out_log_likelihood(method, table.values, args.folds, args.seed, bar)
            if truth is not None:
                errors[name] = score_error(method, truth)
        except DataError as error:  # one method may fail where the others have something to say
            failures[name] = str(error)
    if not held_out:
        raise DataError(f"no method could be fitted; {names[0]}: {failures[names[0]]}")
    if truth is not None and truth.truth.log_density is not None:
        held_out["truth"], errors["truth"] = HeldOut(truth.truth.log_density.numpy(), 0.0), 0.0

    rows = [*_ranked(held_out, errors), *(Row(name, failure=text) for name, text in failures.items())]
    if args.out:
        _write(rows, args.out)
    if args.json:
        n, d = table.values.shape
        head = {"data": args.data, "n": n, "d": d, "columns": table.names}
        print(json.dumps({**head, "folds": args.folds, "seed": args.seed, "rows": [asdict(r) for r in rows]}))
    else:
        _print(args, table, rows)


def _read(args: argparse.Namespace) -> tuple[Table, Dataset | None]:
    """The sample and, for a mixture of our own, the truth."""
    if args.data.startswith("gmm:"):
        if args.columns or args.drop_dependent:
            option = "--columns" if args.columns else "--drop-dependent"
            raise DataError(f"{option} does not go with gmm:d,n,k: the truth is known for all columns")
        data = gmm_dataset(args.data, args.seed)
        return Table(data.context.numpy(), tuple(f"x{j}" for j in range(data.context.shape[1]))), data
    if args.data not in REAL:
        table = read_sample(args.data, args.columns, drop_dependent=args.drop_dependent)
    else:
        table = _read_real(args)
    return independent(table)[0] if args.drop_dependent else table, None


def _read_real(args: argparse.Namespace) -> Table:
    table = real_dataset(args.data)
    if args.columns:
        unknown = [name for name in args.columns if name not in table.names]
        if unknown:
            raise DataError(f"{args.data}: no column {unknown[0]!r}, it has {', '.join(table.names)}")
        kept = [table.names.index(name) for name in args.columns]
        table = Table(table.values[:, kept], tuple(args.columns))
    return table


def _ranked(held_out: dict[str, HeldOut], errors: dict[str, float]) -> list[Row]:
    """Rows with the best first; the truth is shown, but it is nobody's rival."""
    order = sorted(held_out, key=lambda name: -held_out[name].mean)
    best = held_out[next(name for name in order if name != "truth")]
    rows = []
    for name in order:
        result = held_out[name]
        behind, error = best.minus(result)
        rows.append(
            Row(
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


def _write(rows: Sequence[Row], path: Path) -> None:
    with replacing(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(asdict(rows[0])), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def _print(args: argparse.Namespace, table: Table, rows: Sequence[Row]) -> None:
    n, d = table.values.shape
    print(f"{args.data}: {n} rows, {d} column(s); log-likelihood per held-out row, {args.folds} folds\n")
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
    for row in rows:
        if row.failure is not None:
            print(f"{row.method} failed: {row.failure}")
    few = [j for j in range(d) if len(np.unique(table.values[:, j])) < FEW_VALUES]
    if few:
        print(
            f"note: {column_names(few, table.names)} has fewer than {FEW_VALUES} values and no density: "
            "a spike on each of them gains without limit, so leave such columns out with --columns"
        )
    if args.out:
        print(f"wrote {args.out}")


def _number(value: float | None, decimals: int) -> str:
    return "" if value is None else f"{value:.{decimals}f}"

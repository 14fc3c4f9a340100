"""Options that several commands share: which columns, of what kind, which model, bounds and weights."""

from __future__ import annotations

import argparse
import csv
import math
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from discoformer.api.fitting import fit_table
from discoformer.columns.schema import KINDS
from discoformer.core.checks import DataError, column_names
from discoformer.core.transforms import SupportWarning
from discoformer.data.files import Table, columns_to_drop, read_sample
from discoformer.data.reading import expand_paths, read_raw
from discoformer.data.table import RawTable
from discoformer.methods import METHODS, resolve, takes_kinds

__all__ = [
    "add_columns",
    "add_fit",
    "add_input",
    "add_reading",
    "bound_pairs",
    "column_pairs",
    "fit_table",
    "independent",
    "kind_pairs",
    "kinds_text",
    "name_list",
    "read_file",
    "read_input",
    "refuse_input",
    "seed_number",
]


FILES = (
    "csv, tsv, xlsx, ods, json, parquet, feather, npy or npz, packed or not, a database, - for standard input"
)


def add_input(parser: argparse.ArgumentParser, of: str = "the sample", *, several: bool = True) -> None:
    """FILE and the options of `add_columns`."""
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        nargs="+" if several else None,
        action=_Files,
        help=f"{of}: {FILES}; several, or a pattern such as 'part-*.csv', are put together",
    )
    add_columns(parser)


class _Files(argparse.Action):
    """Sets ``files`` to all of them and ``file`` to the first, which names the result."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        namespace.files = values if isinstance(values, list) else [values]
        namespace.file = namespace.files[0]


def add_columns(parser: argparse.ArgumentParser) -> None:
    """The options of `add_reading`, and --drop-dependent."""
    add_reading(parser)
    parser.add_argument(
        "--drop-dependent",
        action="store_true",
        help="leave out columns that are constant or linear in those before, instead of refusing them",
    )


def add_reading(parser: argparse.ArgumentParser) -> None:
    """--columns, --exclude, --types, --query, --sheet and --verbose."""
    parser.add_argument("--columns", metavar="A,B", type=name_list, help="use only these columns")
    parser.add_argument(
        "--exclude", metavar="A,B", type=name_list, default=[], help="leave these columns out"
    )
    parser.add_argument(
        "--types",
        metavar="A=KIND,...",
        type=kind_pairs,
        default={},
        help="what columns are, as in age=count,zip=category, or continuous for all numbers; "
        "`discoformer describe` shows what is inferred",
    )
    parser.add_argument("--query", metavar="SQL", help="what to read of a database: SQLite or DuckDB")
    parser.add_argument("--sheet", metavar="NAME", help="of a workbook (default: the first with numbers)")
    parser.add_argument("--verbose", action="store_true", help="say what was read and how, on standard error")


def kind_pairs(text: str) -> dict[str, str] | str:
    """Kinds by column name, or one kind for all columns of numbers.

    >>> kind_pairs("age=count, wind=circular:360"), kind_pairs("continuous")
    ({'age': 'count', 'wind': 'circular:360'}, 'continuous')
    """
    if text.strip().lower().split(":")[0] in KINDS:
        return text.strip()
    return column_pairs(text, "column=kind, as in age=count")


def column_pairs(text: str, form: str) -> dict[str, str]:
    """What is said of columns, by name; ``form`` says how it is written.

    >>> column_pairs("age=40, country=DE", "column=value")
    {'age': '40', 'country': 'DE'}
    """
    pairs = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, said = map(str.strip, part.rpartition("="))
        if not name or not said:
            raise argparse.ArgumentTypeError(f"{part!r}: write {form}")
        pairs[name] = said
    return pairs


def add_fit(parser: argparse.ArgumentParser, *, model: bool = True) -> None:
    """--model, --bounds and --weights."""
    if model:
        parser.add_argument(
            "--model",
            metavar="MODEL",
            default="default",
            help=f"a name of `discoformer models`, a path to weights, or {', '.join(METHODS)} "
            "(default: default)",
        )
    parser.add_argument(
        "--bounds",
        metavar="A=LOW:HIGH,...",
        type=bound_pairs,
        help="where columns end, as in age=0:,share=0:1; without a name for all columns, as in --bounds=-1:1",
    )
    parser.add_argument(
        "--weights", metavar="COLUMN", help="the column that says how much each row counts; it is not fitted"
    )


def add_output(parser: argparse.ArgumentParser, what: str) -> None:
    """--out and --no-formulas."""
    parser.add_argument(
        "--out",
        metavar="OUT",
        type=Path,
        help=f"write {what}: csv, tsv, npy or parquet; - for standard output",
    )
    parser.add_argument(
        "--no-formulas",
        action="store_true",
        help="an apostrophe before names and cells that a spreadsheet would take for formulas",
    )


def name_list(text: str) -> list[str]:
    """Names separated by commas; a name that contains a comma is quoted.

    >>> name_list('age, "income, net"')
    ['age', 'income, net']
    """
    cells = next(csv.reader([text], skipinitialspace=True), [])
    names = [name.strip() for name in cells if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError("give names, separated by commas")
    return names


def seed_number(text: str) -> int:
    """A seed that every random generator accepts.

    >>> seed_number("7")
    7
    """
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r}: give a whole number from 0 to {2**32 - 1}")
    return int(text)


def bound_pairs(text: str) -> dict[str, tuple[float, float]] | tuple[float, float]:
    """Bounds by column name, or one pair for all columns.

    >>> bound_pairs("age=0:,share=0:1")
    {'age': (0.0, inf), 'share': (0.0, 1.0)}
    >>> bound_pairs("0:")
    (0.0, inf)
    """
    if "=" not in text:
        return _pair(text)
    pairs = column_pairs(text, "column=low:high, either side may be empty")
    return {name: _pair(pair) for name, pair in pairs.items()}


def _pair(text: str) -> tuple[float, float]:
    low, found, high = text.partition(":")
    try:
        if found:
            return float(low) if low.strip() else -math.inf, float(high) if high.strip() else math.inf
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r}: write low:high, either side may be empty")


def read_input(
    args: argparse.Namespace, files: Any = None, *, plain: bool | None = None, raw: RawTable | None = None
) -> Table:
    """The sample of a command.  Commands that do not use `fit_table` call `independent` on it next.

    ``plain`` asks for numbers only; by default it is set if the model takes nothing else.  ``raw`` is the
    table if it has been read already.
    """
    return read_sample(
        raw or read_file(args, files),
        args.columns,
        drop_dependent=args.drop_dependent,
        types=args.types,
        exclude=args.exclude,
        plain=not takes_kinds(resolve(args.model)) if plain is None else plain,
        weights=args.weights,
    )


def refuse_input(out: Path, files: Sequence[Path]) -> None:
    """Raise `DataError` if the output would replace an input; standard output replaces nothing."""
    if str(out) != "-" and os.path.realpath(out) in map(os.path.realpath, expand_paths(files)):
        raise DataError(f"{out}: is an input file, give another name to --out")


def read_file(args: argparse.Namespace, files: Any = None) -> RawTable:
    """The files of a command as they were read, types included; --verbose says what was read."""
    if args.json and getattr(args, "out", None) is not None and str(args.out) == "-":
        raise DataError("--json and --out - both write to standard output: leave out one of them")
    raw = read_raw(args.files if files is None else files, args.query, args.sheet)
    if args.verbose:
        print(f"discoformer: read {raw.how}", file=sys.stderr)
        for name, rows in raw.sources:
            print(f"discoformer: {rows} rows from {name}", file=sys.stderr)
    return raw


def independent(*tables: Table) -> list[Table]:
    """The tables without columns that are dependent in any of them, with a warning; names are the same."""
    names = tables[0].names
    dropped = sorted({j for table in tables for j in columns_to_drop(table)})
    kept = [j for j in range(len(names)) if j not in dropped]
    if not kept:
        raise DataError("no column is left: each is constant or linear in the columns before")
    if dropped:
        which = column_names(dropped, names)
        text = f"left out {which} (constant or linear in the columns before): the result is for the others"
        warnings.warn(text, SupportWarning, stacklevel=2)
    return [table.select(kept) for table in tables]


def kinds_text(table: Table) -> str:
    """What the columns of a table were taken as, unless plain numbers; empty if all are plain numbers.

    >>> import numpy as np
    >>> from discoformer.columns.schema import ColumnSchema, Schema
    >>> share = ColumnSchema("share", "bounded", "", low=0.0, high=1.0)
    >>> kinds_text(Table(np.array([[0.5]]), ("share",), schema=Schema((share,))))
    'taken as: share bounded within 0 and 1 (say otherwise with --types)'
    """
    if table.schema is None:
        return ""
    told = [f"{c.name} {c.short}" for c in table.schema.used if c.short != "continuous"]
    more = f" and {len(told) - 8} more" if len(told) > 8 else ""
    return f"taken as: {'; '.join(told[:8])}{more} (say otherwise with --types)" if told else ""

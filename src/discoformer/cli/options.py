"""Options that several commands share: which columns, which model, which bounds."""

from __future__ import annotations

import argparse
import math
import warnings
from pathlib import Path
from typing import Any

from discoformer.api.fitting import fit_sample
from discoformer.core.checks import DataError, column_names
from discoformer.core.fields import Field
from discoformer.core.transforms import SupportWarning
from discoformer.data.files import Table, columns_to_drop, few_values, read_sample
from discoformer.methods import METHODS

__all__ = [
    "add_bounds",
    "add_columns",
    "add_input",
    "add_model",
    "bound_pairs",
    "fit_table",
    "independent",
    "name_list",
    "read_input",
    "seed_number",
]


def add_input(parser: argparse.ArgumentParser, of: str = "the sample") -> None:
    """FILE, --columns and --drop-dependent."""
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help=f"{of}: csv, tsv, npy or parquet; a first column without a name is taken for row labels",
    )
    add_columns(parser)


def add_columns(parser: argparse.ArgumentParser) -> None:
    """--columns and --drop-dependent."""
    parser.add_argument("--columns", metavar="A,B", type=name_list, help="use only these columns")
    parser.add_argument(
        "--drop-dependent",
        action="store_true",
        help="leave out columns that are constant or linear in those before, instead of refusing them",
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """--model."""
    parser.add_argument(
        "--model",
        metavar="MODEL",
        default="default",
        help=f"a name of `discoformer models`, a path to weights, or {', '.join(METHODS)} (default: default)",
    )


def add_bounds(parser: argparse.ArgumentParser) -> None:
    """--bounds."""
    parser.add_argument(
        "--bounds",
        metavar="A=LOW:HIGH,...",
        type=bound_pairs,
        help="where columns end, as in age=0:,share=0:1; without a name for all columns, as in --bounds=-1:1",
    )


def name_list(text: str) -> list[str]:
    """Names from a list with commas.

    >>> name_list("age, income")
    ['age', 'income']
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError("give names, separated by commas")
    return names


def seed_number(text: str) -> int:
    """A seed that every generator takes.

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
    pairs = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, found, pair = part.rpartition("=")
        if not found:
            raise argparse.ArgumentTypeError(f"{part!r}: write column=low:high, either side may be empty")
        pairs[name.strip()] = _pair(pair)
    return pairs


def _pair(text: str) -> tuple[float, float]:
    low, found, high = text.partition(":")
    try:
        if found:
            return float(low) if low.strip() else -math.inf, float(high) if high.strip() else math.inf
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r}: write low:high, either side may be empty")


def read_input(args: argparse.Namespace) -> Table:
    """The sample of a command; what does not fit with `fit_table` asks for `independent` columns next."""
    return read_sample(args.file, args.columns, drop_dependent=args.drop_dependent)


def independent(*tables: Table) -> list[Table]:
    """Tables of the same columns without those that are dependent in any of them, with a warning."""
    names = tables[0].names
    dropped = sorted({j for table in tables for j in columns_to_drop(table)})
    kept = [j for j in range(len(names)) if j not in dropped]
    if not kept:
        raise DataError("no column is left: each is constant or linear in the columns before")
    if dropped:
        which = column_names(dropped, names)
        text = f"left out {which} (constant or linear in the columns before): the result is for the others"
        warnings.warn(text, SupportWarning, stacklevel=2)
    return [Table(table.values[:, kept], tuple(names[j] for j in kept), table.named) for table in tables]


def fit_table(table: Table, model: Any, bounds: Any) -> Field:
    """Fit a model to a table: its bounds, its support, its range, as the estimator does."""
    if note := few_values(table):
        warnings.warn(note, stacklevel=2)
    return fit_sample(table.values, model, bounds=bounds, names=table.names).field

"""Options that several commands share: which columns, which model, which bounds."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from discoformer.bounds import everyday, parse_bounds
from discoformer.checks import DataError
from discoformer.fields import Field
from discoformer.io import Table, read_table
from discoformer.resolve import KERNEL, check_range, resolve
from discoformer.support import support_of

__all__ = ["add_input", "add_model", "bound_pairs", "column_list", "fit_table", "read_input"]


def add_input(parser: argparse.ArgumentParser, of: str = "the sample") -> None:
    """FILE and --columns."""
    parser.add_argument("file", metavar="FILE", type=Path, help=f"{of}: csv, tsv, npy or parquet")
    parser.add_argument("--columns", metavar="A,B", type=column_list, help="use only these columns")


def add_model(parser: argparse.ArgumentParser) -> None:
    """--model and --bounds."""
    parser.add_argument(
        "--model",
        metavar="MODEL",
        default="default",
        help=f"a name of `discoformer models`, a path to weights, or {KERNEL} (default: default)",
    )
    parser.add_argument(
        "--bounds",
        metavar="A=LOW:HIGH,...",
        type=bound_pairs,
        help="where columns end, as in age=0:,share=0:1; without a name for all columns, as in --bounds=-1:1",
    )


def column_list(text: str) -> list[str]:
    """Names from a list with commas.

    >>> column_list("age, income")
    ['age', 'income']
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError("give column names, separated by commas")
    return names


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
    """The sample of a command."""
    table = read_table(args.file, args.columns)
    if len(table.values) < 2:
        raise DataError(f"{args.file}: one row is too few for a density: give at least 2 rows")
    return table


def fit_table(table: Table, model: Any, bounds: Any) -> Field:
    """Fit a model to a table: its bounds, its support, its range, as the estimator does."""
    resolved = resolve(model)
    pairs = parse_bounds(bounds, table.values.shape[1], table.names)
    field = everyday(resolved.method, pairs, table.names).fit(table.values)
    check_range(resolved, len(table.values), len(support_of(field)))
    return field

"""`discoformer summary`: a file's density in a few numbers, whole or given some values."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from discoformer.cli.options import add_fit, add_input, column_pairs, fit_table, read_input
from discoformer.cli.parser import command_parser
from discoformer.columns.schema_column import ColumnSchema
from discoformer.columns.schema_convert import cell_of, number_of
from discoformer.core.checks import DataError, show_cell
from discoformer.core.fields import as_density
from discoformer.data.table import Table
from discoformer.functionals.column_summary import ColumnSummary, column_summaries
from discoformer.functionals.masses import probability
from discoformer.functionals.modes import mode
from discoformer.views.terminal import cell_text, json_cell, print_table

__all__ = ["make_parser", "run"]

EXAMPLES = """\
examples:
  discoformer summary data.csv                             mean, mode, median and regions of every column
  discoformer summary data.csv --given age=40,country=DE   of the others, given these
  discoformer summary data.csv --probability income=50000:,age=:30
  discoformer summary data.csv --probability country=DE,since=2025-03-01:,visits=0
"""


def make_parser(name: str) -> argparse.ArgumentParser:
    """Options of the subcommand."""
    parser = command_parser(
        name,
        "Sum up the density of the rows of FILE: the numbers, and the shares of labels and of values that "
        "have a probability of their own.",
        EXAMPLES,
    )
    add_input(parser)
    parser.add_argument("--given", metavar="A=1,B=2", type=_values, default={}, help="values of some columns")
    parser.add_argument(
        "--share", type=float, default=0.9, help="of the mass, in intervals and regions (default: 0.9)"
    )
    parser.add_argument(
        "--probability",
        metavar="A=LOW:HIGH,B=VALUE,...",
        type=_region,
        help="the mass of a region as well: both ends are inside, either may be empty; or of single values",
    )
    add_fit(parser)
    return parser


def run(args: argparse.Namespace) -> None:
    """Read, fit, condition, sum up."""
    if not 0 < args.share < 1:
        raise DataError(f"--share {args.share}: give a number between 0 and 1")
    table = read_input(args)
    names = list(table.names)
    given = {_place(names, name): value for name, value in args.given.items()}
    numbers = [number_of(_schema(table, j), names[j], value) for j, value in given.items()]
    density = as_density(fit_table(table, args.model, args.bounds).field)
    if lost := [names[j] for j in given if j not in density.support]:
        raise DataError(f"column {show_cell(lost[0])} has no density of its own: leave it out of --given")
    places = [j for j in density.support if j not in given]
    density = density.marginal(density.support) if len(density.support) < density.dim else density
    if given:
        support = sorted([*places, *given])
        density = density.conditional([support.index(j) for j in given], numbers)
    found = {names[j]: own for j, own in zip(places, column_summaries(density, args.share), strict=True)}
    schemas = {names[j]: _schema(table, j) for j in places}
    report: dict[str, Any] = {
        "n": len(table.values),
        "model": str(args.model),
        "given": args.given,
        "share": args.share,
        "columns": {name: _plain(own, schemas[name]) for name, own in found.items()},
    }
    top = dict(zip(found, mode(density), strict=True))
    report["mode"] = {name: json_cell(cell_of(schemas[name], value)) for name, value in top.items()}
    if args.probability is not None:
        region = args.probability
        region = region if isinstance(region, dict) else dict.fromkeys(found, region)
        asked = {_place(list(found), name): name for name in region}
        box = {j: read_ends(schemas[name], name, region[name]) for j, name in asked.items()}
        mass = probability(density, box, list(found))
        report["probability"] = {"value": mass.value, "standard_error": mass.standard_error}
    if args.json:
        print(json.dumps(report))
        return
    said = "".join(f", given {name} = {value}" for name, value in args.given.items())
    print(f"{len(table.values)} rows, {len(found)} column(s), model {args.model}{said}")
    _print(found, schemas, args.share)
    if len(top) > 1:
        point = ", ".join(f"{name} = {_text(schemas[name], value)}" for name, value in top.items())
        print(f"densest point of all: {point}")
    if args.probability is not None:
        print(f"probability of the region: {mass.value:.4f} +- {mass.standard_error:.4f}")


def _print(found: dict[str, ColumnSummary], schemas: dict[str, ColumnSchema | None], share: float) -> None:
    """A table of the numbers, and one of the shares of labels and atoms."""
    header = ["column", "mean", "std", "mode", "median", f"{share:.0%} from", "to", "densest region"]
    rows, shares = [], []
    for name, own in found.items():
        text = partial(_text, schemas[name])
        if own.shares:
            told = sorted(own.shares.items(), key=lambda pair: -pair[1])
            more = f" and {len(told) - _LABELS} more" if len(told) > _LABELS else ""
            some = ", ".join(f"{text(value)} {part:.1%}" for value, part in told[:_LABELS])
            shares.append([name, some + more])
        if not math.isnan(own.mean):
            numbers = [text(own.mean), f"{own.std:.4g}", *map(text, (own.mode, own.median, *own.interval))]
            parts = (text(low) if low == high else f"{text(low)} to {text(high)}" for low, high in own.region)
            rows.append([name, *numbers, ", ".join(parts)])
    if rows:
        print_table(header, rows)
    if shares:
        print("\nprobabilities of labels, and of values that repeat:" if rows else "")
        print_table(["column", "shares"], shares)


_LABELS = 8  # labels or atoms shown for a column


def _text(column: ColumnSchema | None, value: float) -> str:
    """A number of a column: labels and dates as the file has them."""
    cell = cell_of(column, value)
    if not isinstance(cell, float):
        return cell_text(cell)
    if cell != 0 and not 1e-4 <= abs(cell) < 1e7:
        return f"{cell:.4g}"
    text: str = np.format_float_positional(cell, precision=4, unique=False, fractional=False, trim="-")
    return text


def _plain(own: ColumnSummary, column: ColumnSchema | None) -> dict[str, Any]:
    """One column for JSON: labels and dates as the file has them."""

    def cell(value: float) -> Any:
        return json_cell(cell_of(column, value))

    shares = {str(cell(value)): part for value, part in own.shares.items()}
    if math.isnan(own.mean):
        return {"mode": cell(own.mode), "shares": shares}
    numbers = {
        "mean": cell(own.mean),
        "std": own.std,
        "mode": cell(own.mode),
        "median": cell(own.median),
        "interval": [cell(end) for end in own.interval],
        "region": [[cell(end) for end in ends] for ends in own.region],
    }
    return {**numbers, "shares": shares} if shares else numbers


def _schema(table: Table, column: int) -> ColumnSchema | None:
    return None if table.schema is None else table.schema.used[column]


def _place(names: Sequence[str], name: str) -> int:
    if name not in names:
        raise DataError(f"no column {name!r}: there are {', '.join(map(repr, names))}")
    return names.index(name)


def read_ends(column: ColumnSchema | None, name: str, text: str) -> float | tuple[float | None, float | None]:
    """What LOW:HIGH, with either side left out, or a single value says of a column, in numbers.

    >>> read_ends(None, "age", "30:"), read_ends(None, "visits", "0")
    ((30.0, None), 0.0)
    """
    try:
        return number_of(column, name, text)
    except DataError:
        colons = [place for place, sign in enumerate(text) if sign == ":"]
        if not colons:
            raise
    wrong = DataError(f"{name}={show_cell(text)}: write low:high, either side may be empty, or a value")
    for place in colons:  # a time of the day has colons, too
        sides = text[:place].strip(), text[place + 1 :].strip()
        try:
            low, high = (number_of(column, name, side) if side else None for side in sides)
        except DataError as error:
            wrong = error if len(colons) == 1 else wrong
            continue
        if column is not None and column.use == "code" and low != high:
            raise DataError(f"the labels of {show_cell(name)} have no order: write {name}={sides[0]}")
        return low, high
    raise wrong


def _region(text: str) -> dict[str, str] | str:
    """Regions by column name, as text; one for all columns has no name."""
    return _values(text) if "=" in text else text


def _values(text: str) -> dict[str, str]:
    """Values by column name, as text.

    >>> _values("age=40, country=DE")
    {'age': '40', 'country': 'DE'}
    """
    return column_pairs(text, "column=value, as in age=40")

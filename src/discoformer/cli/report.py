"""`discoformer report`: one self-contained HTML page about a table."""

from __future__ import annotations

import argparse
import json
import warnings
import webbrowser
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from discoformer.cli.options import add_fit, add_input, fit_table, read_input
from discoformer.cli.parser import command_parser
from discoformer.columns.bounds import FREE, Bound, fill_bounds, parse_bounds
from discoformer.columns.impute import impute
from discoformer.columns.kinds import CONTINUOUS
from discoformer.columns.schema import Schema
from discoformer.core.checks import DataError, show_cell
from discoformer.core.fields import as_density
from discoformer.core.files import check_folder, replacing
from discoformer.core.progress import follow
from discoformer.data.table import Table
from discoformer.views.report import STEPS, make_report

__all__ = ["make_parser", "run"]

EXAMPLES = """\
examples:
  discoformer report data.csv --open
  discoformer report data.parquet --columns age,income --bounds income=0: --out income.html
"""


def make_parser(name: str) -> argparse.ArgumentParser:
    """Options of the subcommand."""
    parser = command_parser(
        name,
        "Write a page about FILE: rows that look like errors, columns, what depends on what, and live "
        "pictures of the density. All is inside, nothing is fetched when it is opened.",
        EXAMPLES,
    )
    add_input(parser, "the table")
    parser.add_argument(
        "--out",
        metavar="HTML",
        type=Path,
        default=Path("report.html"),
        help="the page (default: report.html)",
    )
    parser.add_argument("--open", action="store_true", help="show the page in the browser when it is done")
    add_fit(parser)
    return parser


def run(args: argparse.Namespace) -> None:
    """Read, make the page, write it in one move."""
    if args.out.suffix.lower() not in (".html", ".htm"):
        raise DataError(f"{args.out}: a report is a page, give a name that ends in .html to --out")
    check_folder(args.out)
    table = read_input(args)
    bounds = fill_bounds(parse_bounds(args.bounds, len(table.names), table.names), _sure_bounds(table))
    kept = [j for j, kind in enumerate(table.kinds) if kind.kind != "category"]
    table, bounds = _as_numbers(table, kept, args), [bounds[j] for j in kept]
    with follow("report:", STEPS, unit="steps") as advance:
        page = make_report(table, model=args.model, bounds=bounds, title=_title(args), advance=advance)
    with replacing(args.out) as temporary:
        temporary.write_text(page, encoding="utf-8")
    if args.json:
        n, d = table.values.shape
        print(json.dumps({"n": n, "d": d, "columns": table.names, "model": args.model, "out": str(args.out)}))
    else:
        print(f"wrote {args.out}")
    if args.open:
        webbrowser.open(args.out.resolve().as_uri())


def _sure_bounds(table: Table) -> list[Bound]:
    """Bounds that values leave no doubt about, of columns without a grid or values of their own."""
    plain = zip(table.bounds, table.kinds, strict=True)
    return [bound if kind == CONTINUOUS else FREE for bound, kind in plain]


def _as_numbers(table: Table, kept: list[int], args: argparse.Namespace) -> Table:
    """The numbers of a table, gaps filled by what the rest of the row suggests: what the page can draw.

    What is expected under the density of all columns, categories included, makes no row look odd.
    """
    if not kept:
        raise DataError(
            f"{args.file}: no column of numbers, which a page is about: see `discoformer describe`"
        )
    if table.schema is None or set(table.kinds) == {CONTINUOUS} and not np.isnan(table.values).any():
        return table
    values = table.values
    gaps = np.isnan(values)
    if gaps.any():
        density = as_density(fit_table(table, args.model, args.bounds).field)
        values = impute(density, torch.from_numpy(values), table.kinds).numpy()
        which = [f"{show_cell(table.names[j])} ({int(gaps[:, j].sum())})" for j in kept if gaps[:, j].any()]
        if which:
            warnings.warn(
                f"gaps filled by what the rest of the row suggests: {', '.join(which)}", stacklevel=2
            )
    left_out = [
        replace(column, use="left out") if column.use == "code" else column for column in table.schema
    ]
    return replace(
        table,
        values=values[:, kept],
        names=tuple(table.names[j] for j in kept),
        schema=Schema(tuple(left_out)).plain(),
    )


def _title(args: argparse.Namespace) -> str:
    name = "standard input" if str(args.file) == "-" else str(args.file.name)
    more = len(args.files) - 1
    return f"{name} and {more} more" if more else name

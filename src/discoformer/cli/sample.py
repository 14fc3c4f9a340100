"""`discoformer sample`: new rows that look like those of a file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.cli.options import (
    add_fit,
    add_input,
    add_output,
    fit_table,
    read_input,
    refuse_input,
    seed_number,
)
from discoformer.cli.parser import command_parser
from discoformer.columns.familiar import Familiar
from discoformer.columns.schema_convert import from_numbers
from discoformer.core.checks import DataError
from discoformer.core.fields import Density, as_density
from discoformer.core.progress import track
from discoformer.data.files import check_output
from discoformer.data.table import Table
from discoformer.data.writer import neutral, output_writer, style_of
from discoformer.views.terminal import cell_text, json_cell, print_table

__all__ = ["make_parser", "run"]

EXAMPLES = """\
examples:
  discoformer sample data.csv -n 1000 --out new.csv
  discoformer sample data.csv --bounds income=0:,share=0:1 --seed 7
  discoformer sample data.csv -n 5 --json
"""

CHUNK = 2**16  # rows drawn and written at a time: a step of the progress bar
SHOWN_ROWS, SHOWN_COLUMNS = 10, 6


def make_parser(name: str) -> argparse.ArgumentParser:
    """Options of the subcommand."""
    parser = command_parser(
        name, "Draw new rows from the density of the rows of FILE, with its types and formats.", EXAMPLES
    )
    add_input(parser)
    parser.add_argument("-n", "--rows", metavar="N", type=int, default=1000, help="how many (default: 1000)")
    add_output(parser, "them")
    parser.add_argument(
        "--seed", type=seed_number, default=0, help="the same seed gives the same rows (default: 0)"
    )
    add_fit(parser)
    return parser


def run(args: argparse.Namespace) -> None:
    """Read, fit, draw, write or show."""
    if args.rows < 1:
        raise DataError(f"-n {args.rows}: draw at least one row")
    if args.out:
        check_output(args.out)
        refuse_input(args.out, args.files)
    context = read_input(args)
    draw = _drawing(context, as_density(fit_table(context, args.model, args.bounds).field))
    names = _names(context)
    if args.out:
        style = replace(style_of(context.raw, args.out.suffix.lower()), neutral=args.no_formulas)
        written = neutral(names) if args.no_formulas else names
        with output_writer(args.out, written, args.rows, style) as write:
            for piece in _pieces(draw, args.rows, args.seed):
                write(_rows(context, piece))
    if args.json:
        _print_json(args, context, draw)
    elif str(args.out) == "-":
        return
    elif args.out:
        print(f"wrote {args.rows} rows to {args.out}")
    else:
        first = next(_pieces(draw, min(args.rows, CHUNK), args.seed))  # the first rows that --out would write
        shown = _rows(context, first[:SHOWN_ROWS])
        cells = shown.tolist() if isinstance(shown, np.ndarray) else shown.to_numpy(dtype=object).tolist()
        rows = [[cell_text(cell) for cell in row[:SHOWN_COLUMNS]] for row in cells]
        print_table(names[:SHOWN_COLUMNS], rows)
        if args.rows > SHOWN_ROWS:
            print(f"and {args.rows - SHOWN_ROWS} more: write them with --out")


def _drawing(context: Table, density: Density) -> Callable[[int, torch.Generator], NDArray[np.float64]]:
    """A function that draws (k, d) as numbers; columns with repeated values repeat them (`Familiar`)."""
    familiar = Familiar.none()
    if context.schema is not None and len(density.support) == density.dim:
        familiar = Familiar.of(context.values, context.schema)

    def draw(rows: int, generator: torch.Generator) -> NDArray[np.float64]:
        return familiar.take(density.sample(rows, generator).numpy())

    return draw


def _rows(context: Table, values: NDArray[np.float64]) -> Any:
    """Draws (k, d) with the types of the sample's columns."""
    return values if context.schema is None else from_numbers(values, context.schema)


def _names(context: Table) -> list[str]:
    """Columns of the output: those of the density, and the constant ones."""
    rows = _rows(context, context.values[:1])
    return list(context.names) if isinstance(rows, np.ndarray) else list(map(str, rows.columns))


def _print_json(args: argparse.Namespace, context: Table, draw: Any) -> None:
    """What was done, and the rows themselves unless they went to a file."""
    n, d = context.values.shape
    report = {"n": n, "d": d, "columns": context.names, "model": str(args.model), "seed": args.seed}
    report["out"] = str(args.out) if args.out else None
    if args.out:
        print(json.dumps({**report, "rows": args.rows}))
        return
    rows = [_rows(context, piece) for piece in _pieces(draw, args.rows, args.seed)]
    names = _names(context)
    records = [
        dict(zip(names, map(json_cell, row), strict=True))
        for piece in rows
        for row in (piece.tolist() if isinstance(piece, np.ndarray) else piece.to_numpy(dtype=object))
    ]
    print(json.dumps({**report, "rows": records}))


def _pieces(draw: Any, rows: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """Draws (k, d), ``rows`` in all, with a progress bar if there is more than one piece."""
    generator = torch.Generator().manual_seed(seed)
    counts = [min(CHUNK, rows - start) for start in range(0, rows, CHUNK)]
    for count in track(counts, label="drawing"):
        with torch.no_grad():
            points = draw(count, generator)
        yield points

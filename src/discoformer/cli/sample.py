"""`discoformer sample`: new rows that look like those of a file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.cli.options import (
    add_bounds,
    add_input,
    add_model,
    add_output,
    fit_table,
    read_input,
    refuse_input,
    seed_number,
)
from discoformer.cli.parser import command_parser
from discoformer.core.checks import DataError
from discoformer.core.fields import as_density
from discoformer.core.progress import track
from discoformer.data.files import check_output
from discoformer.data.writer import neutral, output_writer
from discoformer.views.terminal import print_table

__all__ = ["make_parser", "run"]

EXAMPLES = """\
examples:
  discoformer sample data.csv -n 1000 --out new.csv
  discoformer sample data.csv --bounds income=0:,share=0:1 --seed 7
"""

CHUNK = 2**16  # rows drawn and written at a time: a step of the progress bar
SHOWN_ROWS, SHOWN_COLUMNS = 10, 6


def make_parser(name: str) -> argparse.ArgumentParser:
    """Options of the subcommand."""
    parser = command_parser(name, "Draw new rows from the density of the rows of FILE.", EXAMPLES)
    add_input(parser)
    parser.add_argument("-n", "--rows", metavar="N", type=int, default=1000, help="how many (default: 1000)")
    add_output(parser, "them")
    parser.add_argument(
        "--seed", type=seed_number, default=0, help="the same seed gives the same rows (default: 0)"
    )
    add_model(parser)
    add_bounds(parser)
    return parser


def run(args: argparse.Namespace) -> None:
    """Read, fit, draw, write or show."""
    if args.rows < 1:
        raise DataError(f"-n {args.rows}: draw at least one row")
    if args.out:
        check_output(args.out)
        refuse_input(args.out, args.files)
    context = read_input(args)
    draw = as_density(fit_table(context, args.model, args.bounds)).sample
    if args.out:
        names = neutral(context.names) if args.no_formulas else context.names
        with output_writer(args.out, names, args.rows) as write:
            for piece in _pieces(draw, args.rows, args.seed):
                write(piece)
    if args.json:
        n, d = context.values.shape
        out = str(args.out) if args.out else None
        summary = {"n": n, "d": d, "columns": context.names, "model": str(args.model), "rows": args.rows}
        print(json.dumps({**summary, "seed": args.seed, "out": out}))
    elif str(args.out) == "-":
        return
    elif args.out:
        print(f"wrote {args.rows} rows to {args.out}")
    else:
        first = next(_pieces(draw, min(args.rows, CHUNK), args.seed))  # the rows that --out begins with
        rows = [[f"{x:.6g}" for x in row[:SHOWN_COLUMNS]] for row in first[:SHOWN_ROWS]]
        print_table(context.names[:SHOWN_COLUMNS], rows)
        if args.rows > SHOWN_ROWS:
            print(f"and {args.rows - SHOWN_ROWS} more: write them with --out")


def _pieces(draw: Any, rows: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """Draws (k, d), ``rows`` in all, with a progress bar if there is more than one piece."""
    generator = torch.Generator().manual_seed(seed)
    counts = [min(CHUNK, rows - start) for start in range(0, rows, CHUNK)]
    for count in track(counts, label="drawing"):
        with torch.no_grad():
            points = draw(count, generator)
        yield points.numpy()

"""`discoformer export`: a fitted sample as a file that other programs run."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from discoformer.cli.options import add_fit, add_input, fit_table, read_input, refuse_input
from discoformer.cli.parser import command_parser
from discoformer.export.programs import check_export, export_read

__all__ = ["make_parser", "run"]

EXAMPLES = """\
examples:
  discoformer export data.csv --out density.onnx           for onnxruntime, in any language
  discoformer export data.csv --out density.pt2            for torch.export.load, without this package
  discoformer export data.csv --bounds income=0: --float32 --out density.onnx
"""

PROBED = 256  # rows at which the file is checked


def make_parser(name: str) -> argparse.ArgumentParser:
    """Options of the subcommand."""
    parser = command_parser(
        name, "Fit FILE and write the answer as a program: points in, log density and score out.", EXAMPLES
    )
    add_input(parser)
    parser.add_argument("--out", metavar="OUT", type=Path, required=True, help="write this: onnx or pt2")
    add_fit(parser)
    parser.add_argument(
        "--float32", action="store_true", help="in single precision, as phones and browsers want it"
    )
    return parser


def run(args: argparse.Namespace) -> None:
    """Read, fit, write, check; what can be refused early is refused before any work."""
    check_export(args.out)
    refuse_input(args.out, args.files)
    context = read_input(args, plain=True)  # other programs take only numbers
    dtype = torch.float32 if args.float32 else torch.float64
    with torch.no_grad():
        field = fit_table(context, args.model, args.bounds).field
    export_read(field, args.out, dtype=dtype, columns=context.names, probe=context.values[:PROBED])
    n, d = context.values.shape
    name = str(dtype).removeprefix("torch.")
    if args.json:
        summary = {"n": n, "d": d, "columns": context.names, "model": str(args.model), "dtype": name}
        print(json.dumps({**summary, "out": str(args.out)}))
    else:
        print(f"{n} rows, {d} column(s), model {args.model}: wrote {args.out}, checked at the first rows")
        print(f"input queries (m, {d}) {name}, columns {', '.join(context.names)}")
        print(f"outputs log_density (m,), score (m, {d})")

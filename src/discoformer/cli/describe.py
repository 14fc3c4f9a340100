"""`discoformer describe`: what the columns of a file are, why, and what is done with them."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from discoformer.cli.options import FILES, add_reading, read_file
from discoformer.cli.parser import command_parser
from discoformer.columns.schema import KINDS, Schema, infer_schema
from discoformer.data.table import RawTable
from discoformer.views.terminal import cell_text, print_table

__all__ = ["make_parser", "run"]

EXAMPLES = f"""\
kinds:
  {", ".join(KINDS[:7])},
  {", ".join(KINDS[7:])}

examples:
  discoformer describe customers.csv
  discoformer describe customers.csv --types age=count,zip=category --exclude note
  discoformer describe wind.csv --types direction=circular:360,share=bounded:0:1
  discoformer describe sales.db --query "select price, area from sales where year = 2026"
  discoformer describe 'parts/*.parquet' --json
"""


def make_parser(name: str) -> argparse.ArgumentParser:
    """Options of the subcommand."""
    parser = command_parser(
        name,
        "Say of every column of FILE what kind it is, why, and what the other commands do with it. "
        "The options that change this table change those commands in the same way.",
        EXAMPLES,
    )
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+", help=FILES)
    add_reading(parser)
    return parser


def run(args: argparse.Namespace) -> None:
    """Read, infer, print."""
    raw = read_file(args)
    schema = infer_schema(raw.frame, args.types, args.exclude, args.columns, raw.units)
    if args.json:
        report = {"file": raw.how.file, "how": str(raw.how), "rows": len(raw.frame)}
        print(json.dumps({**report, "columns": [column.as_dict() for column in schema]}))
    else:
        _print(raw, schema)


def _print(raw: RawTable, schema: Schema) -> None:
    print(f"{raw.how}\n")
    header = ["column", "kind", "gaps", "distinct", "values", "reason", "what is done with it"]
    rows = [
        [
            cell_text(str(column.name)),
            column.kind,
            str(column.gaps),
            str(column.distinct),
            cell_text(column.values),
            cell_text(column.reason),
            column.action,
        ]
        for column in schema
    ]
    print_table(header, rows)
    print("\nsay otherwise with --types NAME=KIND, --exclude NAME or --columns A,B")

"""`discoformer report`: one self-contained HTML page about a table."""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

from discoformer.cli.options import add_input, add_model, read_input
from discoformer.core.checks import DataError
from discoformer.core.files import check_folder, replacing
from discoformer.views.report import make_report
from discoformer.views.terminal import track

__all__ = ["make_parser", "run"]

EXAMPLES = """\
examples:
  discoformer report data.csv
  discoformer report data.parquet --columns age,income --bounds income=0: --out income.html
"""


def make_parser() -> argparse.ArgumentParser:
    """Options of the subcommand."""
    parser = argparse.ArgumentParser(
        prog="discoformer report",
        description="Write a page about FILE: its columns, their densities, its unusual rows, and how well "
        "the model fits. Pictures are inside, nothing is fetched when it is opened.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_input(parser, "the table")
    parser.add_argument(
        "--out",
        metavar="HTML",
        type=Path,
        default=Path("report.html"),
        help="the page (default: report.html)",
    )
    add_model(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    return parser


def run(args: argparse.Namespace) -> None:
    """Read, make the page, write it in one move."""
    if args.out.suffix.lower() not in (".html", ".htm"):
        raise DataError(f"{args.out}: a report is a page, give a name that ends in .html to --out")
    check_folder(args.out)
    table = read_input(args)
    bar = partial(track, label="holding out")
    page = make_report(table, model=args.model, bounds=args.bounds, title=args.file.name, progress=bar)
    with replacing(args.out) as temporary:
        temporary.write_text(page, encoding="utf-8")
    if args.json:
        n, d = table.values.shape
        print(json.dumps({"n": n, "d": d, "columns": table.names, "model": args.model, "out": str(args.out)}))
    else:
        print(f"wrote {args.out}")

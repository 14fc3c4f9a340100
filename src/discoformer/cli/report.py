"""`discoformer report`: one self-contained HTML page about a table."""

from __future__ import annotations

import argparse
import json
import webbrowser
from pathlib import Path

from discoformer.cli.options import add_fit, add_input, read_input
from discoformer.cli.parser import command_parser
from discoformer.core.atomic_files import check_folder, replacing
from discoformer.core.checks import DataError
from discoformer.core.progress import follow
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
    """Read, make the page, write it whole or not at all."""
    if args.out.suffix.lower() not in (".html", ".htm"):
        raise DataError(f"{args.out}: a report is a page, give a name that ends in .html to --out")
    check_folder(args.out)
    table = read_input(args)
    with follow("report:", STEPS, unit="steps") as advance:
        page = make_report(table, model=args.model, bounds=args.bounds, title=_title(args), advance=advance)
    with replacing(args.out) as temporary:
        temporary.write_text(page, encoding="utf-8")
    if args.json:
        n, d = table.values.shape
        print(json.dumps({"n": n, "d": d, "columns": table.names, "model": args.model, "out": str(args.out)}))
    else:
        print(f"wrote {args.out}")
    if args.open:
        webbrowser.open(args.out.resolve().as_uri())


def _title(args: argparse.Namespace) -> str:
    name = "standard input" if str(args.file) == "-" else str(args.file.name)
    more = len(args.files) - 1
    return f"{name} and {more} more" if more else name

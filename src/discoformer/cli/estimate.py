"""`discoformer estimate`: log density and score of a file of numbers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from discoformer.baselines.bandwidths import RULES
from discoformer.baselines.kde import KDE
from discoformer.checks import DataError
from discoformer.cli.options import add_input, add_model, fit_table, read_input
from discoformer.cli.show import print_table, track
from discoformer.fields import Field
from discoformer.functional import answer
from discoformer.io import Table, check_output, read_table, replacing, save_table
from discoformer.plots import VIEWS, check_picture, plot
from discoformer.resolve import KERNEL

__all__ = ["make_parser", "run"]

EXAMPLES = """\
examples:
  discoformer estimate data.csv                        a short summary, nothing written
  discoformer estimate data.csv --out densities.csv    columns, log_density and score_<column>
  discoformer estimate data.parquet --columns age,income --plot picture.png
  discoformer estimate data.csv --bounds age=0:,share=0:1 --plot unusual.png --view outliers
  discoformer estimate data.csv --queries grid.npy --out at_grid.npy
  discoformer estimate data.csv --bandwidth loo --json
"""

CHUNK = 4096  # queries per step of the progress bar
SHOWN_ROWS, SHOWN_COLUMNS = 3, 6


def make_parser() -> argparse.ArgumentParser:
    """Options of the subcommand."""
    parser = argparse.ArgumentParser(
        prog="discoformer estimate",
        description="Estimate the log density of the rows of FILE and its gradient, the score.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_input(parser)
    parser.add_argument(
        "--queries", metavar="Q", type=Path, help="points to answer at (default: FILE itself)"
    )
    parser.add_argument("--out", metavar="OUT", type=Path, help="write the answers: csv, tsv, npy or parquet")
    add_model(parser)
    parser.set_defaults(model=None)  # to tell "default" from nothing asked for
    parser.add_argument(
        "--bandwidth",
        metavar="RULE",
        type=_bandwidth,
        help=f"kernel density with this bandwidth: {', '.join(RULES)}, or a number",
    )
    parser.add_argument("--plot", metavar="PNG", type=Path, help="draw FILE: png, pdf or svg")
    parser.add_argument("--view", choices=VIEWS, help=f"what to draw (default: {VIEWS[0]})")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    return parser


def run(args: argparse.Namespace) -> None:
    """Read, fit, answer, draw, write, report; what can be refused early is refused before the work."""
    if args.bandwidth is not None and args.model not in (None, KERNEL):
        raise DataError(f"--bandwidth is for kernel density: leave out --model {args.model} or --bandwidth")
    if args.view and not args.plot:
        raise DataError("--view says what to draw: add --plot with a name for the picture")
    if args.out:
        check_output(args.out)
        if args.out.resolve() in (args.file.resolve(), args.queries and args.queries.resolve()):
            raise DataError(f"{args.out}: is an input file, give another name to --out")
    if args.plot:
        check_picture(args.plot)
    context = read_input(args)
    queries = context
    if args.queries is not None:
        queries = read_table(args.queries, args.columns, by_position=True).like(context)
    names = _result_names(queries.names) if args.out else ()

    args.model = args.model or ("default" if args.bandwidth is None else KERNEL)
    model = args.model if args.bandwidth is None else KDE(bandwidth=args.bandwidth)
    field = fit_table(context, model, args.bounds)
    log_density, score = _estimate(field, queries.values)
    with ExitStack() as moves:  # the table takes its place when the picture is there too
        if args.out:
            temporary = moves.enter_context(replacing(args.out))
            result = Table(np.column_stack([queries.values, log_density, score]), names)
            save_table(result, temporary, args.out.suffix.lower())
        if args.plot:
            plot(field, context.values, context.names, args.plot, view=args.view or VIEWS[0])

    if args.json:
        _print_json(args, context, log_density)
    else:
        _print_summary(args, context, queries, log_density)


def _bandwidth(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _estimate(field: Field, queries: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log density (m,) and score (m, d), chunk by chunk so that a long job can show its progress."""
    log_density = np.empty(len(queries))
    score = np.empty(queries.shape)
    for start in track(range(0, len(queries), CHUNK), "estimating"):
        chunk = slice(start, start + CHUNK)
        log_density[chunk], score[chunk] = answer(field, queries[chunk])
    return log_density, score


def _result_names(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns, log_density and score_<column>, unless a name is taken."""
    names = (*columns, "log_density", *(f"score_{name}" for name in columns))
    taken = [name for name in columns if names.count(name) > 1]
    if taken:
        raise DataError(
            f"column {taken[0]!r} has a name the output uses: rename it or leave it out with --columns"
        )
    return names


def _model_name(args: argparse.Namespace) -> str:
    if args.bandwidth is not None:
        return f"kernel density with bandwidth {args.bandwidth}"
    return f"model {args.model}"


def _print_json(args: argparse.Namespace, context: Table, log_density: NDArray[np.float64]) -> None:
    n, d = context.values.shape
    summary = {
        "n": n,
        "d": d,
        "columns": context.names,
        "queries": len(log_density),
        "model": args.model,
        "bandwidth": args.bandwidth,
        "mean_log_density": float(log_density.mean()) if np.isfinite(log_density).all() else None,
        "out": str(args.out) if args.out else None,
        "plot": str(args.plot) if args.plot else None,
    }
    print(json.dumps(summary))


def _print_summary(
    args: argparse.Namespace, context: Table, queries: Table, log_density: NDArray[np.float64]
) -> None:
    """The size of the job and, unless the answers went to a file, its most typical and unusual rows."""
    n, d = context.values.shape
    print(
        f"{n} rows, {d} column(s), {_model_name(args)}: "
        f"mean log density {log_density.mean():.4f} at {len(log_density)} points"
    )
    if not args.out:
        order = np.argsort(-log_density, kind="stable")
        if len(order) > 2 * SHOWN_ROWS:
            print(f"\nthe {SHOWN_ROWS} most typical rows and the {SHOWN_ROWS} most unusual ones, from 0:")
            order = np.concatenate([order[:SHOWN_ROWS], order[-SHOWN_ROWS:]])
        rows = [
            [str(i), f"{log_density[i]:.4f}", *(f"{x:.6g}" for x in queries.values[i, :SHOWN_COLUMNS])]
            for i in order
        ]
        print_table(["row", "log_density", *queries.names[:SHOWN_COLUMNS]], rows)
    for path in filter(None, (args.out, args.plot)):
        print(f"wrote {path}")

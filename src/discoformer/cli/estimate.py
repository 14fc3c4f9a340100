"""`discoformer estimate`: log density and score of a file of numbers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.api.answers import answers
from discoformer.api.fitting import Fitted, fit_stream
from discoformer.baselines.bandwidths import RULES
from discoformer.baselines.kde import KDE
from discoformer.cli.options import add_fit, add_input, fit_table, kinds_text, read_input, refuse_input
from discoformer.cli.parser import command_parser
from discoformer.columns.support import dropped_by_survey
from discoformer.core.checks import DataError, check_weights
from discoformer.core.fields import Density, Field, PointDensity, as_point_density
from discoformer.data.files import (
    Table,
    check_output,
    read_queries,
    read_table,
    refuse_dependent,
    refuse_few_rows,
)
from discoformer.data.peek import columns_to_stream
from discoformer.data.style import style_of
from discoformer.data.writer import output_writer
from discoformer.methods import resolve
from discoformer.scale.opening import open_source
from discoformer.scale.source import ArraySource, Source
from discoformer.scale.stream import Stream, StreamingMethod
from discoformer.scale.survey import look
from discoformer.views.pictures import check_picture
from discoformer.views.plots import VIEWS, plot
from discoformer.views.reasons import CommonScale, common_scale, odd_columns, without_rows
from discoformer.views.terminal import cell_text, print_table

__all__ = ["make_parser", "run"]

EXAMPLES = """\
examples:
  discoformer estimate data.csv                        a short summary, nothing written
  discoformer estimate data.csv --out densities.csv    all columns, log_density and score_<column>
  discoformer estimate data.csv --types zip=category,age=continuous --exclude note --weights count
  discoformer estimate data.parquet --columns age,income --plot picture.png
  discoformer estimate data.csv --bounds age=0:,share=0:1 --plot unusual.png --view outliers
  discoformer estimate data.csv --queries grid.npy --out at_grid.npy
  discoformer estimate data.csv --bandwidth loo --json
"""

_KERNEL = "kde-scott"  # what --bandwidth is a rule of
CHUNK = 4096  # queries per step of the progress bar, for a table in memory
LARGE = 2**28  # bytes of an npy or parquet file that is streamed rather than read into memory
SHOWN_ROWS, SHOWN_COLUMNS = 3, 6


@dataclass(frozen=True)
class Job:
    """What is to be done: a field, where to read it, and what to call the answers.

    Attributes
    ----------
    fitted : with a density
    queries : where to answer
    shape : rows and columns of the sample
    columns : of the sample that are used
    names : of the columns of the output
    frame : the queries as they were read, columns that are not used included; None for numbers alone
    scored : columns that have a score
    table : the sample, if it is in memory
    left_out : (n,), log density of every row of the sample under the fit without it, if that is asked for
    common : what is to be added to log densities of rows that have not the same cells, to compare them
    """

    fitted: Fitted
    queries: Source
    shape: tuple[int, int]
    columns: tuple[str, ...]
    names: tuple[str, ...]
    scored: list[int]
    frame: Any = None
    table: Table | None = None
    left_out: NDArray[np.float64] | None = None
    common: CommonScale | None = None

    @property
    def field(self) -> PointDensity:
        return as_point_density(self.fitted.field)


def make_parser(name: str) -> argparse.ArgumentParser:
    """Options of the subcommand."""
    parser = command_parser(
        name,
        "Estimate the log density of the rows of FILE and its gradient, the score. Without --out the rows "
        "that stand out are shown, by the fit without them, and the columns that make them so.",
        EXAMPLES,
    )
    add_input(parser)
    parser.add_argument(
        "--queries", metavar="Q", type=Path, help="points to answer at (default: FILE itself)"
    )
    parser.add_argument(
        "--out",
        metavar="OUT",
        type=Path,
        help="write the answers: csv, tsv, npy or parquet; - for standard output",
    )
    add_fit(parser)
    parser.set_defaults(model=None)  # to tell "default" from nothing asked for
    parser.add_argument(
        "--bandwidth",
        metavar="RULE",
        type=_bandwidth,
        help=f"kernel density with this bandwidth: {', '.join(RULES)}, or a number",
    )
    parser.add_argument("--plot", metavar="PNG", type=Path, help="draw FILE: png, pdf or svg")
    parser.add_argument("--view", choices=VIEWS, help=f"what to draw (default: {VIEWS[0]})")
    return parser


def run(args: argparse.Namespace) -> None:
    """Read, fit, answer, draw, write, report; what can be refused early is refused before the work."""
    if args.bandwidth is not None and args.model not in (None, _KERNEL):
        raise DataError(f"--bandwidth is for kernel density: leave out --model {args.model} or --bandwidth")
    if args.view and not args.plot:
        raise DataError("--view says what to draw: add --plot with a name for the picture")
    if args.out:
        check_output(args.out)
        refuse_input(args.out, [*args.files, *filter(None, [args.queries])])
    if args.plot:
        check_picture(args.plot)
    args.model = args.model or ("default" if args.bandwidth is None else _KERNEL)
    job = _streamed(args) if _is_streamed(args) else _in_memory(args)
    summary = Summary()
    with ExitStack() as moves:  # the table takes its place when the picture is there too
        write = None
        if args.out:
            style = style_of(None if job.table is None else job.table.raw, args.out.suffix.lower())
            write = moves.enter_context(output_writer(args.out, job.names, job.queries.rows or 0, style))
        for chunk, (log_density, score) in answers(job.field, job.queries):
            values, found = chunk.numpy(), log_density.numpy()
            part = slice(summary.count, summary.count + len(values))
            if write is not None:
                write(_joined(job, values, part, np.column_stack([found, score.numpy()[:, job.scored]])))
            seen = found if job.left_out is None else job.left_out[part]
            summary.add(values, found, seen, seen if job.common is None else seen + job.common(values))
        if args.plot:
            assert job.table is not None
            plot(job.field, job.table.values, job.table.names, args.plot, view=args.view or VIEWS[0])

    if args.json:
        _print_json(args, job, summary)
    elif str(args.out) != "-":
        _print_summary(args, job, summary)


def _in_memory(args: argparse.Namespace) -> Job:
    context = read_input(args)
    queries = context
    if args.queries is not None:
        queries = read_queries(args.queries, context, args.columns)
    frame = None if queries.raw is None else queries.raw.frame
    names = _result_names(context, queries) if args.out else ()
    model = args.model if args.bandwidth is None else KDE(bandwidth=args.bandwidth)
    fitted = fit_table(context, model, args.bounds)
    left_out = None
    if queries is context and isinstance(fitted.field, Density):
        left_out = _left_out(fitted.field, context)
    rows, dim = context.values.shape
    source = ArraySource(queries.values, step=CHUNK)
    source.show = True
    job = Job(fitted, source, (rows, dim), context.names, names, _scored(context))
    common = common_scale(fitted.field, context.values, context.kinds)
    return replace(job, frame=frame, table=context, left_out=left_out, common=common)


@torch.no_grad()
def _left_out(density: Density, table: Table) -> NDArray[np.float64]:
    rows = torch.from_numpy(table.values)
    weights = None if table.weights is None else check_weights(table.weights, rows)
    found = np.empty(len(rows))
    there = ~np.isnan(table.values).all(1)  # a row that says nothing is not in the sample
    found[there] = density.left_out(rows[there], None if weights is None else weights[there]).numpy()
    found[~there] = 0.0
    return found


def _scored(table: Table) -> list[int]:
    return [j for j, kind in enumerate(table.kinds) if kind.kind != "category"]


def _joined(job: Job, values: NDArray[np.float64], part: slice, answers: NDArray[np.float64]) -> Any:
    """The columns of the queries, all that were read, beside the answers (k, 1 + d)."""
    if job.frame is None:
        return np.column_stack([values, answers])
    frame = job.frame.iloc[part]
    found = zip(job.names[frame.shape[1] :], answers.T, strict=True)
    return frame.assign(**dict(found))


def _is_streamed(args: argparse.Namespace) -> bool:
    """Whether the job is large, and one that can be streamed; the answers are the same."""
    files = [path for path in (args.file, args.queries) if path is not None and path.exists()]
    if not any(path.is_dir() or _is_large(path) for path in files):
        return False
    if len(args.files) > 1:
        return False
    if args.plot is None and args.bounds is None and isinstance(resolve(args.model).method, StreamingMethod):
        return True
    if args.file.is_dir():
        raise DataError(
            f"{args.file}: a folder is streamed, which --plot, --bounds and {args.model} cannot be"
        )
    return False


def _is_large(path: Path) -> bool:
    return path.suffix.lower() in (".npy", ".parquet") and path.stat().st_size >= LARGE


def _streamed(args: argparse.Namespace) -> Job:
    chosen = args.columns or columns_to_stream(args.file, args.types, args.exclude)
    sample = _open(args.file, chosen)
    columns = sample.names or tuple(f"x{j}" for j in range(sample.dim))
    queries = sample
    if args.queries is not None:
        queries = _open(args.queries, columns if sample.names else None)
    names = _with_answers(columns, columns) if args.out else ()
    refuse_few_rows(args.file, sample.rows or 0, columns, drop_dependent=args.drop_dependent)
    stream = Stream(sample)
    if not args.drop_dependent:
        constant, collinear = dropped_by_survey(stream.survey)
        refuse_dependent(args.file, sorted({*constant, *collinear}), columns)
    if queries is not sample:
        look(queries, str(args.queries))
    fitted = fit_stream(stream, args.model, names=columns)
    return Job(fitted, queries, (stream.rows, sample.dim), columns, names, list(range(sample.dim)))


def _open(path: Path, columns: Sequence[str] | None) -> Source:
    if path.suffix.lower() in (".npy", ".parquet") or path.is_dir():
        return open_source(path, columns, show=True)
    table = read_table(path, columns, by_position=True)
    source = ArraySource(table.values)
    source.names = table.names if table.named else None
    return source


def _bandwidth(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


class Summary:
    """Mean log density, and the rows that are most typical and most unusual, of chunks in order."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.rows: NDArray[np.int64] = np.empty(0, dtype=np.int64)  # the most typical first, both ends
        self.rank: NDArray[np.float64] = np.empty(0)
        self.shown: NDArray[np.float64] = np.empty(0)
        self.values: NDArray[np.float64] = np.empty((0, 0))

    def add(
        self,
        values: NDArray[np.float64],
        log_density: NDArray[np.float64],
        shown: NDArray[np.float64],
        rank: NDArray[np.float64],
    ) -> None:
        """Take in a chunk of points (k, d) with their log densities (k,), what to show and to rank them by."""
        rows = np.concatenate([self.rows, self.count + np.arange(len(values))])
        ranks, seen = np.concatenate([self.rank, rank]), np.concatenate([self.shown, shown])
        points = np.concatenate([self.values, values]) if self.count else values
        order = np.lexsort((rows, -ranks))
        if len(order) > 2 * SHOWN_ROWS:
            order = np.concatenate([order[:SHOWN_ROWS], order[-SHOWN_ROWS:]])
        self.rows, self.rank, self.shown = rows[order], ranks[order], seen[order]
        self.values = points[order]
        self.count += len(values)
        self.total += float(log_density.sum())

    @property
    def mean(self) -> float:
        """Mean log density."""
        return self.total / self.count

    @property
    def unusual(self) -> NDArray[np.int64]:
        """Places of the most unusual rows among those that were kept, the most unusual first."""
        return np.arange(len(self.rows))[::-1][:SHOWN_ROWS]


def _result_names(context: Table, queries: Table) -> tuple[str, ...]:
    scored = [context.names[j] for j in _scored(context)]
    return _with_answers(queries.names if queries.raw is None else queries.raw.names, scored)


def _with_answers(columns: Sequence[str], scored: Sequence[str]) -> tuple[str, ...]:
    """The columns, log_density and score_<column>, unless a name is taken."""
    names = (*columns, "log_density", *(f"score_{name}" for name in scored))
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


def _print_json(args: argparse.Namespace, job: Job, summary: Summary) -> None:
    report = {
        "n": job.shape[0],
        "d": job.shape[1],
        "columns": job.columns,
        "queries": summary.count,
        "model": args.model,
        "bandwidth": args.bandwidth,
        "mean_log_density": summary.mean if np.isfinite(summary.mean) else None,
        "unusual": [
            {"row": int(summary.rows[place]), "columns": columns}
            for place, columns in zip(summary.unusual, _why(job, summary), strict=True)
        ],
        "out": str(args.out) if args.out else None,
        "plot": str(args.plot) if args.plot else None,
    }
    print(json.dumps(report))


def _print_summary(args: argparse.Namespace, job: Job, summary: Summary) -> None:
    """The size of the job and, unless the answers went to a file, its most typical and unusual rows."""
    print(
        f"{job.shape[0]} rows, {job.shape[1]} column(s), {_model_name(args)}: "
        f"mean log density {summary.mean:.4f} at {summary.count} points"
    )
    if job.table is not None and (text := kinds_text(job.table)):
        print(text)
    if not args.out:
        typical = np.arange(len(summary.rows))[:SHOWN_ROWS]
        print(f"\nthe {len(typical)} most typical rows, from 0:")
        rows = [[*_head(summary, place), *_cells(job, summary, place)] for place in typical]
        print_table(["row", "log_density", *job.columns[:SHOWN_COLUMNS]], rows)
        by = "" if job.left_out is None else ", each by the fit without it"
        print(f"\nthe {len(summary.unusual)} most unusual ones{by}, and the columns that make them so:")
        rows = []
        for place, columns in zip(summary.unusual, _why(job, summary), strict=True):
            cells = _shown(job, summary, place)
            rows.append([*_head(summary, place), ", ".join(f"{name} {cells[name]}" for name in columns)])
        print_table(["row", "log_density", "because of"], rows)
    for path in filter(None, (args.out, args.plot)):
        print(f"wrote {path}")


def _head(summary: Summary, place: int) -> list[str]:
    return [str(summary.rows[place]), f"{summary.shown[place]:.4f}"]


def _cells(job: Job, summary: Summary, place: int) -> list[str]:
    return list(_shown(job, summary, place).values())[:SHOWN_COLUMNS]


def _shown(job: Job, summary: Summary, place: int) -> dict[str, str]:
    """The cells of a row, by column, as it was read."""
    if job.frame is None or not set(job.columns) <= set(job.frame.columns):
        return dict(zip(job.columns, map(cell_text, summary.values[place].tolist()), strict=True))
    row = job.frame.iloc[int(summary.rows[place])]
    return {name: cell_text(row[name]) for name in job.columns}


def _why(job: Job, summary: Summary) -> list[list[str]]:
    """Names of the columns that make the most unusual rows so; none if the model cannot tell."""
    rows = summary.values[summary.unusual]
    density: Field | None = job.field
    if job.left_out is not None and job.table is not None and job.table.weights is None:
        density = without_rows(job.fitted, job.table.values, summary.rows[summary.unusual]) or density
    if not isinstance(density, Density):
        return [[] for _ in rows]
    return [[job.columns[j] for j in columns] for columns in odd_columns(density, rows)]

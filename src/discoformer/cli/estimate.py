"""`discoformer estimate`: log density and score of a file of numbers."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.api.answers import answers
from discoformer.api.fitting import fit_stream
from discoformer.baselines.bandwidths import RULES
from discoformer.baselines.kde import KDE
from discoformer.cli.options import (
    add_bounds,
    add_input,
    add_model,
    add_output,
    fitted_table,
    read_input,
    refuse_input,
)
from discoformer.cli.parser import command_parser
from discoformer.columns.support import dropped_by_survey
from discoformer.core.checks import DataError, show_cell
from discoformer.core.fields import Estimate, Method, PointDensity, as_density, as_point_density
from discoformer.data.files import (
    Table,
    check_output,
    read_queries,
    read_table,
    refuse_dependent,
    refuse_few_rows,
)
from discoformer.data.peek import columns_to_stream
from discoformer.data.writer import neutral, output_writer
from discoformer.detection.reasons import Reasons, explain_rows
from discoformer.functionals.bootstrap import bootstrap
from discoformer.methods import resolve
from discoformer.scale.opening import open_source
from discoformer.scale.source import ArraySource, Source
from discoformer.scale.stream import Stream, StreamingMethod
from discoformer.scale.survey import look
from discoformer.views.pictures import check_picture
from discoformer.views.plots import VIEWS, Band, plot
from discoformer.views.terminal import print_table

__all__ = ["make_parser", "run"]

EXAMPLES = """\
examples:
  discoformer estimate data.csv                        a short summary, nothing written
  discoformer estimate data.csv --out densities.csv    columns, log_density and score_<column>
  discoformer estimate data.parquet --columns age,income --plot picture.png
  discoformer estimate data.csv --bounds age=0:,share=0:1 --plot unusual.png --view outliers
  discoformer estimate data.csv --why                  the most unusual rows, with reasons
  discoformer estimate data.csv --std --out bars.csv   with log_density_std and score_<column>_std
  discoformer estimate data.csv --queries grid.npy --out at_grid.npy
  discoformer estimate data.csv --bandwidth loo --json
"""

_KERNEL = "kde-scott"  # what --bandwidth is a rule of
CHUNK = 4096  # queries per step of the progress bar, for a table in memory
LARGE = 2**28  # bytes of an npy or parquet file that is streamed rather than read into memory
SHOWN_ROWS, SHOWN_COLUMNS = 3, 6


def make_parser(name: str) -> argparse.ArgumentParser:
    """Options of the subcommand."""
    parser = command_parser(
        name, "Estimate the log density of the rows of FILE and its gradient, the score.", EXAMPLES
    )
    add_input(parser)
    parser.add_argument(
        "--queries", metavar="Q", type=Path, help="points to answer at (default: FILE itself)"
    )
    add_output(parser, "the answers")
    add_model(parser)
    add_bounds(parser)
    parser.set_defaults(model=None)  # to tell "default" from nothing asked for
    parser.add_argument(
        "--bandwidth",
        metavar="RULE",
        type=_bandwidth,
        help=f"kernel density with this bandwidth: {', '.join(RULES)}, or a number",
    )
    parser.add_argument(
        "--why",
        action="store_true",
        help="say which columns make the most unusual rows so, and what was expected",
    )
    parser.add_argument(
        "--std",
        action="store_true",
        help="error bars: standard deviations of log density and score, in --out too",
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
            names = neutral(job.names) if args.no_formulas else job.names
            write = moves.enter_context(output_writer(args.out, names, job.queries.rows or 0))
        for chunk, (log_density, score) in answers(job.field, job.queries):
            values = chunk.numpy()
            bars = () if job.spread is None else (job.spread[summary.count : summary.count + len(values)],)
            summary.add(values, log_density.numpy())
            if write is not None:
                write(np.column_stack([values, log_density.numpy(), score.numpy(), *bars]))
        if job.sample is not None:
            plot(
                job.field,
                job.sample.values,
                job.sample.names,
                args.plot,
                view=args.view or VIEWS[0],
                band=job.band,
            )
    reasons = None
    if args.why:
        points = torch.from_numpy(summary.values[-min(SHOWN_ROWS, summary.count) :][::-1].copy())
        sample = torch.from_numpy(job.values)
        density = as_density(job.field)
        reasons = explain_rows(density, points, sample, method=job.method, names=job.columns)

    if args.json:
        _print_json(args, job, summary, reasons)
    elif str(args.out) != "-":
        _print_summary(args, job, summary)
        _print_reasons(summary, reasons)


@dataclasses.dataclass(frozen=True)
class Job:
    """What is to be done: a field, where to read it, and what to call the answers.

    Attributes
    ----------
    shape : rows and columns of the sample
    columns : their names
    names : of the columns of the output
    sample : the sample itself, if it is to be drawn
    method : for further fits to the sample
    values : its values, if they are in memory
    spread : standard deviations (m, 1 + d) of the answers, if they were asked for
    band : standard deviations of the log density at further points
    """

    field: PointDensity
    queries: Source
    shape: tuple[int, int]
    columns: tuple[str, ...]
    names: tuple[str, ...]
    sample: Table | None = None
    method: Method | None = None
    values: NDArray[np.float64] = dataclasses.field(default_factory=lambda: np.empty((0, 0)))
    spread: NDArray[np.float64] | None = None
    band: Band | None = None


def _in_memory(args: argparse.Namespace) -> Job:
    context = read_input(args)
    queries = context
    if args.queries is not None:
        queries = read_queries(args.queries, context, args.columns)
    names = _result_names(queries.names, std=args.std) if args.out else ()
    model = args.model if args.bandwidth is None else KDE(bandwidth=args.bandwidth)
    fitted = fitted_table(context, model, args.bounds)
    density = as_point_density(fitted.field)
    source = ArraySource(queries.values, step=CHUNK)
    source.show = True
    sample = context if args.plot else None
    job = Job(density, source, context.values.shape, context.names, names, sample)
    job = dataclasses.replace(job, method=fitted.refit(), values=context.values)
    if not args.std:
        return job

    def spread(points: NDArray[np.float64]) -> Estimate[Tensor]:
        rows = torch.from_numpy(context.values)
        return bootstrap(fitted.refit(), density, rows, torch.from_numpy(points))

    bars = np.column_stack([part.numpy() for part in spread(queries.values)])
    return dataclasses.replace(job, spread=bars, band=lambda points: spread(points).log_density.numpy())


def _is_streamed(args: argparse.Namespace) -> bool:
    """Whether the job is large, and one that can be streamed; the answers are the same."""
    files = [path for path in (args.file, args.queries) if path is not None and path.exists()]
    if not any(path.is_dir() or _is_large(path) for path in files):
        return False
    if len(args.files) > 1:
        return False
    plain = args.plot is None and args.bounds is None and not args.std and not args.why
    if plain and isinstance(resolve(args.model).method, StreamingMethod):
        return True
    if args.file.is_dir():
        raise DataError(
            f"{args.file}: a folder is streamed: without --plot, --bounds, --std, --why, by a mixture model"
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
    names = _result_names(columns) if args.out else ()
    refuse_few_rows(args.file, sample.rows or 0, columns, drop_dependent=args.drop_dependent)
    stream = Stream(sample)
    if not args.drop_dependent:
        constant, collinear = dropped_by_survey(stream.survey)
        refuse_dependent(args.file, sorted({*constant, *collinear}), columns)
    if queries is not sample:
        look(queries, str(args.queries))
    field = as_point_density(fit_stream(stream, args.model, names=columns).field)
    return Job(field, queries, (stream.rows, sample.dim), columns, names)


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
        self.rows: NDArray[np.int64] = np.empty(0, dtype=np.int64)  # by falling log density, first and last
        self.log_density: NDArray[np.float64] = np.empty(0)
        self.values: NDArray[np.float64] = np.empty((0, 0))

    def add(self, values: NDArray[np.float64], log_density: NDArray[np.float64]) -> None:
        """Take in a chunk of points (k, d) with their log densities (k,)."""
        rows = np.concatenate([self.rows, self.count + np.arange(len(values))])
        answers = np.concatenate([self.log_density, log_density])
        points = np.concatenate([self.values, values]) if self.count else values
        order = np.lexsort((rows, -answers))
        if len(order) > 2 * SHOWN_ROWS:
            order = np.concatenate([order[:SHOWN_ROWS], order[-SHOWN_ROWS:]])
        self.rows, self.log_density, self.values = rows[order], answers[order], points[order]
        self.count += len(values)
        self.total += float(log_density.sum())

    @property
    def mean(self) -> float:
        """Mean log density."""
        return self.total / self.count


def _result_names(columns: Sequence[str], *, std: bool = False) -> tuple[str, ...]:
    """The columns, log_density and score_<column>, and the same with _std, unless a name is taken."""
    answers = ("log_density", *(f"score_{name}" for name in columns))
    names = (*columns, *answers, *(f"{name}_std" for name in answers if std))
    taken = [name for name in columns if names.count(name) > 1]
    if taken:
        raise DataError(
            f"column {show_cell(taken[0])} has a name the output uses: rename it, "
            "or leave it out with --columns"
        )
    return names


def _model_name(args: argparse.Namespace) -> str:
    if args.bandwidth is not None:
        return f"kernel density with bandwidth {args.bandwidth}"
    return f"model {args.model}"


def _print_reasons(summary: Summary, reasons: Reasons | None) -> None:
    """Why the most unusual rows are so."""
    for place in range(0 if reasons is None else len(reasons)):
        assert reasons is not None
        lines = reasons.describe(place) or ["no column is odd given the others"]
        print(f"\nrow {summary.rows[-1 - place]}: {lines[0]}")
        for line in lines[1:]:
            print(f"    {line}")


def _print_json(args: argparse.Namespace, job: Job, summary: Summary, reasons: Reasons | None) -> None:
    report: dict[str, Any] = {
        "n": job.shape[0],
        "d": job.shape[1],
        "columns": job.columns,
        "queries": summary.count,
        "model": args.model,
        "bandwidth": args.bandwidth,
        "mean_log_density": summary.mean if np.isfinite(summary.mean) else None,
        "out": str(args.out) if args.out else None,
        "plot": str(args.plot) if args.plot else None,
    }
    if job.spread is not None:
        report["mean_log_density_std"] = float(job.spread[:, 0].mean())
    if reasons is not None:
        report["why"] = [
            {"row": int(summary.rows[-1 - place]), "reasons": reasons.describe(place)}
            for place in range(len(reasons))
        ]
    print(json.dumps(report))


def _print_summary(args: argparse.Namespace, job: Job, summary: Summary) -> None:
    """The size of the job and, unless the answers went to a file, its most typical and unusual rows."""
    print(
        f"{job.shape[0]} rows, {job.shape[1]} column(s), {_model_name(args)}: "
        f"mean log density {summary.mean:.4f} at {summary.count} points"
        + ("" if job.spread is None else f", known to {job.spread[:, 0].mean():.2g} on the average")
    )
    if not args.out:
        if summary.count > 2 * SHOWN_ROWS:
            print(f"\nthe {SHOWN_ROWS} most typical rows and the {SHOWN_ROWS} most unusual ones, from 0:")
        rows = [
            [str(row), f"{log_density:.4f}", *(f"{x:.6g}" for x in point[:SHOWN_COLUMNS])]
            for row, log_density, point in zip(summary.rows, summary.log_density, summary.values, strict=True)
        ]
        print_table(["row", "log_density", *job.columns[:SHOWN_COLUMNS]], rows)
    for path in filter(None, (args.out, args.plot)):
        print(f"wrote {path}")

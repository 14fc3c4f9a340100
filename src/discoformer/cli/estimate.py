"""`discoformer estimate`: log density and score of a file of numbers."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.api.answers import answers
from discoformer.api.error_bars import BarSource, error_bars, head_of
from discoformer.api.fitting import Fitted, fit_stream
from discoformer.baselines.bandwidths import RULES
from discoformer.baselines.kde import KDE
from discoformer.cli.options import (
    add_fit,
    add_input,
    add_output,
    fit_table,
    kinds_text,
    read_input,
    refuse_input,
)
from discoformer.cli.parser import command_parser
from discoformer.cli.standing_out import FrameRows, Job, Summary, print_reasons, shown_cells, why
from discoformer.columns.cell_words import CellWords
from discoformer.columns.schema import Schema, infer_schema
from discoformer.columns.support import dropped_by_survey
from discoformer.core.checks import DataError, check_weights, show_cell
from discoformer.core.fields import Density, Estimate, as_density
from discoformer.data.batches import Batches, columns_to_stream, open_batches
from discoformer.data.files import (
    Table,
    check_output,
    read_queries,
    read_table,
    refuse_dependent,
    refuse_few_rows,
    refuse_without_density,
)
from discoformer.data.numeric import used_schema
from discoformer.data.writer import neutral, output_writer, style_of
from discoformer.detection.common_scale import common_scale, on_scale
from discoformer.detection.heavy_rows import left_out_rows
from discoformer.detection.reasons import Reasons, explain_rows
from discoformer.functionals.bootstrap import FITS
from discoformer.methods import resolve, takes_kinds
from discoformer.scale.source import ArraySource, Source, open_source
from discoformer.scale.stream import Stream, StreamingMethod, look
from discoformer.views.panels import check_picture
from discoformer.views.plots import VIEWS, plot
from discoformer.views.terminal import print_table

__all__ = ["make_parser", "run"]

EXAMPLES = """\
examples:
  discoformer estimate data.csv                        a short summary, nothing written
  discoformer estimate data.csv --out densities.csv    all columns, log_density and score_<column>
  discoformer estimate data.csv --types zip=category,age=continuous --exclude note --weights count
  discoformer estimate data.parquet --columns age,income --plot picture.png
  discoformer estimate data.csv --bounds age=0:,share=0:1 --plot unusual.png --view outliers
  discoformer estimate data.csv --why                  the most unusual rows, with reasons
  discoformer estimate data.csv --std --out bars.csv   with log_density_std and score_<column>_std
  discoformer estimate data.csv --queries grid.npy --out at_grid.npy
  discoformer estimate data.csv --bandwidth loo --json
"""

_KERNEL = "kde-scott"  # the method whose rule --bandwidth sets
CHUNK = 4096  # queries per step of the progress bar, for a table in memory
LARGE = 2**28  # bytes from which a file is streamed rather than read into memory
CELL = 32  # rough size in memory of a cell of a parquet file, in bytes
SHOWN_COLUMNS = 6


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
    add_output(parser, "the answers")
    add_fit(parser)
    parser.set_defaults(model=None)  # to tell an explicit "default" from no choice
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
    parser.add_argument(
        "--bootstrap", action="store_true", help="error bars by 24 more fits instead of one pass: slower"
    )
    parser.add_argument("--plot", metavar="PNG", type=Path, help="draw FILE: png, pdf or svg")
    parser.add_argument("--view", choices=VIEWS, help=f"what to draw (default: {VIEWS[0]})")
    return parser


def run(args: argparse.Namespace) -> None:
    """Read, fit, answer, draw, write, report; what can be refused early is refused before any work."""
    if args.bandwidth is not None and args.model not in (None, _KERNEL):
        raise DataError(f"--bandwidth is for kernel density: leave out --model {args.model} or --bandwidth")
    if args.view and not args.plot:
        raise DataError("--view says what to draw: add --plot with a name for the picture")
    if args.out:
        check_output(args.out)
        refuse_input(args.out, [*args.files, *filter(None, [args.queries])])
    if args.plot:
        check_picture(args.plot)
    args.std = args.std or args.bootstrap
    args.model = args.model or ("default" if args.bandwidth is None else _KERNEL)
    job = _streamed(args) if _is_streamed(args) else _in_memory(args)
    summary = Summary()
    with ExitStack() as moves:  # the table replaces an old one only after the picture is drawn
        write, frames = None, iter(())
        if args.out:
            frames = job.frames(CHUNK)
            style = style_of(None if job.table is None else job.table.raw, args.out.suffix.lower())
            style = replace(style, neutral=args.no_formulas)
            names = neutral(job.names) if args.no_formulas else job.names
            write = moves.enter_context(output_writer(args.out, names, job.queries.rows or 0, style))
        for chunk, (log_density, score) in answers(job.field, job.queries):
            values, found = chunk.numpy(), log_density.numpy()
            part = slice(summary.count, summary.count + len(values))
            if write is not None:
                bars = () if job.spread is None else (job.spread[part],)
                answer = np.column_stack([found, score.numpy()[:, job.scored], *bars])
                write(_joined(next(frames, None), values, answer, job.names))
            seen = found if job.left_out is None else job.left_out(values, part)
            summary.add(values, found, seen, on_scale(job.common, seen, values))
        if args.plot:
            assert job.table is not None
            view = args.view or VIEWS[0]
            shown = job.table.values, job.table.names
            plot(job.field, *shown, args.plot, view=view, band=job.band, words=_words(job.table))
    reasons = None
    if args.why:
        assert job.table is not None
        points = torch.from_numpy(summary.values[summary.unusual])
        sample, method = torch.from_numpy(job.table.values), job.fitted.refit()
        reasons = explain_rows(
            as_density(job.field),
            points,
            sample,
            method=method,
            names=job.columns,
            words=_words(job.table),
        )

    if args.json:
        _print_json(args, job, summary, reasons)
    elif str(args.out) != "-":
        _print_summary(args, job, summary)
        print_reasons(summary, reasons)


def _in_memory(args: argparse.Namespace) -> Job:
    context = read_input(args)
    queries = context
    if args.queries is not None:
        queries = read_queries(args.queries, context, args.columns)
    rows = None if queries.raw is None or _is_npy(args.out) else FrameRows(queries.raw.frame)
    names = _result_names(context, queries if rows is None else rows, std=args.std) if args.out else ()
    model = args.model if args.bandwidth is None else KDE(bandwidth=args.bandwidth)
    fitted = fit_table(context, model, args.bounds)
    job = _job(fitted, context, queries, names, rows)
    job = _with_bars(job, context, queries, "bootstrap" if args.bootstrap else None) if args.std else job
    if queries is not context or not isinstance(fitted.field, Density):
        return job
    left_out = _left_out(fitted, context)
    return replace(job, left_out=lambda _, part: left_out[part])


def _words(table: Table) -> CellWords:
    return CellWords.of(table.values, None if table.schema is None else table.schema.used)


def _with_bars(job: Job, context: Table, queries: Table, source: BarSource | None) -> Job:
    """The job with standard deviations of its answers, and of the log density anywhere."""

    def spread(points: NDArray[np.float64]) -> Estimate[Tensor]:
        rows = torch.from_numpy(context.values)
        weights = None if context.weights is None else check_weights(context.weights, rows)
        return error_bars(job.fitted, rows, torch.from_numpy(points), weights=weights, source=source)

    if source == "bootstrap" or head_of(job.fitted) is None:
        print(f"discoformer: error bars by the bootstrap, from {FITS} more fits", file=sys.stderr)
    log_density, score = (part.numpy() for part in spread(queries.values))
    bars = np.column_stack([log_density, score[:, job.scored]])
    return replace(job, spread=bars, band=lambda points: spread(points).log_density.numpy())


def _job(
    fitted: Fitted,
    context: Table,
    queries: Table,
    names: tuple[str, ...],
    rows: FrameRows | Batches | None,
) -> Job:
    source = ArraySource(queries.values, step=CHUNK)
    source.show = True
    common = common_scale(fitted.field, context.values, context.kinds)
    job = Job(fitted, source, context.values.shape, context.names, names, _scored(context), rows, context)
    return replace(job, common=common)


def _by_chunk(fitted: Fitted) -> Callable[[NDArray[np.float64], slice], NDArray[np.float64]] | None:
    """`Density.left_out` for rows of the sample that come in chunks."""
    field = fitted.field
    if not isinstance(field, Density):
        return None

    def left_out(values: NDArray[np.float64], _: slice) -> NDArray[np.float64]:
        with torch.no_grad():
            return field.left_out(torch.from_numpy(values)).numpy()

    return left_out


@torch.no_grad()
def _left_out(fitted: Fitted, table: Table) -> NDArray[np.float64]:
    rows = torch.from_numpy(table.values)
    weights = None if table.weights is None else check_weights(table.weights, rows)
    found = np.zeros(len(rows))
    there = np.flatnonzero(~np.isnan(table.values).all(1))  # a row of gaps alone is not in the sample
    share = None if weights is None else weights[there]
    density = as_density(fitted.field)
    found[there] = left_out_rows(fitted.refit(), density, rows[there], share).numpy()
    return found


def _scored(table: Table) -> list[int]:
    return [j for j, kind in enumerate(table.kinds) if kind.kind != "category"]


def _joined(
    frame: Any, values: NDArray[np.float64], answers: NDArray[np.float64], names: Sequence[str]
) -> Any:
    """The queries beside their answers; all columns that were read if there is a frame."""
    if frame is None:
        return np.column_stack([values, answers])
    return frame.assign(**dict(zip(names[frame.shape[1] :], answers.T, strict=True)))


def _is_streamed(args: argparse.Namespace) -> bool:
    """Whether the job is large and can be streamed; the answers are the same either way."""
    files = [path for path in (args.file, args.queries) if path is not None and path.exists()]
    if not any(path.is_dir() or _is_large(path) for path in files):
        return False
    if len(args.files) > 1:
        return False
    plain = not (args.plot or args.bounds or args.weights or args.std or args.why)
    if plain and isinstance(resolve(args.model).method, StreamingMethod):
        return True
    if args.file.is_dir():
        raise DataError(
            f"{args.file}: a folder is streamed: without --plot, --bounds, --weights, --std, --why, by a "
            "mixture model"
        )
    return False


def _is_large(path: Path) -> bool:
    if path.suffix.lower() == ".parquet" and (batches := open_batches(path)) is not None:
        return batches.cells * CELL >= LARGE
    return path.suffix.lower() in (".npy", ".parquet") and path.stat().st_size >= LARGE


def _in_batches(args: argparse.Namespace, batches: Batches, schema: Schema) -> Job:
    """Numbers are read a batch at a time; the rest of the file is never in memory as a whole."""
    context = batches.read(schema)
    refuse_without_density(args.file, context, drop_dependent=args.drop_dependent)
    queries = context
    rows: FrameRows | Batches | None = batches
    if args.queries is not None:
        queries = read_queries(args.queries, context, args.columns)
        rows = None if queries.raw is None else FrameRows(queries.raw.frame)
    rows = None if _is_npy(args.out) else rows
    names = _result_names(context, queries if rows is None else rows) if args.out else ()
    fitted = fit_table(context, args.model, args.bounds)
    job = _job(fitted, context, queries, names, rows)
    return replace(job, left_out=_by_chunk(fitted) if queries is context else None)


def _streamed(args: argparse.Namespace) -> Job:
    if takes_kinds(resolve(args.model)) and (batches := open_batches(args.file)) is not None:
        first = batches.first()
        schema = infer_schema(first.frame, args.types, args.exclude, args.columns)
        if schema != schema.plain() or any(column.gaps for column in schema.used):
            schema = used_schema(first, args.columns, args.types, args.exclude, plain=False)
            return _in_batches(args, batches, schema)
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
    job = Job(fitted, queries, (stream.rows, sample.dim), columns, names, list(range(sample.dim)))
    return replace(job, left_out=_by_chunk(fitted) if queries is sample else None)


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


def _is_npy(out: Path | None) -> bool:
    """Whether the output can hold only numbers."""
    return out is not None and out.suffix.lower() == ".npy"


def _result_names(
    context: Table, queries: Table | FrameRows | Batches, *, std: bool = False
) -> tuple[str, ...]:
    return _with_answers(queries.names, [context.names[j] for j in _scored(context)], std=std)


def _with_answers(columns: Sequence[str], scored: Sequence[str], *, std: bool = False) -> tuple[str, ...]:
    """The columns, log_density, score_<column> and, if asked for, the same with _std; no name twice."""
    answers = ("log_density", *(f"score_{name}" for name in scored))
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


def _print_json(args: argparse.Namespace, job: Job, summary: Summary, reasons: Reasons | None) -> None:
    report: dict[str, Any] = {
        "n": job.shape[0],
        "d": job.shape[1],
        "columns": job.columns,
        "queries": summary.count,
        "model": args.model,
        "bandwidth": args.bandwidth,
        "mean_log_density": summary.mean if np.isfinite(summary.mean) else None,
        "unusual": [
            {"row": int(summary.rows[place]), "columns": columns}
            for place, columns in zip(summary.unusual, why(job, summary), strict=True)
        ],
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
        + ("" if job.spread is None else f", known to {job.spread[:, 0].mean():.2g} on average")
    )
    if job.table is not None and (text := kinds_text(job.table)):
        print(text)
    if not args.out:
        typical = summary.typical
        print(f"\nthe {len(typical)} most typical rows, from 0:")
        rows = [[*_head(summary, place), *_cells(job, summary, place)] for place in typical]
        print_table(["row", "log_density", *job.columns[:SHOWN_COLUMNS]], rows)
        by = "" if job.left_out is None else ", each by the fit without it"
        print(f"\nthe {len(summary.unusual)} most unusual ones{by}, and the columns that make them so:")
        rows = []
        for place, columns in zip(summary.unusual, why(job, summary), strict=True):
            cells = shown_cells(job, summary, place)
            rows.append([*_head(summary, place), ", ".join(f"{name} {cells[name]}" for name in columns)])
        print_table(["row", "log_density", "because of"], rows)
    for path in filter(None, (args.out, args.plot)):
        print(f"wrote {path}")


def _head(summary: Summary, place: int) -> list[str]:
    return [str(summary.rows[place]), f"{summary.shown[place]:.4f}"]


def _cells(job: Job, summary: Summary, place: int) -> list[str]:
    return list(shown_cells(job, summary, place).values())[:SHOWN_COLUMNS]

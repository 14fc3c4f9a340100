"""What `discoformer estimate` shows: the rows that stand out, and the columns that make them so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discoformer.api.fitting import Fitted
from discoformer.columns.schema_convert import from_numbers
from discoformer.core.fields import Density, Field, PointDensity, as_point_density
from discoformer.data.batches import Batches
from discoformer.data.table import Table
from discoformer.detection.common_scale import CommonScale
from discoformer.detection.reasons import Reasons
from discoformer.scale.source import Source
from discoformer.views.plots import Band
from discoformer.views.reasons import odd_columns, without_rows
from discoformer.views.terminal import cell_text

__all__ = ["FrameRows", "Job", "Summary", "print_reasons", "shown_cells", "why"]

SHOWN_ROWS = 3


@dataclass(frozen=True)
class FrameRows:
    """The rows of a frame in memory."""

    frame: Any

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(str, self.frame.columns))

    def frames(self, size: int) -> Iterator[Any]:
        """``size`` rows at a time."""
        for start in range(0, len(self.frame), size):
            yield self.frame.iloc[start : start + size]


@dataclass(frozen=True)
class Job:
    """What is to be done: a field, where to read it, and what to call the answers.

    Attributes
    ----------
    fitted : the fit, whose field has a log density
    queries : where to answer
    shape : rows and columns of the sample
    columns : names of the columns of the sample that are used
    names : names of the columns of the output
    scored : columns that have a score
    rows : the queries as they were read, with the columns that are not used; None for plain numbers
    table : the sample, if it is in memory
    left_out : log density of rows of the sample, each under the fit without it, from a chunk and its place
    common : what to add to log densities so that rows with different missing cells compare
    spread : standard deviations (m, 1 + d) of the answers, if asked for
    band : standard deviations of the log density at further points
    """

    fitted: Fitted
    queries: Source
    shape: tuple[int, int]
    columns: tuple[str, ...]
    names: tuple[str, ...]
    scored: list[int]
    rows: FrameRows | Batches | None = None
    table: Table | None = None
    left_out: Callable[[NDArray[np.float64], slice], NDArray[np.float64]] | None = None
    common: CommonScale | None = None
    spread: NDArray[np.float64] | None = None
    band: Band | None = None

    @property
    def field(self) -> PointDensity:
        return as_point_density(self.fitted.field)

    def frames(self, size: int) -> Iterator[Any]:
        """The queries as they were read, ``size`` rows at a time; nothing for plain numbers."""
        return iter(()) if self.rows is None else self.rows.frames(size)


class Summary:
    """Mean log density, and the most typical and most unusual rows, gathered chunk by chunk in order."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.rows: NDArray[np.int64] = np.empty(0, dtype=np.int64)  # both ends, most typical first
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
        """Take in points (k, d): their log densities (k,), and the values to show and to rank them by."""
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
    def typical(self) -> NDArray[np.int64]:
        """Positions of the most typical rows among those kept."""
        return np.arange(len(self.rows))[:SHOWN_ROWS]

    @property
    def unusual(self) -> NDArray[np.int64]:
        """Positions of the most unusual rows among those kept, the most unusual first."""
        return np.arange(len(self.rows))[::-1][:SHOWN_ROWS]


def shown_cells(job: Job, summary: Summary, place: int) -> dict[str, str]:
    """The cells of one of the rows kept, by column, as they were read."""
    numbers = summary.values[[place]]
    if job.table is None or job.table.schema is None:
        return dict(zip(job.columns, map(cell_text, numbers[0].tolist()), strict=True))
    row = from_numbers(numbers, job.table.schema).iloc[0]
    return {str(column.name): cell_text(row[column.name]) for column in job.table.schema.used}


def why(job: Job, summary: Summary) -> list[list[str]]:
    """Names of the columns that make the most unusual rows unusual; none if the model cannot tell."""
    rows = summary.values[summary.unusual]
    density: Field | None = job.field
    if job.left_out is not None and job.table is not None and job.table.weights is None:
        density = without_rows(job.fitted, job.table.values, summary.rows[summary.unusual]) or density
    if not isinstance(density, Density):
        return [[] for _ in rows]
    return [[job.columns[j] for j in columns] for columns in odd_columns(density, rows)]


def print_reasons(summary: Summary, reasons: Reasons | None) -> None:
    """Why the most unusual rows are unusual."""
    for place in range(0 if reasons is None else len(reasons)):
        assert reasons is not None
        lines = reasons.describe(place) or ["no column is odd given the others"]
        print(f"\nrow {summary.rows[-1 - place]}: {lines[0]}")
        for line in lines[1:]:
            print(f"    {line}")

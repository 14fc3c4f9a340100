"""What a report says about a table: columns, unusual rows, what depends on what, how well the model fits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.api.fitting import Fitted
from discoformer.columns.schema_column import ColumnSchema
from discoformer.core.checks import DataError
from discoformer.core.fields import Density, PointDensity, as_density, as_point_density
from discoformer.core.progress import Advance, silent
from discoformer.data.files import Table
from discoformer.evaluation.held_out import HeldOut, held_out_log_likelihood
from discoformer.methods import resolve
from discoformer.views.page.calibration import Calibration, calibrate
from discoformer.views.page.dependence import Pair, pair_information
from discoformer.views.page.folds import FEWEST, FOLDS, Folds, hold_out
from discoformer.views.page.kinds import DescribedColumn, describe_column
from discoformer.views.page.unusual import Unusual, find_unusual

__all__ = [
    "STEPS",
    "ColumnStatistics",
    "Comparison",
    "TableSummary",
    "describe_columns",
    "effective_dimension",
    "summarize",
]

PEERS = {
    "kde-scott": "kernel density (Scott's rule)",
    "kde-loo": "kernel density (leave-one-out bandwidth)",
}

ALONE = "independent columns"

STEPS = FOLDS + len(PEERS) + 3  # steps of the progress bar

Measured = tuple[float, float]  # a value and its standard error


@dataclass(frozen=True)
class ColumnStatistics:
    """One column: five quantiles, mean, standard deviation, number of distinct values, and its kind.

    Numbers that a category does not have are NaN.
    """

    name: str
    least: float
    first_quartile: float
    median: float
    third_quartile: float
    largest: float
    mean: float
    sd: float
    distinct: int
    kind: DescribedColumn
    fitted: bool


@dataclass(frozen=True)
class Comparison:
    """Held-out log-likelihood of several methods, the best first.

    Attributes
    ----------
    folds : number of folds of the cross-validation
    rows : number of rows that were held out in turn
    own : label of the page's model
    results : label of each method, log-likelihood per row, and how far that is behind the best
    wins : by peer, the share of rows that are more likely under the page's model
    failures : messages of the methods that failed
    """

    folds: int
    rows: int
    own: str
    results: Sequence[tuple[str, Measured, Measured]]
    wins: Mapping[str, float]
    failures: Sequence[str]


@dataclass(frozen=True)
class TableSummary:
    """A table in numbers.

    Attributes
    ----------
    rows : number of rows
    columns : statistics of its columns, in order
    model : name of the fitted model
    dimension : number of columns in the fit
    effective_dimension : `effective_dimension` of these; None unless all are plain numbers without gaps
    unusual : rows that stand out, the most surprising first
    pairs : pairs of columns, the most dependent first; empty if the model has no margins
    comparison : the model against kernel density or independent columns, or the reason there is none
    calibration : on held-out rows, or None if it could not be measured
    left_out : columns of the file that its schema leaves out
    """

    rows: int
    columns: Sequence[ColumnStatistics]
    model: str
    dimension: int
    effective_dimension: float | None
    unusual: Unusual
    pairs: Sequence[Pair]
    comparison: Comparison | str
    calibration: Calibration | None = None
    left_out: Sequence[ColumnSchema] = ()


def summarize(table: Table, fitted: Fitted, advance: Advance = silent) -> TableSummary:
    """Describe a table and the model fitted to it.

    Parameters
    ----------
    table : the data
    fitted : from `discoformer.api.fitting.fit_sample`, with a density
    advance : advances a progress bar of `STEPS` steps

    Examples
    --------
    >>> from discoformer.api.fitting import fit_sample
    >>> table = Table(np.random.default_rng(0).normal(size=(40, 2)), ("a", "b"))
    >>> summary = summarize(table, fit_sample(table.values, "kde-scott"))
    >>> summary.rows, [column.name for column in summary.columns], len(summary.pairs)
    (40, ['a', 'b'], 1)
    """
    field = as_point_density(fitted.field)
    part = table.values[:, field.support]
    folds: Folds | None = None
    comparison: Comparison | str = f"{len(part)} rows are too few to hold some out"
    if len(part) >= FEWEST:
        try:
            folds = hold_out(fitted.refit(), part, advance=advance)
            comparison = _compare(part, fitted, folds, advance)
        except DataError as problem:  # such as a fold in which a column is constant
            comparison = f"no rows could be held out: {problem}"
    advance(0, "looking for unusual rows")
    unusual = find_unusual(field, table.values, folds)
    advance(1, "asking what depends on what")
    pairs = pair_information(field) if isinstance(field, Density) else []
    advance(1, "calibrating")
    calibration = None if folds is None else calibrate(folds, part)
    advance(1)
    return TableSummary(
        rows=len(table.values),
        columns=describe_columns(table, field.support),
        model=fitted.resolved.name,
        dimension=part.shape[1],
        effective_dimension=effective_dimension(part) if fitted.kinds is None and _whole(part) else None,
        unusual=unusual,
        pairs=pairs,
        comparison=comparison,
        calibration=calibration,
        left_out=[column for column in table.schema or () if column.use == "left out"],
    )


def effective_dimension(values: NDArray[np.float64]) -> float:
    """How many directions share the variance of standardized columns (n, d): from one to d.

    The participation ratio (sum l)^2 / sum l^2 of the eigenvalues l of the correlation matrix.

    >>> x = np.random.default_rng(0).normal(size=(5000, 2))
    >>> round(effective_dimension(x), 1), round(effective_dimension(x[:, [0, 0]]), 1)
    (2.0, 1.0)
    """
    eigenvalues = np.linalg.eigvalsh(np.atleast_2d(np.corrcoef(values.T)))
    return float(eigenvalues.sum() ** 2 / (eigenvalues**2).sum())


def describe_columns(table: Table, support: Sequence[int]) -> list[ColumnStatistics]:
    """Statistics of every column of a table; ``support`` lists the columns with a density."""
    known = {str(column.name): column for column in table.schema or ()}
    columns = enumerate(zip(table.names, table.values.T, strict=True))
    return [
        _column(x, known.get(name, ColumnSchema(name, "continuous", "")), j in support)
        for j, (name, x) in columns
    ]


def _column(x: NDArray[np.float64], known: ColumnSchema, fitted: bool) -> ColumnStatistics:
    there = x[~np.isnan(x)]
    name, kind, distinct = str(known.name), describe_column(x, known), len(np.unique(there))
    if kind.labels or not len(there):
        return ColumnStatistics(name, *(math.nan,) * 7, distinct, kind, fitted)
    least, first, median, third, largest = np.quantile(there, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist()
    mean, sd = float(there.mean()), float(there.std())
    return ColumnStatistics(name, least, first, median, third, largest, mean, sd, distinct, kind, fitted)


def _whole(values: NDArray[np.float64]) -> bool:
    return not np.isnan(values).any()


def _compare(part: NDArray[np.float64], fitted: Fitted, folds: Folds, advance: Advance) -> Comparison:
    """The model against kernel density, with the same rows, folds and bounds.

    Kernel density takes only plain numbers.  On other tables the peer is the product of the model's own
    margins, as if the columns were independent.
    """
    rows = part[folds.sample]
    own = f"this page's model ({fitted.resolved.name})"
    at_rows = folds.ask(lambda field, x: field.log_density(x), part)[folds.sample]
    if not np.isfinite(at_rows).all():
        raise DataError(
            f"the held-out log density of row {int((~np.isfinite(at_rows)).argmax())} is infinite"
        )
    found = {own: HeldOut(at_rows, 0.0)}
    failures = []
    plain = fitted.kinds is None and _whole(part)
    if not plain and part.shape[1] > 1:
        found[ALONE] = HeldOut(folds.ask(_by_column, part)[folds.sample], 0.0)
    for name, label in PEERS.items() if plain else ():
        advance(0, f"comparing with {label}")
        try:
            method = replace(fitted.refit(), method=resolve(name).method)
            found[label] = held_out_log_likelihood(method, rows, min(FOLDS, len(rows)))
        except DataError as problem:
            failures.append(f"{label}: {problem}")
        advance()
    advance(0 if plain else len(PEERS))
    ranked = sorted(found, key=lambda label: -found[label].mean)
    results = [
        (label, (found[label].mean, found[label].standard_error), found[ranked[0]].minus(found[label]))
        for label in ranked
    ]
    wins = {label: float((at_rows > found[label].log_density).mean()) for label in ranked if label != own}
    return Comparison(len(folds.fields), len(rows), own, results, wins, failures)


@torch.no_grad()
def _by_column(field: PointDensity, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log density (n,) of rows as if the columns were independent: the product of the fit's margins."""
    density = as_density(field)
    alone = [density.marginal([j]).log_density(rows[:, [j]]) for j in range(rows.shape[1])]
    return np.asarray(np.sum(alone, axis=0))

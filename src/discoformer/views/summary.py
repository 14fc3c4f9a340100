"""The numbers of a report: columns, entropy, unusual rows, and how well the model fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discoformer import functionals
from discoformer.api.fitting import Fitted
from discoformer.core.checks import DataError
from discoformer.core.fields import as_point_density
from discoformer.data.files import Table
from discoformer.evaluation.held_out import HeldOut, held_out_log_likelihood
from discoformer.methods import resolve

__all__ = ["ColumnSummary", "Comparison", "TableSummary", "UnusualRow", "effective_dimension", "summarize"]

UNUSUAL = 10  # rows listed
FOLDS = 5
FEWEST = 4  # with fewer rows, a fit without one fold would have less than three
PEERS = {"kde-scott": "kernel density, Scott's rule", "kde-loo": "kernel density, leave-one-out bandwidth"}

Measured = tuple[float, float]  # a value and its standard error


@dataclass(frozen=True)
class ColumnSummary:
    """One column: five quantiles, mean, standard deviation and the number of distinct values."""

    name: str
    least: float
    first_quartile: float
    median: float
    third_quartile: float
    largest: float
    mean: float
    sd: float
    distinct: int


@dataclass(frozen=True)
class UnusualRow:
    """A row of low density: its number from 0, its log density and its values."""

    row: int
    log_density: float
    values: tuple[float, ...]


@dataclass(frozen=True)
class Comparison:
    """Held-out log-likelihood of several methods, the best first.

    Attributes
    ----------
    folds : of the cross-validation
    results : name of the method, log-likelihood per row, and how far that is behind the best
    failures : what the other methods said
    """

    folds: int
    results: Sequence[tuple[str, Measured, Measured]]
    failures: Sequence[str]


@dataclass(frozen=True)
class TableSummary:
    """A table in numbers.

    Attributes
    ----------
    rows : number of rows
    columns : of the table, in order
    model : name of the fitted model
    dimension, effective_dimension : number of columns in the fit, and `effective_dimension` of them
    entropy : in nats, or why it is not available
    unusual : rows of lowest density, the lowest first
    comparison : the model against kernel density, or None if the rows are too few
    """

    rows: int
    columns: Sequence[ColumnSummary]
    model: str
    dimension: int
    effective_dimension: float
    entropy: Measured | str
    unusual: Sequence[UnusualRow]
    comparison: Comparison | None


def summarize(table: Table, fitted: Fitted, progress: Callable[[Any], Iterable[Any]] = iter) -> TableSummary:
    """Describe a table and the model fitted to it.

    Parameters
    ----------
    table : the data
    fitted : of `discoformer.api.fitting.fit_sample`, with a density
    progress : as for `discoformer.evaluation.held_out.held_out_log_likelihood`

    Examples
    --------
    >>> from discoformer.api.fitting import fit_sample
    >>> table = Table(np.random.default_rng(0).normal(size=(40, 2)), ("a", "b"))
    >>> summary = summarize(table, fit_sample(table.values, "kde-scott"))
    >>> summary.rows, [column.name for column in summary.columns], len(summary.unusual)
    (40, ['a', 'b'], 10)
    """
    field = as_point_density(fitted.field)
    part = table.values[:, field.support]
    return TableSummary(
        rows=len(table.values),
        columns=[_column(name, x) for name, x in zip(table.names, table.values.T, strict=True)],
        model=fitted.resolved.name,
        dimension=part.shape[1],
        effective_dimension=effective_dimension(part),
        entropy=_entropy(part, fitted),
        unusual=_unusual(table.values, field.log_density(table.values)),
        comparison=_compare(part, fitted, progress) if len(part) >= FEWEST else None,
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


def _column(name: str, x: NDArray[np.float64]) -> ColumnSummary:
    least, first, median, third, largest = np.quantile(x, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist()
    mean, sd, distinct = float(x.mean()), float(x.std()), len(np.unique(x))
    return ColumnSummary(name, least, first, median, third, largest, mean, sd, distinct)


def _entropy(part: NDArray[np.float64], fitted: Fitted) -> Measured | str:
    if len(part) < FEWEST:
        return f"{len(part)} rows are too few"
    try:
        nats, error = functionals.entropy(part, fitted.refit(), folds=min(FOLDS, len(part)))
    except DataError as problem:  # such as a fold in which a column is constant
        return str(problem)
    return nats, error


def _unusual(values: NDArray[np.float64], log_density: NDArray[np.float64]) -> list[UnusualRow]:
    order = np.argsort(log_density, kind="stable")[:UNUSUAL].tolist()
    return [UnusualRow(row, float(log_density[row]), tuple(values[row].tolist())) for row in order]


def _compare(
    part: NDArray[np.float64], fitted: Fitted, progress: Callable[[Any], Iterable[Any]]
) -> Comparison:
    """The model against kernel density, with the same folds and bounds."""
    own, folds = fitted.refit(), min(FOLDS, len(part))
    peers = {label: replace(own, method=resolve(name).method) for name, label in PEERS.items()}
    found: dict[str, HeldOut] = {}
    failures = []
    for label, method in {f"this page's model ({fitted.resolved.name})": own, **peers}.items():
        try:
            found[label] = held_out_log_likelihood(method, part, folds, progress=progress)
        except DataError as problem:
            failures.append(f"{label}: {problem}")
    ranked = sorted(found, key=lambda label: -found[label].mean)
    results = [
        (label, (found[label].mean, found[label].standard_error), found[ranked[0]].minus(found[label]))
        for label in ranked
    ]
    return Comparison(folds, results, failures)

"""A kind that the user gives, instead of the one that was inferred: ``types={"age": "count"}``.

What a kind needs to know may follow it: ``"circular:24"`` has a period, ``"bounded:0:10"`` two ends,
``"lattice:0.5"`` a step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discoformer.columns.schema_column import KINDS, NUMBERS, ColumnSchema, Kind
from discoformer.columns.schema_dates import time_type
from discoformer.columns.schema_repeats import find_atoms, find_grid
from discoformer.columns.schema_rules import PERIODS, decimals_of, numbers_of
from discoformer.core.checks import DataError, show_cell

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["override", "parse_kind"]

_PARAMETERS: dict[str, str] = {
    "circular": "its period, as in circular:24",
    "bounded": "its ends, as in bounded:0:10",
    "lattice": "its step, as in lattice:0.5",
}


def parse_kind(name: Any, text: Any) -> tuple[Kind, list[float]]:
    """A kind and the numbers that follow it.

    >>> parse_kind("wind", "circular:360")
    ('circular', [360.0])
    >>> parse_kind("age", "cuont")
    Traceback (most recent call last):
        ...
    discoformer.DataError: column 'age' cannot be 'cuont': choose continuous, positive, bounded, count, \
lattice, atoms, category, boolean, date, circular, identifier, text or constant
    """
    word, *numbers = str(text).strip().lower().split(":")
    for kind in KINDS:
        if word == kind:
            try:
                return kind, [float(number) for number in numbers]
            except ValueError:
                needs = _PARAMETERS.get(kind, "nothing")
                raise DataError(
                    f"column {show_cell(name)} as {show_cell(text)}: after {kind} goes {needs}"
                ) from None
    choices = f"{', '.join(KINDS[:-1])} or {KINDS[-1]}"
    raise DataError(f"column {show_cell(name)} cannot be {show_cell(text)}: choose {choices}")


def override(found: ColumnSchema, column: pd.Series[Any], text: Any) -> ColumnSchema:
    """The column with the kind that was asked for, if its values can be that.

    >>> import pandas as pd
    >>> from discoformer.columns.schema_rules import classify
    >>> column = pd.Series([1.0, 2.5, 7.0])
    >>> override(classify("x", column), column, "positive").bounds
    (0.0, inf)
    >>> override(classify("x", column), column, "count")
    Traceback (most recent call last):
        ...
    discoformer.DataError: column 'x' cannot be a count: it has 2.5
    """
    kind, parameters = parse_kind(found.name, text)
    plain = ColumnSchema(
        found.name, kind, "asked for", found.dtype, found.gaps, found.distinct, found.values, use="left out"
    )
    there = column[column.notna()]
    if kind in ("identifier", "text", "constant") or not len(there):
        return replace(plain, categories=found.categories if found.kind == "constant" else ())
    if kind in ("category", "boolean"):
        labels = (
            found.categories
            if found.use == "code"
            else tuple(sorted(there.unique().tolist(), key=lambda label: (type(label).__name__, label)))
        )
        if kind == "boolean" and len(labels) > 2:
            raise DataError(f"column {show_cell(found.name)} cannot be boolean: it has {len(labels)} values")
        return replace(plain, use="code", categories=labels)
    if time_type(there) is not None:
        return _time(found, plain, kind)
    values = numbers_of(there)
    if values is None or kind == "date":
        is_what = "numbers" if values is not None else "text"
        way = "parse its dates with pandas.to_datetime" if kind == "date" else "turn it into numbers"
        raise DataError(f"column {show_cell(found.name)} cannot be {kind}: it holds {is_what}; {way} first")
    finite = values[np.isfinite(values)]
    return _numbers(replace(plain, use="number", decimals=decimals_of(finite)), finite, kind, parameters)


def _time(found: ColumnSchema, plain: ColumnSchema, kind: Kind) -> ColumnSchema:
    """Dates stay dates; times and spans may go round the clock."""
    if kind == "circular" and found.unit != "":
        day = {"hours": 24.0, "seconds": 86_400.0}.get(found.unit)
        if day is not None:
            return replace(found, kind="circular", reason=plain.reason, period=day)
    if kind not in NUMBERS or kind == "circular":
        raise DataError(f"column {show_cell(found.name)} holds dates: it can be date, category or identifier")
    return replace(found, kind="date", reason=plain.reason, period=0.0, use="number")


def _numbers(
    plain: ColumnSchema, values: NDArray[np.float64], kind: Kind, parameters: Sequence[float]
) -> ColumnSchema:
    distinct, counts = np.unique(values, return_counts=True)
    if kind == "positive":
        _refuse(plain, distinct[distinct < 0], "positive")
        return replace(plain, low=0.0)
    if kind == "count":
        _refuse(plain, distinct[(distinct < 0) | (distinct != np.rint(distinct))], "a count")
        return replace(plain, low=0.0, step=1.0)
    if kind == "bounded":
        ends = _ends(plain, distinct, parameters)
        _refuse(
            plain,
            distinct[(distinct < ends[0]) | (distinct > ends[1])],
            f"within {ends[0]:g} and {ends[1]:g}",
        )
        return replace(plain, low=ends[0], high=ends[1])
    if kind == "circular":
        period = parameters[0] if parameters else _period(distinct)
        if not period > 0 or distinct[-1] - distinct[0] > period:
            raise DataError(f"column {show_cell(plain.name)} as circular: say {_PARAMETERS['circular']}")
        whole = bool((distinct == np.rint(distinct)).all())
        return replace(plain, period=period, step=1.0 if whole else 0.0)
    if kind == "lattice":
        grid = find_grid(distinct)
        step = parameters[0] if parameters else (grid.step if grid else 0.0)
        if not step > 0:
            raise DataError(f"column {show_cell(plain.name)} is on no grid: say {_PARAMETERS['lattice']}")
        return replace(plain, step=step, origin=grid.origin if grid and not parameters else 0.0)
    if kind == "atoms":
        return replace(plain, atoms=tuple(sorted(float(distinct[j]) for j in find_atoms(distinct, counts))))
    return plain


def _refuse(column: ColumnSchema, wrong: NDArray[np.float64], what: str) -> None:
    if len(wrong):
        raise DataError(f"column {show_cell(column.name)} cannot be {what}: it has {wrong[0]:g}")


def _ends(
    column: ColumnSchema, distinct: NDArray[np.float64], parameters: Sequence[float]
) -> tuple[float, float]:
    if len(parameters) == 2 and parameters[0] < parameters[1]:
        return parameters[0], parameters[1]
    for high in (1.0, 100.0):
        if not parameters and distinct[0] >= 0 and distinct[-1] <= high:
            return 0.0, high
    raise DataError(f"column {show_cell(column.name)} as bounded: say {_PARAMETERS['bounded']}")


def _period(distinct: NDArray[np.float64]) -> float:
    """The shortest of the usual periods that the values fit in; 0 if none does."""
    width, top = float(distinct[-1] - distinct[0]), float(np.abs(distinct).max())
    fits = [period for period in sorted({*PERIODS, 2 * math.pi}) if width <= period and top <= period]
    return fits[0] if fits else 0.0

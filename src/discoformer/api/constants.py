"""Columns of a frame that never change in the sample: without a density, but a row that differs is odd."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discoformer.columns.schema import Schema
from discoformer.data.arrow import to_frame
from discoformer.data.containers import kind_of, labels_of
from discoformer.detection.reasons import Reasons

__all__ = ["Constant", "changed_constants", "with_constants"]


class Constant(NamedTuple):
    """A column with one value in the sample.

    Attributes
    ----------
    name : of the column
    value : its value
    cells : (m,), what rows have instead
    changed : (m,) of bool, rows that have something else
    """

    name: Any
    value: Any
    cells: list[Any]
    changed: NDArray[np.bool_]


def changed_constants(schema: Schema | None, data: Any) -> list[Constant]:
    """The columns with one value in the sample that have another one in some row of a frame (m, D).

    >>> import pandas as pd
    >>> from discoformer.columns.schema import infer_schema
    >>> schema = infer_schema(pd.DataFrame({"size": [1.5, 2.5, 4.25], "unit": ["cm", "cm", "cm"]}))
    >>> [found] = changed_constants(schema, pd.DataFrame({"size": [2.0, 3.0], "unit": ["cm", "kg"]}))
    >>> found.name, found.value, found.changed.tolist()
    ('unit', 'cm', [False, True])
    """
    if schema is None or labels_of(data) is None:
        return []
    known = [column for column in schema if column.kind == "constant" and column.categories]
    if not known:
        return []
    frame = data if kind_of(data) == "pandas" else to_frame(data.to_arrow())
    found = []
    for column in known:
        if column.name in frame.columns:
            cells, there = list(frame[column.name]), np.asarray(frame[column.name].notna())
            value = column.categories[0]
            changed = there & np.array([cell != value for cell in cells], dtype=bool)
            if changed.any():
                found.append(Constant(column.name, value, cells, changed))
    return found


def with_constants(reasons: Reasons, constants: list[Constant]) -> Reasons:
    """Reasons with one more column for every constant: infinitely surprising where it has changed."""
    if not constants:
        return reasons
    rows, before = len(reasons), len(reasons.columns)
    excess = np.stack([np.where(constant.changed, np.inf, np.nan) for constant in constants], 1)
    empty = np.full(excess.shape, np.nan)
    number = np.broadcast_to(np.arange(1.0, rows + 1)[:, None], excess.shape)  # 0 is what was expected
    wide = np.hstack([reasons.excess, excess])

    def words(column: int, value: float) -> str:
        if column < before:
            return reasons.words(column, value)
        constant = constants[column - before]
        return str(constant.cells[int(value) - 1] if value else constant.value)

    return replace(
        reasons,
        columns=[*reasons.columns, *(constant.name for constant in constants)],
        values=np.hstack([reasons.values, number]),
        surprise=np.hstack([reasons.surprise, excess]),
        excess=wide,
        order=np.argsort(-np.nan_to_num(wide, nan=-np.inf), axis=1, kind="stable"),
        expected=np.hstack([reasons.expected, np.where(np.isinf(excess), 0.0, np.nan)]),
        low=np.hstack([reasons.low, empty]),
        high=np.hstack([reasons.high, empty]),
        words=words,
    )

"""What kind of thing a column is, in words: measured or counted, where it ends, how it was rounded.

Everything here is read off the values; no model is asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discoformer.data.files import FEW_VALUES

__all__ = ["ColumnKind", "column_kind"]

_HEAP = 0.1  # a single value that this share of the rows has is a heap
_LONE = 0.005  # values on the wrong side of zero are named if they are at most this share
_DECIMALS = 4  # rounding that is looked for
_TAIL = 10.0  # how far the largest value is, in widths of the middle half, for a tail to be called long


@dataclass(frozen=True)
class ColumnKind:
    """One column in words.

    Attributes
    ----------
    kind : "measured", "whole numbers", "few values" or "constant"
    remarks : short sentences without a subject, such as "rounded to 0.1"
    lone : rows with a negative value where all others are not, at most a few
    """

    kind: str
    remarks: Sequence[str]
    lone: Sequence[int] = ()


def column_kind(values: NDArray[np.float64]) -> ColumnKind:
    """Describe the values (n,) of a column.

    >>> column_kind(np.array([0.0, 0.0, 0.0, 2.5, 1.5, 7.0, 3.5, 4.0, 9.5, 0.5, 12.0, 5.0]))
    ColumnKind(kind='measured', remarks=['never negative', 'rounded to 0.5', '25% are exactly 0'], lone=())
    """
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) == 1:
        return ColumnKind("constant", [f"always {distinct[0]:.6g}"])
    step = _step(distinct)
    if len(distinct) < min(FEW_VALUES, len(values)):
        listed = ", ".join(f"{value:.6g}" for value in distinct)
        return ColumnKind("few values", [f"only {listed}"])
    lone = _lone_negatives(values)
    remarks = [text for text in (_range(distinct, lone), _tail(values)) if text]
    if step is not None and step != 1:
        remarks.append(f"rounded to {step:g}")
    top = int(counts.argmax())
    share = counts[top] / len(values)
    if share >= _HEAP and counts[top] > 2:
        remarks.append(f"{share:.0%} are exactly {distinct[top]:.6g}")
    whole = step is not None and step >= 1
    return ColumnKind("whole numbers" if whole else "measured", remarks, lone)


def _range(distinct: NDArray[np.float64], lone: Sequence[int]) -> str:
    least, largest = float(distinct[0]), float(distinct[-1])
    if lone:
        return ""
    if least >= 0 and largest <= 1:
        return "between 0 and 1"
    if least >= 0:
        return "never negative" if least < 0.2 * largest else ""
    return "never positive" if largest <= 0 else ""


def _tail(values: NDArray[np.float64]) -> str:
    """Whether more than a stray value is far above or below the middle half."""
    first, third = np.quantile(values, [0.25, 0.75])
    low, high = np.quantile(values, [0.005, 0.995])
    width = third - first
    if width <= 0 or len(values) < 200:
        return ""
    if high - third > _TAIL * width / 2 and high - third > 3 * (first - low):
        return "long tail to the right"
    return "long tail to the left" if first - low > _TAIL * width / 2 else ""


def _step(distinct: NDArray[np.float64]) -> float | None:
    """The coarsest of 1000, 500, ..., 0.5, 0.1, ... that all values are multiples of; None if none is."""
    if len(distinct) < 3 or not np.isfinite(distinct).all() or np.abs(distinct).max() > 1e12:
        return None
    for power in range(3, -_DECIMALS - 1, -1):
        for factor in (5, 1):
            step = factor * 10.0**power
            multiples = distinct / step
            if np.abs(multiples - np.round(multiples)).max() < 1e-6 and step < np.ptp(distinct) / 2:
                return step
    return None


def _lone_negatives(values: NDArray[np.float64]) -> tuple[int, ...]:
    negative = np.flatnonzero(values < 0)
    most = max(1, math.floor(_LONE * len(values)))
    return tuple(negative.tolist()) if len(negative) <= most and len(values) >= 50 else ()

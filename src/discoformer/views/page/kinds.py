"""What a column is, in words: its kind by the schema, and what the values show beyond that.

Everything here is read off the values; no model is involved.  A table read from a file has a schema; for an
array, the same rules look at the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from discoformer.columns.schema_column import ColumnSchema
from discoformer.columns.schema_dates import DAYS
from discoformer.columns.schema_rules import describe_numbers
from discoformer.data.files import FEW_VALUES

__all__ = ["DescribedColumn", "describe_column", "date_text"]

_HEAP = 0.1  # a single value in at least this share of the rows is a heap
_LONE = 0.005  # negative values are named if they are at most this share
_TAIL = 10.0  # a tail is long if its outer quantile is this far from the middle half, in half widths of it


@dataclass(frozen=True)
class DescribedColumn:
    """One column in words.

    Attributes
    ----------
    schema : its kind, the reason for it, and its grid
    remarks : short phrases, such as "long tail to the right"
    few : whether there are so few distinct values that each is to be shown
    lone : the few rows with a negative value, where hardly any row has one, and these values
    gaps : number of missing values
    """

    schema: ColumnSchema
    remarks: Sequence[str]
    few: bool = False
    lone: Mapping[int, float] = field(default_factory=dict)
    gaps: int = 0

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of a category, in the order of their codes; empty for other kinds."""
        return tuple(map(str, self.schema.categories)) if self.schema.use == "code" else ()

    @property
    def date(self) -> str:
        """Resolution of a column of dates, as in numpy; empty for other kinds."""
        return self.schema.resolution if self.schema.unit == DAYS else ""


def describe_column(values: NDArray[np.float64], known: ColumnSchema) -> DescribedColumn:
    """Describe the values (n,) of a column.

    Parameters
    ----------
    values : (n,), NaN where one is missing; codes for a category
    known : the schema of the column; if it gives no reason, the kind is inferred from the values

    >>> kind = describe_column(np.arange(60.0) % 3, ColumnSchema("a", "continuous", ""))
    >>> kind.schema.kind, kind.remarks
    ('count', ['whole numbers from 0 to 2', 'only 0, 1, 2'])
    """
    there = values[~np.isnan(values)]
    gaps = len(values) - len(there)
    missing = f"{_share(gaps / len(values))} missing" if gaps else ""
    if not len(there) or known.use == "code":
        return DescribedColumn(known, [text for text in (known.reason, missing) if text], gaps=gaps)
    distinct, counts = np.unique(there, return_counts=True)
    if not known.reason:
        constant = replace(known, kind="constant", reason=f"always {distinct[0]:.6g}")
        known = describe_numbers(known, there) if len(distinct) > 1 else constant
    lone = {} if known.kind in ("date", "circular") else _lone_negatives(values)
    few = 1 < len(distinct) < min(FEW_VALUES, len(there))
    top = int(counts.argmax())
    share = counts[top] / len(there)
    extra = ["" if known.kind in ("date", "circular") else _tail(there), missing]
    if few and known.kind != "boolean":
        extra.append(f"only {', '.join(f'{value:.6g}' for value in distinct)}")
    elif share >= _HEAP and _stands_out(counts, top) and known.kind not in ("atoms", "boolean", "constant"):
        extra.append(f"{share:.0%} are exactly {distinct[top]:.6g}")
    return DescribedColumn(known, [text for text in (known.reason, *extra) if text], few, lone, gaps)


def date_text(days: float, resolution: str) -> str:
    """A date from days since 1970-01-01, to the resolution of its column but no finer than a minute.

    >>> date_text(19786.5, "D"), date_text(19786.5, "s")
    ('2024-03-04', '2024-03-04 12:00')
    """
    if resolution == "D":
        return str(np.datetime64("1970-01-01", "D") + np.timedelta64(math.floor(days), "D"))
    minutes = np.timedelta64(round(1440 * days), "m")
    return str(np.datetime64("1970-01-01T00:00", "m") + minutes).replace("T", " ")


def _share(share: float) -> str:
    """A positive share, never rounded to zero.

    >>> _share(0.2), _share(0.0004)
    ('20%', 'less than 1%')
    """
    return f"{share:.0%}" if share >= 0.01 else "less than 1%"


def _stands_out(counts: NDArray[np.int64], top: int) -> bool:
    """Whether a value occurs more than twice as often as its neighbours; the mode of a count does not.

    >>> _stands_out(np.array([4, 5, 3]), 1), _stands_out(np.array([2, 9, 3]), 1)
    (False, True)
    """
    beside = np.delete(counts[max(0, top - 1) : top + 2], min(top, 1))
    return bool(counts[top] > max(2, 2 * beside.max(initial=0)))


def _tail(values: NDArray[np.float64]) -> str:
    """A remark if more than a stray value lies far above or below the middle half; else empty."""
    first, third = np.quantile(values, [0.25, 0.75])
    low, high = np.quantile(values, [0.005, 0.995])
    width = third - first
    if width <= 0 or len(values) < 200:
        return ""
    if high - third > _TAIL * width / 2 and high - third > 3 * (first - low):
        return "long tail to the right"
    return "long tail to the left" if first - low > _TAIL * width / 2 else ""


def _lone_negatives(values: NDArray[np.float64]) -> dict[int, float]:
    negative = np.flatnonzero(values < 0)
    most = max(1, math.floor(_LONE * len(values)))
    few = len(negative) <= most and len(values) >= 50
    return {int(row): float(values[row]) for row in negative} if few else {}

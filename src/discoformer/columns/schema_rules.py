"""The rules by which a column gets its kind, with their constants.

They are tried in this order, and the first that holds decides.

===============  ==========================================================================================
constant         one value, or none at all
boolean          truth values; the numbers 0 and 1; two texts such as yes and no
date             dates, times, spans of time
category         what pandas calls so; texts with few distinct values for the number of rows
identifier       texts that are (nearly) all different; whole numbers without a repeat where chance would
                 have repeats, or with a name like id; whole numbers too large for a float
text             any other text
circular         only by a name that says so, and a range that fits
count, lattice   all values on a grid, most of them not alone there
atoms            single values that too many rows share, beside others that do not repeat
bounded          shares and percentages
positive         amounts: nothing negative, and values down to zero
continuous       any other number
===============  ==========================================================================================
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discoformer.columns.schema_cells import EXACT, MEASURES, mixed_numbers
from discoformer.columns.schema_column import ColumnSchema
from discoformer.columns.schema_dates import DAYS, HOURS, SECONDS, resolution, time_type, to_times
from discoformer.columns.schema_repeats import (
    ATOM_NEIGHBOURS,
    ATOM_ROWS,
    ATOM_SHARE,
    ATOMS_MOST,
    Grid,
    find_atoms,
    find_caps,
    find_far,
    find_grid,
    without_heaps,
)
from discoformer.core.checks import show_cell

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PERIODS", "classify", "decimals_of", "describe_numbers", "numbers_of"]

# Texts: a category has at most this many distinct values, or this share of the rows if that is more,
CATEGORY_VALUES = 10
CATEGORY_SHARE = 0.1
# and never more than this.
CATEGORY_MOST = 1000
# Texts of which this share is distinct are identifiers, unless they have more words than these on average.
NEARLY_ALL = 0.99
IDENTIFIER_WORDS = 3.0
# Whole numbers without a repeat are numbered if n even draws from their range would repeat but for this
# chance, exp(-n (n - 1) / (2 range)): 30 numbers from 1 to 30, 1000 within 36,000.
NUMBERED_CHANCE = 1e-6
IDENTIFIER_NAME = re.compile(r"(?:^|[_\W])(?:id|ids|uuid|guid|key|pk|idx|index|rowid|row)$")
# A grid matters if values repeat: so many rows for every distinct value, with this share of its places
# taken in the middle of the sample (else it is the last digit of heaped values); or so few places in all.
GRID_REPEATS = 2.0
GRID_TAKEN = 0.1
GRID_PLACES = 100
# Shares reach to within this of 0 and 1, or say so by their name; percentages by their name or sign.
NEAR_END = 0.05
SHARE_NAME = re.compile(r"(?:^|[_\W])(?:share|fraction|prob|probability|proportion)(?:$|[_\W])")
PERCENT_NAME = re.compile(r"(?:%|(?:^|[_\W])(?:percent|percentage|pct)(?:$|[_\W]))")
# Amounts have no negative value, and one below this share of their median; below half with a currency.
NEAR_ZERO = 0.1
NEAR_ZERO_PRICED = 0.5
WORDS_FOR_TRUTH = tuple(
    map(frozenset, [("false", "true"), ("no", "yes"), ("n", "y"), ("f", "t"), ("off", "on"), ("nein", "ja")])
) + tuple(map(frozenset, [("non", "oui"), ("no", "sí"), ("no", "si"), ("nej", "ja"), ("nee", "ja")]))
_TRUE = frozenset({"true", "yes", "y", "t", "on", "ja", "oui", "sí", "si"})
# Circular by name: lowest and highest value, period, and whether whole numbers only.
CIRCULAR = (
    (re.compile(r"(?:^|[_\W])hour(?:[_\W]of[_\W]day)?$"), 0.0, 24.0, 24.0, False),
    (re.compile(r"(?:^|[_\W])month$"), 1.0, 12.0, 12.0, True),
    (re.compile(r"(?:^|[_\W])(?:weekday|day[_\W]of[_\W]week|dow)$"), 0.0, 7.0, 7.0, True),
    (re.compile(r"(?:^|[_\W])(?:angle|bearing|heading|azimuth|direction|dir)(?:[_\W]deg)?$"), 0.0, 360.0)
    + (360.0, False),
)
# of which the values must span this share of the period
CIRCULAR_SPAN = 0.5
PERIODS = tuple(rule[3] for rule in CIRCULAR)
DECIMALS = 6  # at most, of numbers that were rounded when they were written


def classify(name: Any, column: pd.Series[Any], unit: str = "") -> ColumnSchema:
    """The kind of a column by the rules above.

    Parameters
    ----------
    name : its label
    column : its cells (n,)
    unit : a sign that the cells were written with, such as %

    >>> import pandas as pd
    >>> classify("orders", pd.Series([0, 2, 1, 0, 3, 0, 1])).kind
    'count'
    >>> classify("city", pd.Series(["Bonn", "Ulm", "Bonn", None])).reason
    '2 different texts in 3 rows'
    """
    import pandas as pd

    gaps = int(column.isna().sum())
    there = column[column.notna()]
    base = ColumnSchema(name, "continuous", "", column.dtype, gaps, _count_distinct(there))
    if base.distinct <= 1:
        return _constant(base, there)
    if _holds_truth(there):
        labels = (False, True)
        return _with_codes(replace(base, kind="boolean", reason="true and false"), there, labels)
    if time_type(there) is not None:
        return _time(base, there)
    if isinstance(column.dtype, pd.CategoricalDtype):
        found = replace(base, kind="category", reason="a category of pandas")
        return _with_codes(found, there, tuple(column.dtype.categories))
    values = numbers_of(there)
    return _text(base, column) if values is None else describe_numbers(base, values, unit)


def numbers_of(cells: pd.Series[Any]) -> NDArray[np.float64] | None:
    """A column as float64 (n,), NaN for gaps; None for text, dates, or complex numbers.

    >>> import pandas as pd
    >>> numbers_of(pd.Series([1, None, 3], dtype="Int64"))
    array([ 1., nan,  3.])
    """
    import pandas as pd

    numeric = pd.api.types.is_numeric_dtype(cells) and not pd.api.types.is_complex_dtype(cells)
    if not numeric:
        what = pd.api.types.infer_dtype(cells, skipna=True)
        if what not in ("integer", "floating", "mixed-integer-float", "decimal", "boolean"):
            return None
    return np.asarray(cells.to_numpy(dtype=np.float64, na_value=np.nan))


def _holds_truth(there: pd.Series[Any]) -> bool:
    import pandas as pd

    if pd.api.types.is_bool_dtype(there):
        return not isinstance(there.dtype, pd.CategoricalDtype)
    return there.dtype == object and pd.api.types.infer_dtype(there) == "boolean"


def _count_distinct(there: pd.Series[Any]) -> int:
    try:
        return int(there.nunique())
    except TypeError:  # lists and mappings do not hash
        return len(set(map(repr, there)))


def _constant(base: ColumnSchema, there: pd.Series[Any]) -> ColumnSchema:
    if not len(there):
        return replace(base, kind="constant", reason="nothing in it", use="left out")
    value = there.iloc[0]
    reason = f"always {show_cell(value)}" + (" or a gap" if base.gaps else "")
    found = replace(base, kind="constant", reason=reason, values=str(value)[:40], categories=(value,))
    is_number = not _holds_truth(there) and time_type(there) is None and numbers_of(there) is not None
    return replace(found, use="number" if is_number else "left out")  # a fit has its own rules for numbers


def _time(base: ColumnSchema, there: pd.Series[Any]) -> ColumnSchema:
    values = f"{_clock(there.min())} to {_clock(there.max())}"
    found = replace(base, kind="date", values=values, resolution=resolution(there))
    which = time_type(there)
    if which == "time":
        return replace(found, kind="circular", reason="times of the day", unit=HOURS, period=24.0)
    if which == "duration":
        return replace(found, reason="spans of time", unit=SECONDS)
    if found.resolution != "D":
        return replace(found, reason="dates with a time", unit=DAYS)
    distinct, counts = np.unique(to_times(there), return_counts=True)
    step = 1.0 if _repeats(distinct, counts, Grid(1.0, 0.0)) else 0.0
    return replace(found, reason="dates", unit=DAYS, step=step)


def _clock(moment: Any) -> str:
    return str(moment).removesuffix(" 00:00:00").removeprefix("0 days ")


def _with_codes(base: ColumnSchema, there: pd.Series[Any], labels: tuple[Any, ...]) -> ColumnSchema:
    counts = there.astype(object).value_counts()
    shares = [f"{str(label)[:20]} {100 * count / len(there):.0f} %" for label, count in counts[:3].items()]
    return replace(base, use="code", categories=labels, values=", ".join(shares))


def _text(base: ColumnSchema, column: pd.Series[Any]) -> ColumnSchema:
    """Texts, and everything else that is not a number."""
    there = column[column.notna()]
    other = next((type(cell).__name__ for cell in there if not isinstance(cell, str)), None)
    if other is not None and other not in ("int", "float"):
        return replace(base, kind="text", reason=f"values of type {other}", use="left out")
    rows, distinct = len(there), base.distinct
    labels = sorted(there.unique().tolist(), key=str) if distinct <= CATEGORY_MOST else []
    if distinct == 2 and {str(label).strip().lower() for label in labels} in WORDS_FOR_TRUTH:
        labels.sort(key=lambda label: str(label).strip().lower() in _TRUE)
        found = replace(base, kind="boolean", reason=f"{labels[0]} and {labels[1]}")
        return _with_codes(found, there, tuple(labels))
    wrong = mixed_numbers(column)
    if wrong is not None:
        return replace(base, kind="text", reason=wrong, use="refused")
    words = float(np.mean([text.count(" ") + 1 for text in there.iloc[:1000].astype(str)]))
    if distinct >= NEARLY_ALL * rows:
        if words <= IDENTIFIER_WORDS:
            reason = "all different" if distinct == rows else "nearly all different"
            return replace(base, kind="identifier", reason=f"{reason} texts", use="left out")
        return replace(base, kind="text", reason=f"texts of {words:.0f} words", use="left out")
    if distinct <= min(max(CATEGORY_VALUES, CATEGORY_SHARE * rows), CATEGORY_MOST):
        found = replace(base, kind="category", reason=f"{distinct} different texts in {rows} rows")
        return _with_codes(found, there, tuple(labels))
    return replace(base, kind="text", reason=f"{distinct} different texts in {rows} rows", use="left out")


def describe_numbers(base: ColumnSchema, values: NDArray[np.float64], unit: str = "") -> ColumnSchema:
    """The kind of a column of numbers (n,) that are not all the same.

    >>> zeros = np.concatenate([np.zeros(40), np.random.default_rng(0).exponential(size=60)])
    >>> found = describe_numbers(ColumnSchema("amount", "continuous", ""), zeros)
    >>> found.kind, found.reason, found.bounds
    ('atoms', '0 in 40 % of the rows', (0.0, inf))
    """
    finite = values[np.isfinite(values)]
    distinct, counts = np.unique(finite, return_counts=True)
    if len(distinct) < 2:
        return replace(base, reason="infinite values", values=f"{values.min():g} to {values.max():g}")
    base = replace(base, values=f"{distinct[0]:.6g} to {distinct[-1]:.6g}", decimals=decimals_of(distinct))
    if np.array_equal(distinct, [0.0, 1.0]):
        return replace(base, kind="boolean", reason="0 and 1", use="code", categories=(0, 1))
    signs = _signs(base, distinct, counts)
    if not signs:
        return _describe_rest(base, distinct, counts, len(finite), unit)
    rest, times = np.delete(distinct, signs), np.delete(counts, signs)
    said = f"{_shares(distinct[signs], counts[signs], len(finite))}, apart from them"
    if len(rest) <= ATOMS_MOST and times.min() >= ATOM_ROWS:  # a few codes and a sign: codes are all there is
        reason = f"{len(rest)} values; {said}"
        return replace(base, kind="atoms", reason=reason, atoms=tuple(map(float, distinct)))
    found = _describe_rest(base, rest, times, len(finite), unit, circular=False)
    if found.use != "number":
        return found
    atoms = (*found.atoms, *map(float, distinct[signs]))
    return replace(found, reason=f"{found.reason}; {said}", atoms=tuple(sorted(atoms)))


def _signs(base: ColumnSchema, distinct: NDArray[np.float64], counts: NDArray[np.int64]) -> list[int]:
    """Which values stand for something else: far ones, or the only negative one if many rows have it."""
    if far := find_far(distinct, counts):
        return far
    if len(distinct) < 3 or not distinct[0] < 0 <= distinct[1]:
        return []
    return [0] if 0 in find_caps(distinct, counts, _step_of(base, distinct)) else []


def _step_of(base: ColumnSchema, distinct: NDArray[np.float64]) -> float:
    """Of the grid that values are on, as exactly as the column's type can say it; 0 if there is none."""
    grid = find_grid(distinct, _precision(base, distinct))
    return grid.step if grid else 0.0


def _precision(base: ColumnSchema, distinct: NDArray[np.float64]) -> float:
    whole = bool((distinct == np.rint(distinct)).all())
    return float(np.finfo(np.float32 if "32" in str(base.dtype) and not whole else np.float64).eps)


def _describe_rest(
    base: ColumnSchema,
    distinct: NDArray[np.float64],
    counts: NDArray[np.int64],
    rows: int,
    unit: str,
    *,
    circular: bool = True,
) -> ColumnSchema:
    """The kind by the values that are no signs; ``rows`` count these, too."""
    whole = bool((distinct == np.rint(distinct)).all())
    name = _plain(base.name)
    if whole and (reason := _numbered(name, distinct, int(counts.sum()))):
        return replace(base, kind="identifier", reason=reason, use="left out")
    for pattern, low, high, period, whole_only in CIRCULAR if circular else ():
        inside = low <= distinct[0] and distinct[-1] <= high
        wide = distinct[-1] - distinct[0] >= CIRCULAR_SPAN * period - 1
        if pattern.search(name) and inside and wide and (whole or not whole_only):
            step = 1.0 if whole else 0.0
            return replace(base, kind="circular", reason="by its name and range", period=period, step=step)
    base = _with_bounds(base, distinct, np.repeat(distinct, counts), unit)
    return _by_repeats(base, distinct, counts, rows)


def _shares(values: NDArray[np.float64], counts: NDArray[np.int64], rows: int) -> str:
    """Values and the shares of the rows that have them, in words."""
    said = [
        f"{value:g} in {100 * count / rows:.{0 if count >= 0.01 * rows else 1}f} %"
        for value, count in zip(values, counts, strict=True)
    ]
    return f"{', '.join(said)} of the rows"


def decimals_of(values: NDArray[np.float64]) -> int:
    """With how many decimals all values (m,) can be written, -1 if more than a few.

    >>> decimals_of(np.array([0.1 + 0.2, 4.25])), decimals_of(np.array([1 / 3]))
    (2, -1)
    """
    noise = 4 * np.finfo(np.float64).eps * np.maximum(np.abs(values), 1.0)
    for decimals in range(DECIMALS + 1):
        if bool((np.abs(values - np.round(values, decimals)) <= noise).all()):
            return decimals
    return -1


def _plain(name: Any) -> str:
    """A name in lower case, userId as user_id."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", str(name)).lower().strip()


def _numbered(name: str, distinct: NDArray[np.float64], rows: int) -> str:
    """Why whole numbers are identifiers; empty if they are not."""
    low, high = float(distinct[0]), float(distinct[-1])
    if max(abs(low), abs(high)) > EXACT:
        return "whole numbers beyond 2^53"
    if len(distinct) < rows:
        near = len(distinct) >= NEARLY_ALL * rows and IDENTIFIER_NAME.search(name)
        return "nearly all different, and by its name" if near else ""
    if IDENTIFIER_NAME.search(name):
        return "all different, and by its name"
    chance = math.exp(-rows * (rows - 1) / (2 * (high - low + 1)))
    return "whole numbers without a repeat" if chance < NUMBERED_CHANCE else ""


def _with_bounds(
    base: ColumnSchema, distinct: NDArray[np.float64], values: NDArray[np.float64], unit: str
) -> ColumnSchema:
    """Ends of the column, where its values leave no doubt."""
    low, high = float(distinct[0]), float(distinct[-1])
    name = _plain(base.name)
    for end, named in ((1.0, SHARE_NAME.search(name)), (100.0, PERCENT_NAME.search(name) or "%" in unit)):
        # 0 to 1 is a share whatever its name; 0 to 100 may be any amount
        reaches = end == 1.0 and low <= NEAR_END and high >= 1 - NEAR_END
        if low >= 0 and high <= end and (reaches or named):
            return replace(base, low=0.0, high=end)
    near = NEAR_ZERO if unit.strip() in ("", "%", "‰", *MEASURES) else NEAR_ZERO_PRICED
    if low >= 0 and low <= near * float(np.median(values)):
        return replace(base, low=0.0)
    return base


def _by_repeats(
    base: ColumnSchema, distinct: NDArray[np.float64], counts: NDArray[np.int64], rows: int
) -> ColumnSchema:
    """Counts, lattices and atoms, or what the bounds say."""
    atoms = find_atoms(distinct, counts)
    others = np.delete(np.arange(len(distinct)), atoms)
    if len(others) < 2:
        atoms, others = [], np.arange(len(distinct))
    grid = find_grid(distinct, _precision(base, distinct)) if len(distinct) < counts.sum() else None
    on_grid = grid is not None and _repeats(distinct[others], counts[others], grid)
    caps = find_caps(distinct, counts, grid.step if grid else 0.0)
    alone = sorted({*caps, *([] if on_grid else without_heaps(atoms, counts))}, key=lambda j: -int(counts[j]))
    shares = _shares(distinct[alone], counts[alone], rows)
    base = replace(_capped(base, distinct, counts, caps), atoms=tuple(sorted(map(float, distinct[alone]))))
    if grid is not None and on_grid:
        found = _on_grid(base, distinct, counts, grid)
        return replace(found, reason=f"{found.reason}; {shares}") if alone else found
    if alone:
        return replace(base, kind="atoms", reason=shares)
    heaped = "; heaps at round values" if atoms else ""
    if math.isfinite(base.high):
        return replace(base, kind="bounded", reason=f"all within {base.low:g} and {base.high:g}{heaped}")
    if math.isfinite(base.low):
        return replace(base, kind="positive", reason=f"none negative, smallest {distinct[0]:g}{heaped}")
    return replace(base, kind="continuous", reason=f"{len(distinct)} different numbers{heaped}")


def _capped(
    base: ColumnSchema, distinct: NDArray[np.float64], counts: NDArray[np.int64], caps: list[int]
) -> ColumnSchema:
    """With bounds at caps: ends that many rows share, where values go on up to the end."""
    for place in caps:
        away = np.abs(distinct[::-1] - distinct[-1] if place else distinct - distinct[0])
        if counts[place] >= ATOM_SHARE * counts.sum() and away[1] <= away[: ATOM_NEIGHBOURS + 1][-1] / 2:
            end = float(distinct[place])
            base = replace(base, high=end) if place else replace(base, low=end)
    return base


def _repeats(distinct: NDArray[np.float64], counts: NDArray[np.int64], grid: Grid) -> bool:
    """Whether a grid is seen in the values, rather than only in their last digits."""
    rows = int(counts.sum())
    first, last = np.searchsorted(np.cumsum(counts), [0.1 * rows, 0.9 * rows])
    taken = (last - first + 1) / ((distinct[last] - distinct[first]) / grid.step + 1)
    if rows >= GRID_REPEATS * len(distinct) and taken >= GRID_TAKEN:
        return True
    places = (distinct[-1] - distinct[0]) / grid.step + 1
    return len(distinct) < rows and float(places) <= GRID_PLACES


def _on_grid(
    base: ColumnSchema, distinct: NDArray[np.float64], counts: NDArray[np.int64], grid: Grid
) -> ColumnSchema:
    """A count or a lattice; of a few values that are all common, there are no others."""
    low, high = float(distinct[0]), float(distinct[-1])
    few = len(distinct) <= ATOMS_MOST and min(counts[0], counts[-1]) >= ATOM_ROWS
    base = replace(base, low=low, high=high) if few else base
    if grid == (1.0, 0.0) and 0 <= low <= high - low:
        reason = f"whole numbers from {low:g}{f' to {high:g}' if few else ''}"
        least = base.low if math.isfinite(base.low) else 0.0
        return replace(base, kind="count", reason=reason, step=1.0, origin=0.0, low=least)
    start = f" from {grid.origin:g}" if grid.origin else ""
    return replace(
        base, kind="lattice", reason=f"steps of {grid.step:g}{start}", step=grid.step, origin=grid.origin
    )

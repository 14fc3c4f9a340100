"""Dates and times as numbers, and back.

Dates are days since 1970-01-01 (UTC), whatever their resolution, so two files have the same unit; spans
of time are seconds; a time of day is hours.  Back, numbers are rounded to the resolution of the column:
whole days give whole days.  Exact to the microsecond from 1791 to 2149, to the second for any date.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DAYS", "HOURS", "SECONDS", "TimeType", "from_times", "resolution", "time_type", "to_times"]

DAYS = "days since 1970-01-01"
SECONDS = "seconds"
HOURS = "hours"
TimeType = Literal["datetime", "duration", "period", "date", "time"]

_PER_DAY = {"D": 1, "h": 24, "m": 1440, "s": 86_400, "ms": 86_400 * 10**3}
_PER_DAY |= {"us": 86_400 * 10**6, "ns": 86_400 * 10**9}


def time_type(column: pd.Series[Any]) -> TimeType | None:
    """What a column of times holds: pandas types, or Python's dates and times; None for anything else.

    >>> import pandas as pd
    >>> time_type(pd.Series(pd.date_range("2026-01-01", periods=2))), time_type(pd.Series([1, 2]))
    ('datetime', None)
    """
    import pandas as pd

    if isinstance(column.dtype, pd.PeriodDtype):
        return "period"
    if column.dtype.kind in "Mm":
        return "datetime" if column.dtype.kind == "M" else "duration"
    if column.dtype != object or not column.notna().any():
        return None
    types = {type(cell) for cell in column.dropna()}
    if types == {datetime.date}:
        return "date"
    return "time" if types == {datetime.time} else None


def _moments(column: Any) -> Any:
    """Datetimes without a time zone (UTC), or spans, of any column of times."""
    import pandas as pd

    which = time_type(column)
    if which == "period":
        return column.dt.to_timestamp()
    if which == "date":
        return pd.to_datetime(column)
    if which == "time":
        return pd.to_timedelta(column.map(str, na_action="ignore"))
    if which == "datetime" and isinstance(column.dtype, pd.DatetimeTZDtype):
        return column.dt.tz_convert("UTC").dt.tz_localize(None)
    return column


def resolution(column: pd.Series[Any]) -> str:
    """The coarsest of D, h, m, s, ms, us, ns that all times are multiples of.

    >>> import pandas as pd
    >>> resolution(pd.Series(pd.to_datetime(["2026-01-01", "2026-01-02 10:30"], format="ISO8601")))
    'm'
    """
    moments = _moments(column).dropna().to_numpy()
    for unit in _PER_DAY:
        if bool((moments.astype(f"{moments.dtype.kind}8[{unit}]") == moments).all()):
            return unit
    return "ns"


def to_times(column: pd.Series[Any]) -> NDArray[np.float64]:
    """A column of times as numbers (n,), NaN for gaps.

    >>> import pandas as pd
    >>> to_times(pd.Series(pd.to_datetime(["1970-01-02 12:00", None])))
    array([1.5, nan])
    """
    moments = _moments(column)
    gaps = moments.isna().to_numpy()
    raw = moments.to_numpy()
    unit = np.datetime_data(raw.dtype)[0]
    counts = np.where(gaps, 0, raw.astype(np.int64))
    whole, rest = np.divmod(counts, _PER_DAY[unit])  # whole days apart from the rest: no bits are lost
    days = whole + rest / _PER_DAY[unit]
    which = time_type(column)
    if which == "duration":
        per_second = _PER_DAY[unit] // 86_400
        whole, rest = np.divmod(counts, per_second)
        return np.where(gaps, np.nan, whole + rest / per_second)
    if which == "time":
        days = 24 * days
    return np.where(gaps, np.nan, days)


def from_times(numbers: NDArray[np.float64], dtype: Any, which: TimeType, unit: str) -> Any:
    """Times (n,) of the type, rounded to the resolution ``unit``; NaN gives a gap.

    >>> import pandas as pd
    >>> list(map(str, from_times(np.array([1.4, 3.0]), np.dtype("M8[us]"), "datetime", "D")))
    ['1970-01-02 00:00:00', '1970-01-04 00:00:00']
    """
    import pandas as pd

    per_number = _PER_DAY[unit] / {"duration": 86_400, "time": 24}.get(which, 1)
    gaps = ~np.isfinite(numbers)
    filled = np.where(gaps, 0.0, numbers)
    whole = np.floor(filled) if per_number > 1 else np.zeros_like(filled)  # apart: no bits are lost
    counts = np.rint((filled - whole) * per_number).astype(np.int64) + whole.astype(np.int64) * int(
        per_number
    )
    kind = "m8" if which in ("duration", "time") else "M8"
    raw = counts.astype(f"{kind}[{unit}]")
    raw = np.where(gaps, np.array("NaT", dtype=raw.dtype), raw)
    keep = unit if unit in ("s", "ms", "us", "ns") else "s"
    moments = pd.Series(raw.astype(f"{kind}[{keep}]"))
    if which == "period":
        return moments.dt.to_period(dtype.freq)
    if which == "date":
        return moments.dt.date.astype(object).where(~gaps, None)
    if which == "time":
        day = pd.Series(np.datetime64("1970-01-01", "us") + raw.astype("m8[us]"))
        return day.dt.time.astype(object).where(~gaps, None)
    if isinstance(dtype, pd.DatetimeTZDtype):
        return moments.dt.tz_localize("UTC").astype(dtype)
    return moments.astype(dtype)

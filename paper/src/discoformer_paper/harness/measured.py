"""Numbers that know the influence of each data set on them, and so their uncertainty.

A mean or ratio over data sets is a float that also holds how far it would move without each of them (the
jackknife).  Sums, differences, products and quotients carry that along to first order, so that two methods
measured on the same data sets are compared in pairs: the effect of a hard data set on both cancels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["Measured", "error_of", "pooled_ratio"]


class Measured(float):
    """A float with its influences, one for each data set: their squares sum to its variance.

    >>> mine, theirs = pooled_ratio(["1", "2"], [1.0, 3.0]), pooled_ratio(["1", "2"], [2.0, 4.0])
    >>> mine - theirs, error_of(mine), error_of(mine - theirs)
    (-1.0, 1.0, 0.0)
    """

    influences: Mapping[str, float]

    def __new__(cls, value: float, influences: Mapping[str, float]) -> Measured:
        number = super().__new__(cls, value)
        number.influences = influences
        return number

    def __reduce__(self) -> tuple[type[Measured], tuple[float, Mapping[str, float]]]:
        return Measured, (float(self), self.influences)

    def _combine(self, value: float, own: float, other: float, change: float) -> Measured:
        """A function's value, given its derivatives by this number and by another one."""
        theirs = other.influences if isinstance(other, Measured) else {}
        keys = self.influences.keys() | theirs.keys()
        moved = {k: own * self.influences.get(k, 0.0) + change * theirs.get(k, 0.0) for k in keys}
        return Measured(value, moved)

    def __add__(self, other: float) -> Measured:
        return self._combine(float(self) + float(other), 1.0, other, 1.0)

    def __sub__(self, other: float) -> Measured:
        return self._combine(float(self) - float(other), 1.0, other, -1.0)

    def __rsub__(self, other: float) -> Measured:
        return self._combine(float(other) - float(self), -1.0, other, 1.0)

    def __mul__(self, other: float) -> Measured:
        return self._combine(float(self) * float(other), float(other), other, float(self))

    def __truediv__(self, other: float) -> Measured:
        mine, theirs = float(self), float(other)
        if theirs == 0:
            return Measured(math.nan if mine == 0 else math.copysign(math.inf, mine), {})
        return self._combine(mine / theirs, 1 / theirs, other, -mine / theirs**2)

    def __rtruediv__(self, other: float) -> Measured:
        return Measured(float(other), {}) / self

    __radd__, __rmul__ = __add__, __mul__

    def log(self) -> Measured:
        """The natural logarithm of a positive number."""
        return self._combine(math.log(self), 1 / float(self), 0.0, 0.0)


def error_of(value: float) -> float:
    """Standard error of a number; NaN unless it comes from at least two data sets.

    >>> error_of(1.0)
    nan
    """
    if not isinstance(value, Measured) or len(value.influences) < 2:
        return math.nan
    return math.sqrt(math.fsum(influence**2 for influence in value.influences.values()))


def pooled_ratio(
    groups: Sequence[str],
    above: Sequence[float] | NDArray[np.float64],
    below: Sequence[float] | NDArray[np.float64] | None = None,
) -> Measured:
    """Sum over sum, by default mean, of numbers (rows,) whose data sets are named by ``groups``."""
    names, index = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    upper = np.asarray(above, dtype=np.float64)
    lower = np.ones_like(upper) if below is None else np.asarray(below, dtype=np.float64)
    total, weight = math.fsum(upper), math.fsum(lower)
    with np.errstate(all="ignore"):
        left = (total - np.bincount(index, upper)) / (weight - np.bincount(index, lower))
        moved = math.sqrt((len(names) - 1) / max(1, len(names))) * (left - left.mean())
    return Measured(total / weight if weight else math.nan, dict(zip(names, moved.tolist(), strict=True)))

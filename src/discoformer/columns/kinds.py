"""What the columns of a table of numbers are, and the methods that can take more than numbers on a line."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.fields import Field, Method

__all__ = ["CONTINUOUS", "ColumnKind", "Layout", "MixedMethod"]


@dataclass(frozen=True)
class ColumnKind:
    """How to read a column of numbers; NaN is a gap in every kind.

    Attributes
    ----------
    kind : "continuous", "category" (whole codes from 0 to levels - 1) or "circular"
    levels : how many levels a category has
    atoms : exact values that carry mass of their own beside the continuous part, such as zero
    step, origin : values lie on the lattice origin + step times whole numbers; a step of 0 is no lattice
    period : length of the circle of a circular column

    Examples
    --------
    >>> ColumnKind("category", levels=3)
    ColumnKind(kind='category', levels=3, atoms=(), step=0.0, origin=0.0, period=0.0)
    """

    kind: Literal["continuous", "category", "circular"] = "continuous"
    levels: int = 0
    atoms: tuple[float, ...] = ()
    step: float = 0.0
    origin: float = 0.0
    period: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in ("continuous", "category", "circular"):
            raise DataError(f"kind {self.kind!r}: use 'continuous', 'category' or 'circular'")
        if (self.kind == "category") != (self.levels > 0):
            raise DataError("a category, and nothing else, has levels: give at least one")
        if (self.kind == "circular") != (self.period > 0) or not math.isfinite(self.period):
            raise DataError("a circular column, and nothing else, has a period above zero")
        if self.kind == "category" and (self.atoms or self.step):
            raise DataError("a category has neither atoms nor a lattice")
        if self.step < 0 or not all(map(math.isfinite, (self.step, self.origin, *self.atoms))):
            raise DataError("atoms, step and origin of a column are finite numbers, the step not below zero")
        if len(set(self.atoms)) != len(self.atoms):
            raise DataError("an atom of a column is listed once")


CONTINUOUS = ColumnKind()


@dataclass(frozen=True)
class Layout:
    """Continuous columns, and categories behind them.

    Attributes
    ----------
    periods : of every continuous column, zero if it is not circular; circular ones are on [0, period)
    levels : of every category, whose codes are 0 to levels - 1

    Examples
    --------
    >>> Layout((0.0, 24.0), (3,)).dim
    3
    """

    periods: tuple[float, ...]
    levels: tuple[int, ...] = ()

    @property
    def dim(self) -> int:
        """Number of columns."""
        return len(self.periods) + len(self.levels)

    @property
    def plain(self) -> bool:
        """Whether all columns are continuous on a line."""
        return not self.levels and not any(self.periods)


class MixedMethod(Method):
    """A method that takes categories, circles and gaps."""

    @abstractmethod
    def fit_mixed(self, points: Tensor, weights: Tensor | None, layout: Layout) -> Field:
        """Fit to rows (n, d + c), NaN where there is a gap, with weights (n,) that sum to one."""

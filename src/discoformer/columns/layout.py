"""What a method needs to know of a table of numbers and categories, and the methods that can take one."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from torch import Tensor

from discoformer.core.fields import Field, Method

__all__ = ["Layout", "MixedMethod"]


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

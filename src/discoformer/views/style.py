"""What all pictures share: colours, letters, and how much is drawn.

Colours are viridis throughout: ordered in lightness, so they survive colour blindness and grey prints.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "ACCENT",
    "INK",
    "MAX_COLUMNS",
    "MAX_POINTS",
    "STYLE",
    "bin_count",
    "colour",
    "new_figure",
    "pale",
    "thin",
]

MAX_POINTS = 2000  # points drawn; more only blacken the page
MAX_COLUMNS = 6  # panels of the corner figure per side
INK = "#20303c"
ACCENT = "#d1495b"

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.edgecolor": "#8a949b",
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.formatter.limits": (-3, 5),
    "axes.formatter.use_mathtext": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "savefig.dpi": 150,
}


def thin(sample: NDArray[np.float64]) -> NDArray[np.float64]:
    """At most ``MAX_POINTS`` rows of a sample, evenly spaced in its order."""
    rows = np.linspace(0, len(sample) - 1, min(len(sample), MAX_POINTS)).astype(np.int64)
    return np.asarray(sample[rows])


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure with one panel, in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def colour(position: float, white: float = 0.0) -> tuple[float, float, float]:
    """A colour of viridis, from 0 (dark) to 1 (bright), mixed with a share of white."""
    from matplotlib import colormaps

    red, green, blue, _ = colormaps["viridis"](position)
    return (
        white + (1 - white) * float(red),
        white + (1 - white) * float(green),
        white + (1 - white) * float(blue),
    )


def pale(position: float) -> tuple[float, float, float]:
    """A colour light enough for dark text on it."""
    return colour(position, white=0.4)


def bin_count(count: int) -> int:
    """Bins for a histogram of so many values."""
    return min(40, max(8, math.isqrt(count)))

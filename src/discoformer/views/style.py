"""What all pictures share: colours, fonts, and how much is drawn.

Densities use viridis.  It is ordered by lightness, so it survives colour blindness and greyscale prints.  The
other colours are those of the report in its light theme (`page/css/base.css`).

>>> from matplotlib import pyplot
>>> with pyplot.style.context(STYLE):  # your own figures in the same look
...     pass
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ACCENT",
    "BAR",
    "CURVE",
    "INK",
    "MAX_COLUMNS",
    "MAX_POINTS",
    "MUTED",
    "STYLE",
    "bin_count",
    "colour",
    "thin",
]

MAX_POINTS = 2000  # points drawn; more only blacken the page
MAX_COLUMNS = 6  # panels of the corner figure per side
INK = "#1d2b36"  # points, arrows, words
MUTED = "#5a6872"  # scales
BAR = "#cfd8de"  # histograms
CURVE = "#3b2a6d"  # densities of one column
ACCENT = "#c2410c"  # what stands out

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.formatter.limits": (-3, 5),
    "axes.formatter.use_mathtext": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": f"cycler('color', ['{CURVE}', '{ACCENT}', '#1f9e89', '#1f5f8b', '{MUTED}'])",
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "savefig.dpi": 150,
}
"""The look of all pictures, as matplotlib's parameters: ``plt.style.use(STYLE)``."""


def thin(sample: NDArray[np.float64]) -> NDArray[np.float64]:
    """At most ``MAX_POINTS`` rows of a sample, evenly spaced in its order."""
    rows = np.linspace(0, len(sample) - 1, min(len(sample), MAX_POINTS)).astype(np.int64)
    return np.asarray(sample[rows])


def colour(position: float, white: float = 0.0) -> tuple[float, float, float]:
    """A colour of viridis, from 0 (dark) to 1 (bright), mixed with a share of white."""
    from matplotlib import colormaps

    red, green, blue, _ = colormaps["viridis"](position)
    return (
        white + (1 - white) * float(red),
        white + (1 - white) * float(green),
        white + (1 - white) * float(blue),
    )


def bin_count(count: int) -> int:
    """Number of bins for a histogram of ``count`` values."""
    return min(40, max(8, math.isqrt(count)))

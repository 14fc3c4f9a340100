"""Values that repeat: steps of a grid, and single values that too many rows share.

A density is for values that hardly ever repeat.  Two things make numbers repeat: all of them are
multiples of a step (counts, rounded measures), or a few values are special (no purchase, top score).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Grid", "find_atoms", "find_caps", "find_far", "find_grid", "without_heaps"]

# An atom: a value that at least this share of the rows have, and this many of them,
ATOM_SHARE = 0.01
ATOM_ROWS = 5
# more often than chance would have it beside the nearest distinct values on either side.  A value may be
# this many times as frequent as its neighbours on average before it counts: densities have peaks.
ATOM_NEIGHBOURS = 10
ATOM_PEAK = 2.0
ATOM_CHANCE = 1e-6
# The first and the last value have neighbours on one side only, and are two values of a column, not all.
CAP_CHANCE = 1e-3
FEW_APART = 10  # widths of few values that a sign lies away from them
CAP_PLACES = 4  # of a grid, beside an end, that foretell how many rows it should have
# More atoms than these are heaps (round prices, round ages), not special values, but for those that are so
# many times as frequent as the first one too many: zeros among round incomes.
ATOMS_MOST = 5
ATOMS_ABOVE_HEAPS = 3.0

# A grid is believed if its step is this many times the rounding error of the largest value.
GRID_OVER_NOISE = 1000.0
_ROUNDS = 100  # of Euclid's algorithm


class Grid(NamedTuple):
    """Values origin + k step for whole k; the origin is 0 where it can be."""

    step: float
    origin: float


def find_grid(distinct: NDArray[np.float64], eps: float = float(np.finfo(np.float64).eps)) -> Grid | None:
    """The widest step that all of the sorted, distinct values are on, by Euclid's algorithm; None if none.

    Parameters
    ----------
    distinct : (m,), sorted
    eps : rounding error of the values, relative: that of the type they were read from.  What is within a
        few of them of a multiple counts as one, so 0.1 + 0.2 is on the grid of 0.1.

    >>> find_grid(np.array([0.1, 0.2, 0.1 + 0.2, 0.7]))
    Grid(step=0.1, origin=0.0)
    >>> find_grid(np.array([1.0, 7.0, 11.0]))
    Grid(step=2.0, origin=1.0)
    >>> find_grid(np.sqrt([2.0, 3.0, 5.0, 7.0])) is None
    True
    """
    if len(distinct) < 2:
        return None
    noise = 4 * eps * float(np.abs(distinct).max())
    steps = np.diff(distinct)
    steps = np.unique(steps[steps > noise])  # nearer values are one value with rounding errors
    if not len(steps):
        return None
    step, error = float(steps[0]), noise
    for _ in range(_ROUNDS):
        rest = np.remainder(steps, step)
        rest = np.minimum(rest, step - rest)
        times = np.rint(steps / step)  # the error of the step counts so many times in the rest
        beyond = np.flatnonzero(rest > noise + (1 + times) * error)
        if step < GRID_OVER_NOISE * noise:
            return None
        if not len(beyond):
            break
        least = beyond[rest[beyond].argmin()]
        step, error = float(rest[least]), float(noise + times[least] * error)
    width = float(distinct[-1] - distinct[0])
    count = max(round(width / step), 1)
    step = _few_digits(width / count, noise / count)
    origin = _few_digits(float(distinct[0]) - step * round(float(distinct[0]) / step), noise)
    grid = Grid(step, 0.0 if abs(origin) <= noise else origin)
    places = np.rint((distinct - grid.origin) / step)
    on_grid = np.abs(grid.origin + places * step - distinct) <= 4 * noise
    return grid if bool(on_grid.all()) else None


def _few_digits(value: float, error: float) -> float:
    """The shortest decimal number within the error."""
    for digits in range(1, 17):
        short = float(f"{value:.{digits}g}")
        if abs(short - value) <= error:
            return short
    return value


def find_atoms(distinct: NDArray[np.float64], counts: NDArray[np.int64]) -> list[int]:
    """Which of the sorted values too many rows share, the most frequent first.

    A value is tested against the `ATOM_NEIGHBOURS` distinct values on either side: among the rows of this
    window, k values wide, it would have a share of 1/k, and has `ATOM_PEAK` / k or less by chance with a
    probability that `ATOM_CHANCE` bounds (a binomial tail).

    Parameters
    ----------
    distinct, counts : (m,), sorted values and the rows that have them

    >>> amounts = np.concatenate([[0.0], np.linspace(3, 90, 50)])
    >>> find_atoms(amounts, np.array([30] + [1] * 50))
    [0]
    >>> find_atoms(amounts, np.ones(51, dtype=np.int64))
    []
    """
    from scipy.special import bdtrc

    rows = int(counts.sum())
    least = max(ATOM_ROWS, math.ceil(ATOM_SHARE * rows))
    found = []
    for place in np.flatnonzero(counts >= least):
        window = counts[max(0, place - ATOM_NEIGHBOURS) : place + ATOM_NEIGHBOURS + 1]
        share = min(1.0, ATOM_PEAK / len(window))
        if bdtrc(int(counts[place]) - 1, int(window.sum()), share) < ATOM_CHANCE:
            found.append(int(place))
    return sorted(found, key=lambda place: -int(counts[place]))


def find_far(distinct: NDArray[np.float64], counts: NDArray[np.int64]) -> list[int]:
    """Which of the sorted values are signs for something else: -999 among ages, 9999 among prices.

    They lie at an end, further from the rest than the rest is wide, and `ATOM_ROWS` rows have each; of the
    rest there are more values than `ATOMS_MOST`, or it is ten times as far away.

    >>> ages = np.array([-999.0, -998.0, *range(20, 70), 9999.0])
    >>> find_far(ages, np.full(53, 7))
    [0, 1, 52]
    >>> find_far(ages, np.full(53, 3))  # three times is an error, not a sign
    []
    >>> find_far(np.array([1.0, 2, 3, 4, 5, 99]), np.full(6, 20))
    [5]
    """
    total = len(distinct)
    for many in range(min(2 * ATOMS_MOST, total - 2), 0, -1):
        for below in range(max(0, many - ATOMS_MOST), min(many, ATOMS_MOST) + 1):
            last = total - (many - below)
            far = [*range(below), *range(last, total)]
            if counts[far].min() < ATOM_ROWS:
                continue
            width = distinct[last - 1] - distinct[below]
            width *= 1 if last - below > ATOMS_MOST else FEW_APART
            clear = below == 0 or distinct[below] - distinct[below - 1] > width
            if clear and (last == total or distinct[last] - distinct[last - 1] > width):
                return far
    return []


def find_caps(distinct: NDArray[np.float64], counts: NDArray[np.int64], step: float) -> list[int]:
    """Which of the two ends more rows share than the values beside them foretell: caps, and extra zeros.

    On a grid of such a step (0 for none) whose next places are taken, a straight line through the logarithms
    of their counts foretells the end.  Elsewhere the test is that of `find_atoms`, with every place of the
    grid between the neighbours as a value that a row could have had.

    >>> scores = np.array([61.0, 62, 64, 65, 67, 70, 71, 74, 76, 78, 79.5, 80])
    >>> find_caps(scores, np.array([1] * 11 + [12]), 0.5)
    [11]
    >>> visits = np.array([0.0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    >>> find_caps(visits, np.array([900, 100, 80, 64, 51, 41, 33, 26, 21, 17, 13]), 1.0)
    [0]
    >>> find_caps(visits, np.array([900, 450, 225, 112, 56, 28, 14, 7, 3, 1, 1]), 1.0)
    []
    """
    if len(distinct) <= (CAP_PLACES if step else ATOM_NEIGHBOURS):
        return []
    window = slice(0, ATOM_NEIGHBOURS + 1)
    found = [0] if _is_cap(distinct[window] - distinct[0], counts[window], step) else []
    if _is_cap(distinct[-1] - distinct[::-1][window], counts[::-1][window], step):
        found.append(len(distinct) - 1)
    return found


def _is_cap(away: NDArray[np.float64], counts: NDArray[np.int64], step: float) -> bool:
    """Whether the first of some values is a cap; ``away`` is how far they are from it."""
    from scipy.special import bdtrc, ndtri

    end = int(counts[0])
    if end < ATOM_ROWS:
        return False
    if step and away[CAP_PLACES] < (CAP_PLACES + 0.5) * step:
        places, rows = np.arange(1.0, CAP_PLACES + 1), counts[1 : CAP_PLACES + 1].astype(np.float64)
        line = np.stack([np.ones(CAP_PLACES), places])
        spread = np.linalg.inv((line * rows) @ line.T)  # of a logarithm of a count, the variance is 1 / count
        foretold = float((spread @ line @ (rows * np.log(rows)))[0])
        error = math.sqrt(1 / end + spread[0, 0])
        return math.log(end / ATOM_PEAK) - foretold > -float(ndtri(CAP_CHANCE)) * error
    share = min(1.0, ATOM_PEAK / (away[-1] / step + 1)) if step else 0.0
    above = end > ATOM_PEAK * counts[1:].max()
    return bool(above) and bool(bdtrc(end - 1, int(counts.sum()), share) < CAP_CHANCE)


def without_heaps(atoms: list[int], counts: NDArray[np.int64]) -> list[int]:
    """Of the atoms that `find_atoms` gives, the most frequent first, those that stand out from heaps.

    >>> counts = np.array([300, 50, 40, 40, 30, 30, 30, 20])
    >>> without_heaps(list(range(8)), counts), without_heaps(list(range(5)), counts)
    ([0], [0, 1, 2, 3, 4])
    """
    if len(atoms) <= ATOMS_MOST:
        return atoms
    return [place for place in atoms if counts[place] >= ATOMS_ABOVE_HEAPS * counts[atoms[ATOMS_MOST]]]

"""Regions of highest density: the smallest sets that hold a share of the mass.

Values with a mass of their own take no room, so they come first, the likeliest before the others; the
rest of the share is where the density is highest.  On a lattice the places with the largest masses are taken.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.columns.kinds import ColumnKind
from discoformer.columns.split import kinds_of, on_lattice
from discoformer.core.checks import DataError
from discoformer.core.fields import Density
from discoformer.functionals.draws import draw
from discoformer.functionals.masses import level_shares, mass_between
from discoformer.functionals.outlines import outlines

__all__ = ["Interval", "Region", "highest_density_region"]

_GRID = 512  # evenly spaced points at which a density of one column is compared with a level
_PLACES = 4096  # of a lattice that are weighed one by one; more are as good as continuous
_TOLD = 0.002  # parts with a smaller share of the draws are left out


Interval = tuple[float, float]


class Region(NamedTuple):
    """Where a density is highest: the smallest set that holds a share of the mass.

    Attributes
    ----------
    share : share of the mass
    log_density : the level; the region is where the log density is at least this
    intervals : pairs of ends for a density of one column; on a circle from the first on to the second
    values : of one column, the labels and the values with a mass of their own that are inside
    outlines : polygons (k, 2) around the region of two columns of numbers, ready to draw; a hole is one, too
    """

    share: float
    log_density: float
    intervals: list[Interval]
    values: list[Any]
    outlines: list[NDArray[np.float64]]


@torch.no_grad()
def highest_density_region(density: Density, share: float) -> Region:
    """The smallest region that holds a share of the mass; its level is estimated from draws.

    >>> from discoformer.baselines.kde import KDE
    >>> region = highest_density_region(KDE(1.0).fit([[-9.0], [9.0]]), 0.5)
    >>> [[round(end) for end in ends] for ends in region.intervals]
    [[-10, -8], [8, 10]]
    """
    if not 0 < share < 1:
        raise DataError(f"a region with share {share}: give one between 0 and 1")
    kinds = kinds_of(density)
    if density.dim == 1:
        return _of_places(density, kinds[0], share) or _of_column(density, kinds[0], share)
    points = draw(density)
    level = _level(density.log_density(points), share)
    drawn = len(density.support) == density.dim == 2 and not any(kind.levels for kind in kinds)
    return Region(share, level, [], [], outlines(density, level, points) if drawn else [])


def _level(log_density: Tensor, share: float) -> float:
    return float(log_density.quantile(1 - share, interpolation="lower"))


def _of_column(density: Density, kind: ColumnKind, share: float) -> Region:
    """Of one column: atoms or labels, the likeliest first, and then intervals."""
    shares = level_shares(density, kind)
    held, values = 0.0, list[float]()
    for value in sorted(shares, key=lambda value: -shares[value]):
        values.append(value)
        held += shares[value]
        if held >= share:
            break
    points = draw(density)
    between = points[~torch.isin(points[:, 0], torch.tensor(list(shares), dtype=points.dtype))]
    if held >= share or len(between) < 2:
        return Region(share, math.log(max(shares[values[-1]], 1e-300)), [], values, [])
    level = _level(density.log_density(between), (share - held) / (1 - held))
    found = _intervals(density, between, level)
    if kind.period:
        found = _across_the_seam(density, kind, found, level)
    told = [(_on_grid(low, kind), _on_grid(high, kind)) for low, high in found if _holds(between, low, high)]
    return Region(share, level, told, values, [])


def _holds(points: Tensor, low: float, high: float) -> bool:
    """Whether a part of a region has enough of the draws to be told; it may run across a seam."""
    above, below = points >= low, points <= high
    return float((above & below if low <= high else above | below).double().mean()) >= _TOLD


def _of_places(density: Density, kind: ColumnKind, share: float) -> Region | None:
    """Of a column on a lattice: its likeliest places and atoms; None if it has none, or too many."""
    if not kind.step:
        return None
    atoms = torch.tensor(kind.atoms, dtype=torch.float64)
    if kind.period:
        first, last = 0, round(kind.period / kind.step) - 1
    else:
        points = draw(density)
        between = points[~torch.isin(points, atoms)]
        if not len(between):
            return None
        first, last = (round(float(end - kind.origin) / kind.step) for end in between.aminmax())
    if last - first >= _PLACES:
        return None
    places = on_lattice(torch.arange(first, last + 1, dtype=torch.float64), kind)
    places = places[~torch.isin(places, atoms)]
    both = torch.cat([places, atoms])
    masses = mass_between(density, kind, both, both)
    order = masses.argsort(descending=True, stable=True)
    count = int((masses[order].cumsum(0) < share).sum()) + 1
    chosen = torch.zeros(len(masses), dtype=torch.bool)
    chosen[order[:count]] = True
    inside = chosen[: len(places)]
    edges = torch.nn.functional.pad(inside.int(), (1, 1)).diff()
    starts, stops = places[edges[:-1] == 1].tolist(), places[edges[1:] == -1].tolist()
    if kind.period and inside[0] and inside[-1] and len(starts) > 1:
        starts, stops = starts[1:], [*stops[1:-1], stops[0]]
    least = float(masses[order[:count]].min())
    level = math.log(max(least, 1e-300)) - math.log(kind.step)
    values = [float(both[k]) for k in order[:count].tolist() if k >= len(places)]
    return Region(share, level, list(zip(starts, stops, strict=True)), values, [])


def _on_grid(end: float, kind: ColumnKind) -> float:
    """The place of the lattice whose bin contains an end; the end itself without a lattice."""
    if not kind.step:
        return end
    place = torch.tensor([round((end - kind.origin) / kind.step)], dtype=torch.float64)
    return float(on_lattice(place, kind))


def _across_the_seam(
    density: Density, kind: ColumnKind, found: list[Interval], level: float
) -> list[Interval]:
    """Intervals of a circle: the last and the first are one if the seam between them is inside."""
    seam = torch.tensor([[kind.origin]], dtype=torch.float64)
    if not found or float(density.log_density(seam)) < level:
        return found
    if len(found) == 1:
        return [(kind.origin, kind.origin + kind.period)]
    return [*found[1:-1], (found[-1][0], found[0][1])]


def _intervals(density: Density, points: Tensor, level: float) -> list[Interval]:
    """Where the density of one column is at least a level: pairs of ends, by bisection between grid points.

    The grid is made of some draws, and of even steps from the smallest draw to the largest.
    """
    ordered = points.flatten().sort().values
    even = torch.linspace(float(ordered[0]), float(ordered[-1]), _GRID, dtype=ordered.dtype)
    grid = torch.cat([ordered[:: max(1, len(ordered) // _GRID)], even, ordered[-1:]]).unique()
    inside = density.log_density(grid.unsqueeze(-1)) >= level
    changes = (inside[1:] != inside[:-1]).nonzero().flatten()
    low, high, opens = grid[changes], grid[changes + 1], inside[changes + 1]
    for _ in range(60):
        middle = 0.5 * (low + high)
        beyond = (density.log_density(middle.unsqueeze(-1)) >= level) == opens
        low, high = torch.where(beyond, low, middle), torch.where(beyond, middle, high)
    ends = torch.where(opens, high, low).tolist()
    ends = [*([float(grid[0])] if bool(inside[0]) else []), *ends]
    ends += [float(grid[-1])] if len(ends) % 2 else []
    return list(zip(ends[::2], ends[1::2], strict=True))

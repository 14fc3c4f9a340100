"""A density in a few numbers: mean, covariance, mode, regions of highest density, probabilities.

What has no closed form in every density (columns may be bounded or transformed) is read off N draws with a
fixed seed.  That leaves a standard error of std / sqrt(N) in a mean, and of sqrt(p (1 - p) / N) in a
probability.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.composed import on_support
from discoformer.core.fields import Density
from discoformer.functionals.splits import Functional

__all__ = ["Interval", "Region", "draw", "highest_density_region", "mode", "probability"]

_DRAWS = 16384
_STARTS = 8  # starting points of the search for the mode
_GRID = 512  # evenly spaced points at which a density of one column is compared with a level


Interval = tuple[float, float]


class Region(NamedTuple):
    """Where a density is highest: the smallest set that holds a share of the mass.

    Attributes
    ----------
    share : share of the mass
    log_density : the level; the region is where the log density is at least this
    intervals : pairs of ends for a density of one column; empty otherwise
    """

    share: float
    log_density: float
    intervals: list[Interval]


@torch.no_grad()
def draw(density: Density, count: int = _DRAWS, seed: int = 0) -> Tensor:
    """Points (count, d) drawn with a fixed seed, so that the same question has the same answer."""
    return density.sample(count, torch.Generator().manual_seed(seed))


@torch.no_grad()
def mode(density: Density) -> NDArray[np.float64]:
    """The point (d,) of highest density, found by climbing along the score from the densest draws.

    >>> from discoformer.baselines.kde import KDE
    >>> mode(KDE(1.0).fit([[0.0], [0.1], [0.2], [9.0]])).round(1).tolist()
    [0.1]
    """
    from scipy.optimize import minimize  # slow to load, so only here; scikit-learn brings scipy

    draws = draw(density, 4096)
    inner, kept = on_support(density)
    points = draws[:, kept]
    scale = points.std(0).clamp_min(torch.finfo(points.dtype).tiny).numpy()
    start = points[inner.log_density(points).topk(_STARTS).indices].numpy()

    def downhill(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        log_density, score = inner.estimate(torch.from_numpy(x * scale).unsqueeze(0))
        return -min(float(log_density), 1e300), -score[0].numpy() * scale

    found = [minimize(downhill, x / scale, jac=True, method="L-BFGS-B") for x in start]
    best = min(found, key=lambda one: float(one.fun)).x * scale
    if len(kept) == density.dim:
        return np.asarray(best)
    nearest = (points.numpy() / scale - best / scale).__pow__(2).sum(-1).argmin()
    full = draws[nearest].numpy().copy()  # dependent columns as in the nearest draw
    full[kept] = best
    return np.asarray(full)


@torch.no_grad()
def highest_density_region(density: Density, share: float, *, among: Tensor | None = None) -> Region:
    """The smallest region that holds a share of the mass; its level is estimated from draws.

    ``among`` (m, d) are draws to use instead of new ones, such as those beside the atoms.

    >>> from discoformer.baselines.kde import KDE
    >>> region = highest_density_region(KDE(1.0).fit([[-9.0], [9.0]]), 0.5)
    >>> [[round(end) for end in ends] for ends in region.intervals]
    [[-10, -8], [8, 10]]
    """
    if not 0 < share < 1:
        raise DataError(f"a region with share {share}: give one between 0 and 1")
    points = draw(density) if among is None else among
    level = float(density.log_density(points).quantile(1 - share, interpolation="lower"))
    return Region(share, level, _intervals(density, points, level) if density.dim == 1 else [])


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


Box = Mapping[int, tuple[float | None, float | None]]


@torch.no_grad()
def probability(density: Density, region: Box | Callable[[NDArray[np.float64]], Any]) -> Functional:
    """Mass of a region: ends by column, or a function that says which rows (m, d) are inside.

    In closed form for one column between two ends, else from draws.

    >>> from discoformer.baselines.kde import KDE
    >>> probability(KDE(1.0).fit([[-9.0], [9.0]]), {0: (0.0, None)})
    Functional(value=0.5, standard_error=0.0)
    """
    if not callable(region):
        unknown = [column for column in region if not 0 <= column < density.dim]
        if unknown or not region:
            raise DataError(f"region {dict(region)}: give ends for columns 0 to {density.dim - 1}")
        if len(region) == 1:
            [(column, ends)] = region.items()
            margin = density.marginal([column]) if density.dim > 1 else density
            below = [_cdf(margin, end, side) for side, end in enumerate(ends)]
            return Functional(below[1] - below[0], 0.0)
    points = draw(density).cpu().numpy()
    inside = np.asarray(region(points) if callable(region) else _in_box(points, region), dtype=np.float64)
    if inside.shape != (len(points),):
        raise DataError(f"the region says {inside.shape} of {len(points)} rows: it must answer once for each")
    return Functional(float(inside.mean()), float(inside.std() / np.sqrt(len(inside))))


def _cdf(margin: Density, end: float | None, without: int) -> float:
    """Mass below an end; ``without`` is the answer if there is no end."""
    if end is None or np.isinf(end):
        return float(without)
    return float(margin.cdf(torch.tensor([[end]], dtype=torch.float64)))


def _in_box(points: NDArray[np.float64], region: Box) -> NDArray[np.bool_]:
    inside = np.ones(len(points), dtype=bool)
    for column, (low, high) in region.items():
        inside &= (points[:, column] >= (-np.inf if low is None else low)) & (
            points[:, column] <= (np.inf if high is None else high)
        )
    return inside

"""The mass of a region: in closed form for one column, by the kind it has, else from draws.

Ends are inside.  That matters where values have a mass of their own: labels, atoms, and places of a lattice.
On a circle a region runs from the first end on to the second, across the seam if need be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.columns.kinds import ColumnKind
from discoformer.columns.split import kinds_of
from discoformer.core.checks import DataError, column_names, show_cell
from discoformer.core.fields import Density
from discoformer.functionals.draws import draw
from discoformer.functionals.splits import Functional

__all__ = ["Box", "level_shares", "mass_between", "probability"]

Box = Mapping[int, Any]
_ON_GRID = 2e-6  # in steps of a lattice: more than its places are off by rounding
_NOTHING = 1e-9  # a mass on a circle that may be all of it or nothing


@torch.no_grad()
def level_shares(margin: Density, kind: ColumnKind) -> dict[float, float]:
    """Probabilities of the levels of a category, or of the atoms, under a density of one column."""
    values = list(kind.atoms) or [float(level) for level in range(kind.levels)]
    if not values:
        return {}
    log_share = margin.log_density(torch.tensor(values, dtype=torch.float64).unsqueeze(-1))
    return dict(zip(values, log_share.exp().tolist(), strict=True))


@torch.no_grad()
def mass_between(margin: Density, kind: ColumnKind, low: Tensor, high: Tensor) -> Tensor:
    """Mass (m,) of one column from ``low`` (m,) to ``high`` (m,), both inside; of labels by their codes.

    >>> from discoformer.baselines.kde import KDE
    >>> ends = torch.tensor([[0.0], [torch.inf]], dtype=torch.float64)
    >>> mass_between(KDE(1.0).fit([[-9.0], [9.0]]), ColumnKind(), *ends).tolist()
    [0.5]
    """
    if kind.levels:
        shares = level_shares(margin, kind)
        codes, share = (torch.tensor(list(part), dtype=low.dtype) for part in (shares, shares.values()))
        inside = (codes >= low.unsqueeze(-1)) & (codes <= high.unsqueeze(-1))
        return (inside * share).sum(-1)
    before = low - _ON_GRID * kind.step if kind.step else low.nextafter(torch.full_like(low, -torch.inf))
    mass = _below(margin, high) - _below(margin, before)
    if kind.period:  # from wherever the circle is cut, so a region across the cut lacks a one
        width = high - low
        around = torch.where(width > 0.5 * kind.period, 1.0, 0.0)
        mass = torch.where(mass.abs() < _NOTHING, around, torch.where(mass < 0, mass + 1, mass))
        mass = torch.where(width + kind.step >= (1 - _NOTHING) * kind.period, 1.0, mass)
    return mass.clamp(0.0, 1.0)


def _below(margin: Density, x: Tensor) -> Tensor:
    """Distribution function (m,) at x (m,), which may be infinite."""
    finite = margin.cdf(x.nan_to_num(0.0, 0.0, 0.0).unsqueeze(-1))
    return torch.where(x.isposinf(), 1.0, torch.where(x.isneginf(), 0.0, finite))


@torch.no_grad()
def probability(
    density: Density,
    region: Box | Callable[[NDArray[np.float64]], Any],
    names: Sequence[Any] | None = None,
) -> Functional:
    """Mass of a region and its standard error.

    In closed form for one column, else from draws.

    Parameters
    ----------
    density : of d columns
    region : a mapping from columns to (low, high), None for an open end, or to a single value; or a function
        that says which rows (m, d) are inside
    names : (d,) of the columns, for messages

    >>> from discoformer.baselines.kde import KDE
    >>> probability(KDE(1.0).fit([[-9.0], [9.0]]), {0: (0.0, None)})
    Functional(value=0.5, standard_error=0.0)
    """
    if callable(region):
        points = draw(density).cpu().numpy()
        return _share(np.asarray(region(points), dtype=np.float64), len(points))
    if not region or any(not 0 <= column < density.dim for column in region):
        raise DataError(f"region {dict(region)}: give ends for columns 0 to {density.dim - 1}")
    kinds = kinds_of(density)
    box = {j: _ends(column_names([j], names), ends, kinds[j]) for j, ends in region.items()}
    if len(box) == 1:
        [(column, (low, high))] = box.items()
        if not (kinds[column].period and kinds[column].atoms):
            margin = density.marginal([column]) if density.dim > 1 else density
            ends = torch.tensor([[low], [high]], dtype=torch.float64)
            return Functional(float(mass_between(margin, kinds[column], *ends)), 0.0)
    points = draw(density).cpu().numpy()
    inside = np.ones(len(points))
    for column, (low, high) in box.items():
        inside *= _inside(points[:, column], low, high, kinds[column])
    return _share(inside, len(points))


def _share(inside: NDArray[np.float64], count: int) -> Functional:
    if inside.shape != (count,):
        raise DataError(f"the region says {inside.shape} of {count} rows: it must answer once for each")
    return Functional(float(inside.mean()), float(inside.std() / np.sqrt(count)))


def _ends(name: str, ends: Any, kind: ColumnKind) -> tuple[float, float]:
    """Both ends as numbers, infinite where they are open; on a circle the second is not below the first."""
    pair = ends if isinstance(ends, tuple | list | np.ndarray) else (ends, ends)
    start, stop = (kind.origin, kind.origin + kind.period) if kind.period else (-math.inf, math.inf)
    try:
        low, high = (
            other if end is None or math.isinf(float(end)) and kind.period else float(end)
            for end, other in zip(pair, (start, stop), strict=True)
        )
        if ends is None or math.isnan(low) or math.isnan(high):
            raise ValueError
    except (TypeError, ValueError):
        raise DataError(
            f"{name} at {show_cell(ends)}: give (low, high), None for an open end, or a single value"
        ) from None
    if kind.period:
        width = high - low
        return low, low + (min(width, kind.period) if width >= 0 else width % kind.period)
    if not low <= high:
        raise DataError(f"{name} from {low:g} to {high:g}: give the lower end first")
    return low, high


def _inside(x: NDArray[np.float64], low: float, high: float, kind: ColumnKind) -> NDArray[np.bool_]:
    """Which values (m,) lie between two ends, which are inside; places of a lattice up to rounding."""
    near = _ON_GRID * kind.step
    if kind.period:
        return np.asarray((x - low + near) % kind.period <= high - low + 2 * near)
    return np.asarray((x >= low - near) & (x <= high + near))

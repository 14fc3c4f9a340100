"""Every column of a density in a few numbers, by its kind: labels have shares, circles a mean direction."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.columns.kinds import ColumnKind
from discoformer.columns.split import kinds_of
from discoformer.core.fields import Density
from discoformer.functionals.summaries import Interval, draw, highest_density_region, mode

__all__ = ["ColumnSummary", "column_summaries", "level_shares"]

_TOLD = 0.002  # parts of a region with a smaller share of the draws are left out


class ColumnSummary(NamedTuple):
    """One column; a category has only a mode and shares, and NaN for the rest.

    Attributes
    ----------
    mean, std : from draws; on a circle the mean direction, and the spread around it
    mode : where the joint density is highest, if all columns are plain numbers; else where the density of
        this column is highest, or its likeliest level or atom if it has any
    median : half of the mass is below it
    interval : two ends with equal mass beyond each; on a circle it runs from the first end on to the second
    region : where the density is highest, as pairs of ends, without atoms and without negligible parts
    shares : probability of every level of a category, or of every atom
    """

    mean: float
    std: float
    mode: float
    median: float
    interval: Interval
    region: list[Interval]
    shares: dict[float, float]


@torch.no_grad()
def column_summaries(density: Density, share: float) -> list[ColumnSummary]:
    """Summaries of all columns; intervals and regions hold the given share of the mass.

    Examples
    --------
    >>> from discoformer.columns.fit_recipe import FitRecipe
    >>> from discoformer.methods import resolve
    >>> rows = torch.stack([torch.arange(60.0) % 3, torch.arange(60.0) ** 0.5], -1).double()
    >>> kinds = [ColumnKind("category", levels=3), ColumnKind()]
    >>> label, number = column_summaries(FitRecipe(resolve("default").method, kinds=kinds).fit(rows), 0.9)
    >>> [round(part, 2) for part in label.shares.values()], number.interval[0] < number.median
    ([0.33, 0.33, 0.33], True)
    """
    kinds, points = kinds_of(density), draw(density).cpu()
    plain = set(kinds) == {ColumnKind()}
    top = torch.from_numpy(mode(density)) if plain else None
    found = []
    for j, kind in enumerate(kinds):
        margin = density.marginal([j]) if density.dim > 1 else density
        if kind.levels:
            found.append(_category(level_shares(margin, kind)))
            continue
        summary = _number(margin, points[:, j], kind, share)
        found.append(summary if top is None else summary._replace(mode=float(top[j])))
    return found


@torch.no_grad()
def level_shares(margin: Density, kind: ColumnKind) -> dict[float, float]:
    """Probabilities of the levels of a category, or of the atoms, under a density of one column."""
    values = list(kind.atoms) or [float(level) for level in range(kind.levels)]
    if not values:
        return {}
    log_share = margin.log_density(torch.tensor(values, dtype=torch.float64).unsqueeze(-1))
    return dict(zip(values, log_share.exp().tolist(), strict=True))


def _category(shares: dict[float, float]) -> ColumnSummary:
    likeliest = max(shares, key=shares.__getitem__)
    return ColumnSummary(math.nan, math.nan, likeliest, math.nan, (math.nan, math.nan), [], shares)


def _number(margin: Density, draws: Tensor, kind: ColumnKind, share: float) -> ColumnSummary:
    wanted = torch.tensor([0.5, (1 - share) / 2, (1 + share) / 2], dtype=torch.float64)
    median, low, high = margin.quantile(wanted).flatten().tolist()
    between = draws[~torch.isin(draws, torch.tensor(kind.atoms, dtype=draws.dtype))]
    shares, region = level_shares(margin, kind), []
    if len(between) > 1:
        among = between.unsqueeze(-1) if kind.atoms else None
        found = highest_density_region(margin, share, among=among).intervals
        held = [float(((between >= low) & (between <= high)).double().mean()) for low, high in found]
        region = [
            (_on_grid(low, kind), _on_grid(high, kind))
            for (low, high), mass in zip(found, held, strict=True)
            if mass >= _TOLD
        ]
    if shares:  # a value with a mass is likelier than any without
        likeliest = max(shares, key=shares.__getitem__)
    else:
        likeliest = float(between[margin.log_density(between.unsqueeze(-1)).argmax()])
    mean, std = _around(draws, kind)
    return ColumnSummary(mean, std, likeliest, median, (low, high), region, shares)


def _on_grid(end: float, kind: ColumnKind) -> float:
    """The lattice value whose bin contains an end; the end itself without a lattice."""
    return kind.origin + kind.step * round((end - kind.origin) / kind.step) if kind.step else end


def _around(draws: Tensor, kind: ColumnKind) -> tuple[float, float]:
    """Mean and standard deviation; on a circle those of the directions."""
    if not kind.period:
        return float(draws.mean()), float(draws.std(correction=0))
    turn = 2 * math.pi / kind.period
    angle = (draws - kind.origin) * turn
    east, north = float(angle.cos().mean()), float(angle.sin().mean())
    length = min(1.0, math.hypot(east, north))
    spread = math.sqrt(-2 * math.log(max(length, 1e-300))) / turn
    return kind.origin + math.atan2(north, east) / turn % kind.period, spread

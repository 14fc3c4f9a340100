"""Every column of a density in a few numbers, by its kind: labels have shares, circles a mean direction."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from discoformer.columns.split import kinds_of
from discoformer.core.fields import Density
from discoformer.functionals.masses import level_shares
from discoformer.functionals.modes import mode
from discoformer.functionals.moments import column_moments
from discoformer.functionals.regions import Interval, highest_density_region

__all__ = ["ColumnSummary", "column_summaries"]


class ColumnSummary(NamedTuple):
    """One column; a category has only a mode and shares, and NaN for the rest.

    Attributes
    ----------
    mean, std : on a circle the mean direction, and the spread around it
    mode : where the density of this column by itself is highest, or its likeliest level or atom if it has any
    median : half of the mass is below it
    interval : two ends with equal mass beyond each; on a circle it runs from the first end on to the second
    region : where the density is highest, as pairs of ends; an atom inside is a pair of the same
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
    >>> from discoformer.columns.kinds import ColumnKind
    >>> from discoformer.methods import resolve
    >>> rows = torch.stack([torch.arange(60.0) % 3, torch.arange(60.0) ** 0.5], -1).double()
    >>> kinds = [ColumnKind("category", levels=3), ColumnKind()]
    >>> label, number = column_summaries(FitRecipe(resolve("default").method, kinds=kinds).fit(rows), 0.9)
    >>> [round(part, 2) for part in label.shares.values()], number.interval[0] < number.median
    ([0.33, 0.33, 0.33], True)
    """
    means, stds = column_moments(density)
    found = []
    for j, kind in enumerate(kinds_of(density)):
        margin = density.marginal([j]) if density.dim > 1 else density
        shares = level_shares(margin, kind)
        if kind.levels:
            likeliest = max(shares, key=shares.__getitem__)
            nothing = (math.nan, math.nan)
            found.append(ColumnSummary(math.nan, math.nan, likeliest, math.nan, nothing, [], shares))
            continue
        wanted = torch.tensor([0.5, (1 - share) / 2, (1 + share) / 2], dtype=torch.float64)
        median, low, high = margin.quantile(wanted).flatten().tolist()
        densest = highest_density_region(margin, share)
        region = [*((float(atom), float(atom)) for atom in densest.values), *densest.intervals]
        top = float(mode(margin)[0])
        found.append(ColumnSummary(float(means[j]), float(stds[j]), top, median, (low, high), region, shares))
    return found

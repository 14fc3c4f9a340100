"""Columns on a lattice (counts, one decimal): fitted as densities inside bins, read as masses on request."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from discoformer.columns.content_noise import content_noise, spread_in_bins
from discoformer.columns.kinds import ColumnKind
from discoformer.core.checks import DataError
from discoformer.core.fields import PointDensity

__all__ = ["dequantize", "log_mass"]

_INSIDE = 32  # points inside a bin, or a box of bins, that its mass is averaged over


def dequantize(points: Tensor, weights: Tensor | None, kinds: Sequence[ColumnKind]) -> Tensor:
    """Points (n, d) with those on a lattice spread evenly over their bins.

    Where in its bin a value goes depends on the content of its row, not on the row's place.

    >>> counts = torch.tensor([[2.0], [2.0], [5.0]], dtype=torch.float64)
    >>> dequantize(counts, None, [ColumnKind(step=1.0)]).sort(0).values.flatten().tolist()
    [1.75, 2.25, 5.0]
    """
    lattices = [j for j, kind in enumerate(kinds) if kind.step]
    if not lattices:
        return points
    noise = content_noise(points, len(lattices), weights)
    spread = points.clone()
    for k, j in enumerate(lattices):
        x, there = points[:, j], _in_bins(points, kinds)[:, j]
        offset = spread_in_bins(x[there], noise[there, k]) - 0.5
        spread[there, j] = x[there] + kinds[j].step * offset.to(x)
    return spread


@torch.no_grad()
def log_mass(density: PointDensity, rows: Tensor, kinds: Sequence[ColumnKind]) -> Tensor:
    """Log (n,) of the mass in the bins of rows (n, d): a density only in the columns without a lattice.

    The density is averaged over points that fill the bins evenly.

    >>> from discoformer.columns.fit_recipe import FitRecipe
    >>> from discoformer.methods import resolve
    >>> counts = torch.poisson(torch.full((300, 1), 3.0, dtype=torch.float64))
    >>> kinds = [ColumnKind(step=1.0)]
    >>> field = FitRecipe(resolve("default").method, [(0.0, math.inf)], kinds=kinds).fit(counts)
    >>> bins = torch.arange(60, dtype=torch.float64).unsqueeze(-1)
    >>> bool((log_mass(field, bins, kinds).exp().sum() - 1).abs() < 0.02)
    True
    """
    if len(kinds) != rows.shape[-1]:
        raise DataError(f"{len(kinds)} kinds for {rows.shape[-1]} column(s): give one each")
    step = torch.tensor([kind.step for kind in kinds], dtype=rows.dtype, device=rows.device)
    inside = _in_bins(rows, kinds)
    even = torch.quasirandom.SobolEngine(rows.shape[-1]).draw(_INSIDE, dtype=torch.float64).to(rows)
    even = (even + 0.5 / _INSIDE).remainder(1.0) - 0.5  # (32, d), symmetric around the middle of a bin
    asked = rows + torch.where(inside, step, 0.0) * even.unsqueeze(1)  # (32, n, d)
    terms = density.log_density(asked.flatten(0, 1)).reshape(_INSIDE, -1)
    width = torch.where(inside, step.clamp_min(torch.finfo(step.dtype).tiny).log(), 0.0).sum(-1)
    return terms.logsumexp(0) - math.log(_INSIDE) + width


def _in_bins(points: Tensor, kinds: Sequence[ColumnKind]) -> Tensor:
    """Which values (n, d) lie in a bin of a lattice: no gaps, and no atoms."""
    inside = torch.zeros_like(points, dtype=torch.bool)
    for j, kind in enumerate(kinds):
        if kind.step:
            x = points[:, j]
            atoms = torch.tensor(kind.atoms, dtype=x.dtype, device=x.device)
            inside[:, j] = ~x.isnan() & ~torch.isin(x, atoms)
    return inside

"""Random column maps: what the columns of a table may look like.

Widths are relative to the spread of the column: soft bounds are at least a hundredth of it wide, heaps on
a lattice half of that, spikes at a bound a little more.  So the score of a column by itself is at most about
200 over its standard deviation: a heap of half-width e has scores up to 1 / e.

Wide tables have a few columns with edges and heaps, the others are smooth, and edges are softer: no mixture
of a few dozen components holds sharp edges in ten independent columns, and nothing would be learned from it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.priors.draws import Range, flip, log_uniform, uniform
from discoformer.priors.tables.atoms import Atoms
from discoformer.priors.tables.column_maps import AffineColumns, ByColumn, Chain, Mirrored, MonotoneMap
from discoformer.priors.tables.quantile_maps import HalfNormal, SoftInterval, Weibull
from discoformer.priors.tables.shapes import Hinge, Johnson, LogNormal, SinhArcsinh, Staircase

__all__ = ["COLUMN_KINDS", "ColumnPlan", "draw_columns", "plan_columns"]

F64 = torch.float64
COLUMN_KINDS = ("plain", "skewed", "positive", "bounded", "atoms")
_SMOOTH = COLUMN_KINDS[:2]
_MAPS = {
    "plain": ("plain",),
    "skewed": ("johnson", "sinh-arcsinh"),
    "positive": ("log-normal", "weibull", "half-normal"),
    "bounded": ("interval", "box"),
    "atoms": ("atoms",),
}
_NARROWEST = 0.005  # half-width of a heap, in standard deviations of the column
_SOFT: Range = (0.01, 0.08)  # of bounds, relative to the width of the column
_STEP: Range = (0.15, 1.5)  # of lattices, in standard deviations
_NODES = 64  # normal quantiles that tell the scale of a map
_SHARP = 3  # columns with edges, on average, in wide tables
_NARROW = 1.5  # columns with spikes, and with heaps
_MOST_ATOMS = 3  # columns of atoms: they are the dearest


class ColumnPlan(NamedTuple):
    """What the column maps of a batch share.

    Attributes
    ----------
    maps : name of the map of every column
    values : number of atoms in columns of atoms
    censored, heaped : whether there are such columns
    gentle : whether the latent tails are heavy, so that maps must not stretch them much further
    """

    maps: tuple[str, ...]
    values: int
    censored: bool
    heaped: bool
    gentle: bool

    @property
    def rough(self) -> bool:
        """Whether there is anything narrow in the columns."""
        return self.censored or self.heaped or "atoms" in self.maps


def plan_columns(
    dim: int,
    shares: dict[str, float],
    alike: bool,
    censored: bool,
    heaped: bool,
    gentle: bool,
    generator: torch.Generator | None,
) -> ColumnPlan:
    """Draw the kinds of all columns, with these shares; all of one kind if they are alike."""
    weights = torch.tensor([shares[kind] for kind in COLUMN_KINDS], dtype=F64)
    drawn = torch.multinomial(weights, 1 if alike else dim, replacement=True, generator=generator)
    maps: list[str] = []
    for kind in drawn.tolist() * (dim if alike else 1):
        smooth = not flip(_SHARP / dim, generator) or maps.count("atoms") == _MOST_ATOMS
        if smooth and COLUMN_KINDS[kind] not in _SMOOTH:
            kind = int(torch.randint(0, len(_SMOOTH), (), generator=generator))
        choices = _MAPS[COLUMN_KINDS[kind]]
        maps.append(choices[int(torch.randint(0, len(choices), (), generator=generator))])
    values = 2 + int(torch.randint(0, 11, (), generator=generator))
    return ColumnPlan(tuple(maps), values, censored, heaped, gentle)


def draw_columns(plan: ColumnPlan, batch: int, generator: torch.Generator | None) -> MonotoneMap:
    """Column maps for ``batch`` data sets: shape, scale one, heaps."""
    dim = len(plan.maps)
    atoms = torch.tensor([name == "atoms" for name in plan.maps])
    names = tuple(dict.fromkeys(plan.maps))
    groups = tuple(tuple(j for j, other in enumerate(plan.maps) if other == name) for name in names)
    shapes = [
        _draw_map(name, plan, batch, len(group), generator) for name, group in zip(names, groups, strict=True)
    ]
    maps: list[MonotoneMap] = [ByColumn(groups, shapes)]
    hinged = torch.zeros(batch, dim, dtype=torch.bool)
    if plan.censored:
        hinged = (torch.rand(batch, dim, generator=generator) < min(0.5, _NARROW / dim)) & ~atoms
        maps.insert(0, _draw_hinge(hinged, generator))
    sign = torch.randint(0, 2, (batch, dim), generator=generator, dtype=F64) * 2 - 1
    shape = Mirrored(Chain(tuple(maps)), sign)
    maps = [shape, _to_unit(shape, batch, dim)]
    if plan.heaped:
        heaped = (torch.rand(batch, dim, generator=generator) < min(0.6, _NARROW / dim)) & ~atoms & ~hinged
        maps.append(_draw_staircase(heaped, generator))
    return Chain(tuple(maps))


def _to_unit(shape: MonotoneMap, batch: int, dim: int) -> AffineColumns:
    """Mean zero and variance one for a normal column."""
    levels = (torch.arange(_NODES, dtype=F64) + 0.5) / _NODES
    values = shape.forward(torch.special.ndtri(levels)[:, None].expand(batch, _NODES, dim))
    scale = 1 / values.std(-2)
    return AffineColumns(-values.mean(-2) * scale, scale)


def _draw_map(
    name: str, plan: ColumnPlan, batch: int, dim: int, generator: torch.Generator | None
) -> MonotoneMap:
    def between(low: float, high: float) -> Tensor:
        return uniform((batch, dim), (low, high), generator, F64)

    def log_between(low: float, high: float) -> Tensor:
        return log_uniform((batch, dim), (low, high), generator, F64)

    # A lattice narrows what is narrow already.
    low, high = (0.04, 0.12) if plan.heaped else _SOFT
    soft = log_between(low, high) * min(3.0, math.sqrt(len(plan.maps)))
    if name == "johnson":
        return Johnson(log_between(0.1, 0.35 if plan.gentle else 0.8), between(-2.0, 2.0))
    if name == "sinh-arcsinh":
        # Other tails than the normal's, or it would be the skewed test family with less of it.
        tail = torch.where(between(0, 1) < 0.3, between(0.75, 0.9), between(1.15, 1.8))
        return SinhArcsinh(between(-0.6, 0.6), tail)
    if name == "log-normal":
        strength = log_between(0.25, 0.4 if plan.gentle else 0.9)
        return LogNormal(strength, 2 * strength * soft)
    if name == "weibull":
        shape = log_between(0.8, 2.5)
        return Weibull(shape, soft)
    if name == "half-normal":
        return HalfNormal(2 * soft)
    if name == "interval":
        return SoftInterval(log_between(0.7, 3.0), log_between(0.7, 3.0), soft)
    if name == "box":
        one = torch.ones(batch, dim, dtype=F64)
        return SoftInterval(one, one, log_between(0.01, 0.06))
    if name == "atoms":
        return _draw_atoms(batch, dim, plan.values, generator)
    zero = torch.zeros(batch, dim, dtype=F64)
    return AffineColumns(zero, zero + 1)


def _draw_hinge(hinged: Tensor, generator: torch.Generator | None) -> Hinge:
    """Spikes at a bound that hold 5 to 70 % of a normal column."""
    shape = tuple(hinged.shape)
    level = uniform(shape, (0.05, 0.7), generator, F64)
    slope = log_uniform(shape, (0.015, 0.15), generator, F64)
    return Hinge(
        knot=torch.special.ndtri(level),
        slope=torch.where(hinged, slope, 1.0),
        round=log_uniform(shape, (0.05, 0.2), generator, F64),
    )


def _draw_staircase(heaped: Tensor, generator: torch.Generator | None) -> Staircase:
    shape = tuple(heaped.shape)
    step = log_uniform(shape, _STEP, generator, F64)
    narrowest = (math.pi * _NARROWEST / step).clamp_min(0.05)
    width = narrowest ** uniform(shape, (0.1, 1.0), generator, F64)
    return Staircase(
        step=step,
        origin=step * uniform(shape, (-0.5, 0.5), generator, F64),
        width=torch.where(heaped, width, 1.0),
    )


def _draw_atoms(batch: int, dim: int, values: int, generator: torch.Generator | None) -> Atoms:
    """Values on a lattice with unequal weights, and a broad heap under them, of variance one."""

    def between(low: float, high: float, *size: int) -> Tensor:
        return uniform((batch, dim, *size), (low, high), generator, F64)

    def log_between(low: float, high: float, *size: int) -> Tensor:
        return log_uniform((batch, dim, *size), (low, high), generator, F64)

    place = (torch.arange(values, dtype=F64) / (values - 1)).expand(batch, dim, values)
    step = 1 / (values - 1)
    # A geometric or humped profile, and digit preference on top of it; some lattices have holes.
    profile = between(-3, 3, 1) * place - between(0, 6, 1) * (place - between(0, 1, 1)).square()
    preference = between(0, 1.2, 1) * torch.randn(batch, dim, values, generator=generator, dtype=F64)
    weights = torch.softmax(profile + preference, -1)
    if flip(0.3, generator):
        weights = weights * (between(0, 1, values) < 0.7)
    weights = weights + 0.003
    # From narrow noise around the values to uniform noise that fills the bins.
    bins = between(0, 1, 1) < 0.3
    half = torch.where(bins, 0.5 * step, step * log_between(0.01, 0.1, 1)).expand(batch, dim, values)
    soft = torch.where(bins, step * log_between(0.02, 0.1, 1), half)
    share = log_between(0.005, 0.3, 1)
    weights = torch.cat([(1 - share) * weights / weights.sum(-1, keepdim=True), share], -1)
    broad = torch.full_like(share, 0.5)
    centers = torch.cat([place, broad], -1)
    half, soft = torch.cat([half, broad + step], -1), torch.cat([soft, 0.2 * broad], -1)
    mean = (weights * centers).sum(-1, keepdim=True)
    spread = centers.square() + half.square() / 3 + math.pi**2 / 3 * soft.square()
    std = ((weights * spread).sum(-1, keepdim=True) - mean.square()).sqrt()
    floor = torch.full_like(soft, _NARROWEST)
    return Atoms(
        weights, (centers - mean) / std, torch.maximum(half / std, floor), torch.maximum(soft / std, floor)
    )

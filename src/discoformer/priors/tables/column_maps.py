"""Increasing maps of single columns with exact derivatives, and distributions reshaped by them.

If z has density f and column j of x is T_j(z_j) with T_j increasing, then with z = T^(-1)(x)

    log density(x) = log f(z) + sum_j log(dz_j / dx_j),
    score_j(x) = score_f(z)_j dz_j / dx_j + d/dx_j log(dz_j / dx_j).

So a map has to say three things of a point x: where it comes from, the logarithm of the slope dz/dx, and the
derivative of that.  Margins of any shape are such maps, with T = F^(-1)(Phi(z)) for a distribution
function F: what is left in f is the dependence, a copula.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate
from discoformer.priors.base import Derived

__all__ = ["AffineColumns", "ByColumn", "Chain", "Mirrored", "MonotoneMap", "Pulled", "Reshaped"]


class Pulled(NamedTuple):
    """What a map says of points x (..., n, d), all of that shape.

    Attributes
    ----------
    latent : z, where they come from
    log_slope : log(dz / dx)
    bend : the derivative of ``log_slope`` by x
    """

    latent: Tensor
    log_slope: Tensor
    bend: Tensor


class MonotoneMap(ABC):
    """An increasing map of R onto R for every column; parameters are (..., d)."""

    @abstractmethod
    def forward(self, z: Tensor) -> Tensor:
        """Map z (..., n, d) to x."""

    @abstractmethod
    def pull(self, x: Tensor) -> Pulled:
        """Pull x (..., n, d) back to z, with the slope of that."""


@dataclass(frozen=True, eq=False)
class Reshaped(Derived):
    """The distribution of ``columns.forward(z)`` for z from ``base``.

    >>> from discoformer.priors.location_scale import gaussian
    >>> base = gaussian(torch.zeros(2), torch.eye(2))
    >>> wide = Reshaped(base, AffineColumns(torch.zeros(2), torch.tensor([1.0, 2.0])))
    >>> wide.score(torch.tensor([[1.0, 2.0]])).tolist()
    [[-1.0, -0.5]]
    """

    columns: MonotoneMap

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        return self.columns.forward(self.base.sample(n, generator))

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        latent, log_slope, bend = self.columns.pull(queries)
        log_density, score = self.base._estimate(latent)
        assert log_density is not None  # every distribution knows its density
        return Estimate(log_density + log_slope.sum(-1), score * log_slope.exp() + bend)


@dataclass(frozen=True, eq=False)
class Chain(MonotoneMap):
    """One map after another, the first one first."""

    maps: tuple[MonotoneMap, ...]

    def forward(self, z: Tensor) -> Tensor:
        for part in self.maps:
            z = part.forward(z)
        return z

    def pull(self, x: Tensor) -> Pulled:
        log_slope = bend = torch.zeros_like(x)
        for part in reversed(self.maps):
            x, inner_slope, inner_bend = part.pull(x)
            bend = inner_bend * log_slope.exp() + bend
            log_slope = log_slope + inner_slope
        return Pulled(x, log_slope, bend)


@dataclass(frozen=True, eq=False)
class ByColumn(MonotoneMap):
    """Maps of different kinds for different columns.

    Parameters
    ----------
    groups : column numbers, each column in one group
    maps : one for each group, with parameters for as many columns

    >>> scaled = [AffineColumns(torch.zeros(1), torch.full((1,), scale)) for scale in (2.0, 3.0)]
    >>> both = ByColumn(((1,), (0,)), scaled)
    >>> both.forward(torch.ones(1, 2)).tolist()
    [[3.0, 2.0]]
    """

    groups: tuple[tuple[int, ...], ...]
    maps: Sequence[MonotoneMap]

    def __post_init__(self) -> None:
        object.__setattr__(self, "maps", tuple(self.maps))
        columns = [column for group in self.groups for column in group]
        if sorted(columns) != list(range(len(columns))) or len(self.maps) != len(self.groups):
            raise DataError(f"groups = {self.groups} must hold every column once, with one map each")

    @property
    def _order(self) -> list[int]:
        """Where in the groups, one after another, every column is."""
        columns = [column for group in self.groups for column in group]
        return [columns.index(column) for column in range(len(columns))]

    def forward(self, z: Tensor) -> Tensor:
        parts = [
            part.forward(z[..., list(group)]) for group, part in zip(self.groups, self.maps, strict=True)
        ]
        return torch.cat(parts, -1)[..., self._order]

    def pull(self, x: Tensor) -> Pulled:
        parts = [part.pull(x[..., list(group)]) for group, part in zip(self.groups, self.maps, strict=True)]
        latent, log_slope, bend = (torch.cat(same, -1)[..., self._order] for same in zip(*parts, strict=True))
        return Pulled(latent, log_slope, bend)


@dataclass(frozen=True, eq=False)
class Mirrored(MonotoneMap):
    """x = s T(s z) with signs s (..., d): where s is -1, left and right of the column are exchanged."""

    columns: MonotoneMap
    sign: Tensor

    def __post_init__(self) -> None:
        if not bool((self.sign.abs() == 1).all()):
            raise DataError("sign of a Mirrored must be 1 or -1")

    def forward(self, z: Tensor) -> Tensor:
        sign = self.sign.unsqueeze(-2)
        return sign * self.columns.forward(sign * z)

    def pull(self, x: Tensor) -> Pulled:
        sign = self.sign.unsqueeze(-2)
        latent, log_slope, bend = self.columns.pull(sign * x)
        return Pulled(sign * latent, log_slope, sign * bend)


@dataclass(frozen=True, eq=False)
class AffineColumns(MonotoneMap):
    """x = center + scale z with both (..., d), scales positive."""

    center: Tensor
    scale: Tensor

    def __post_init__(self) -> None:
        if not bool((self.scale > 0).all()):
            raise DataError("scale of AffineColumns must be positive")

    def forward(self, z: Tensor) -> Tensor:
        return self.center.unsqueeze(-2) + self.scale.unsqueeze(-2) * z

    def pull(self, x: Tensor) -> Pulled:
        latent = (x - self.center.unsqueeze(-2)) / self.scale.unsqueeze(-2)
        log_slope = -self.scale.log().unsqueeze(-2).expand_as(latent)
        return Pulled(latent, log_slope, torch.zeros_like(latent))

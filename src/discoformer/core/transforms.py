"""Invertible maps that compose: from the coordinates of the data to those a density was estimated in.

With u = T(x) a density g inside is f(x) = g(T(x)) |det T'(x)| outside, and its score is
T'(x)' score_g(u) + grad log |det T'(x)|.  `Pushforward` (core/composed.py) composes such maps and writes
every verb of a density once.  Three kinds are enough: an affine `Frame`, `ColumnMaps` of single columns,
and `KeptColumns`.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from discoformer.core.checks import ColumnError, DataError, column_names, holds
from discoformer.core.fields import Density, Estimate

__all__ = [
    "OFF_SUPPORT",
    "At",
    "ColumnMap",
    "ColumnMaps",
    "Frame",
    "KeptColumns",
    "Relation",
    "SupportWarning",
    "Transform",
    "scaling_frame",
]

OFF_SUPPORT = 1e-6  # how far, in standard deviations, a query may be from the relation of the sample


class SupportWarning(UserWarning):
    """Columns were left out, or queries differ from the sample in columns that were left out."""

    __module__ = "discoformer"  # where users import it from


class At(NamedTuple):
    """Points on both sides of a map.

    Attributes
    ----------
    outside, inside : (..., m, d) and (..., m, e)
    support : (e,), marks the columns inside that count
    """

    outside: Tensor
    inside: Tensor
    support: Tensor


class Transform(ABC):
    """A map from outside (..., m, d) to inside (..., m, e), with its exact change of variables."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of columns d outside."""

    @abstractmethod
    def normalize(self, points: Tensor) -> Tensor:
        """Points into the coordinates inside."""

    @abstractmethod
    def denormalize(self, points: Tensor) -> Tensor:
        """Points back out."""

    def draw(self, sample: Callable[[int], Tensor], n: int) -> Tensor:
        """n points (..., n, d) outside, from a way to draw points inside."""
        return self.denormalize(sample(n))

    @abstractmethod
    def estimate_outside(self, at: At, inside: Estimate[Tensor]) -> Estimate[Tensor]:
        """What log density and score inside read outside."""

    def score_outside(self, at: At, score: Tensor) -> Tensor:
        """The same for a score alone."""
        return self.estimate_outside(at, Estimate(score[..., 0], score)).score

    def log_det_left_out(self, at: At, weights: Tensor | None) -> Tensor:
        """log |det T'| (..., n) at rows of the sample, of the map that would be fitted without them."""
        nothing = torch.zeros_like(at.inside)
        return self.estimate_outside(at, Estimate(nothing[..., 0], nothing)).log_density

    def cdf(self, inside: Density, points: Tensor) -> Tensor:
        """Distribution function (..., m) of one column at points (..., m, 1): maps increase."""
        return inside.cdf(self.normalize(points))

    def quantile(self, inside: Density, shares: Any) -> Tensor:
        """Where the distribution function of one column is ``shares`` (..., m): (..., m, 1)."""
        return self.denormalize(inside.quantile(shares))

    @abstractmethod
    def select(self, columns: Sequence[int]) -> tuple[Transform | None, list[int]]:
        """The map of some columns alone (None if it does nothing), and the columns inside that they become.

        Only for maps that do not mix columns.
        """

    def outer_support(self, support: Sequence[int]) -> list[int]:
        """Which columns outside the columns inside come from."""
        return list(support)

    def check_given(self, points: Tensor, columns: Sequence[int]) -> None:
        """Raise `DataError` where values (..., 1, k) of ``columns`` outside cannot be conditioned on."""
        return  # most maps have nothing to refuse

    def check_queries(self, points: Tensor) -> None:
        """Warn of queries (..., m, d) that contradict the sample in a way the answer cannot show."""
        return

    def describe(self) -> str:
        """A few words for `print`; empty if there is nothing to say."""
        return ""


@dataclass(frozen=True)
class Frame(Transform):
    """The affine map x -> (x - center) matrix, with its inverse and log|det|.

    Attributes
    ----------
    center : (..., 1, d)
    matrix, inverse : (..., d, d)
    log_det : (...), log|det matrix|
    """

    center: Tensor
    matrix: Tensor
    inverse: Tensor
    log_det: Tensor

    @property
    def dim(self) -> int:
        return self.matrix.shape[-1]

    def normalize(self, points: Tensor) -> Tensor:
        """Points (..., n, d) into the frame, in its precision."""
        return (points.to(self.center.dtype) - self.center) @ self.matrix

    def denormalize(self, points: Tensor) -> Tensor:
        """Points (..., n, d) out of the frame."""
        return points @ self.inverse + self.center

    def to(self, dtype: torch.dtype) -> Frame:
        """The same frame in another precision."""
        return self.map(lambda tensor: tensor.to(dtype))

    def map(self, function: Callable[[Tensor], Tensor]) -> Frame:
        """The frame of what a function makes of every tensor."""
        return Frame(*map(function, (self.center, self.matrix, self.inverse, self.log_det)))

    def normalize_estimate(self, estimate: Estimate[Tensor]) -> Estimate[Tensor]:
        """What an estimate in data coordinates reads in the frame."""
        log_density, score = estimate
        return Estimate(log_density - self.log_det.unsqueeze(-1), score @ self.inverse.mT)

    def denormalize_estimate(self, estimate: Estimate[Tensor]) -> Estimate[Tensor]:
        """What an estimate in the frame reads in data coordinates."""
        log_density, score = estimate
        return Estimate(log_density + self.log_det.unsqueeze(-1), score @ self.matrix.mT)

    def score_outside(self, at: At, score: Tensor) -> Tensor:
        return score @ self.matrix.mT

    def estimate_outside(self, at: At, inside: Estimate[Tensor]) -> Estimate[Tensor]:
        return self.denormalize_estimate(inside)

    def select(self, columns: Sequence[int]) -> tuple[Transform | None, list[int]]:
        """Of a frame that scales single columns."""
        keep = torch.as_tensor(columns, device=self.center.device)
        scale = self.inverse.diagonal(dim1=-2, dim2=-1)[..., keep]
        return scaling_frame(self.center[..., keep], scale), list(columns)


def scaling_frame(center: Tensor, scale: Tensor) -> Frame:
    """The frame x -> (x - center) / scale, center (..., 1, d) and scale (..., d)."""
    return Frame(center, torch.diag_embed(1 / scale), torch.diag_embed(scale), -scale.log().sum(-1))


@dataclass(frozen=True)
class ColumnMap(ABC):
    """A smooth increasing map u(x) of one column to the line: all that a new kind of column needs.

    Attributes
    ----------
    low, high : where the values end, or -inf and inf
    """

    low: Tensor
    high: Tensor

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """u(x) of values (..., m) within the bounds."""

    @abstractmethod
    def inverse(self, u: Tensor) -> Tensor:
        """x(u)."""

    @abstractmethod
    def log_derivative(self, x: Tensor, u: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """log u'(x), and its own derivative by x; ``u`` is u(x), where it is known."""

    def log_derivative_left_out(self, x: Tensor, u: Tensor, weights: Tensor | None) -> Tensor:
        """log u'(x) at values (..., n) of the sample, of the map fitted without each of them."""
        return self.log_derivative(x, u)[0]

    def read_cdf(self, x: Tensor, inside: Tensor) -> Tensor:
        """A distribution function (..., m) inside, outside at x: no mass is below the bounds, none above."""
        return torch.where(x <= self.low, 0.0, torch.where(x >= self.high, 1.0, inside))


@dataclass(frozen=True)
class ColumnMaps(Transform):
    """Maps of some of the columns; the others stay as they are.

    Outside of the bounds of a map there is no mass: the log density is -inf, and the score, which has no
    meaning there, is zero.  A gap, NaN, stays one.
    """

    maps: Mapping[int, ColumnMap]
    columns: int

    @property
    def dim(self) -> int:
        return self.columns

    @property
    def bounds(self) -> tuple[Tensor, Tensor]:
        """Low and high of every column, each (d,)."""
        free = torch.tensor(torch.inf, dtype=torch.float64)
        low = [self.maps[j].low if j in self.maps else -free for j in range(self.dim)]
        high = [self.maps[j].high if j in self.maps else free for j in range(self.dim)]
        return torch.stack(low), torch.stack(high)

    def normalize(self, points: Tensor) -> Tensor:
        inside = self._inside(points)
        return torch.stack(
            [self.maps[j].forward(x) if j in self.maps else x for j, x in enumerate(inside.unbind(-1))], -1
        )

    def denormalize(self, points: Tensor) -> Tensor:
        return torch.stack(
            [self.maps[j].inverse(u) if j in self.maps else u for j, u in enumerate(points.unbind(-1))], -1
        )

    def estimate_outside(self, at: At, inside: Estimate[Tensor]) -> Estimate[Tensor]:
        log_slope, bend = self._slopes(at)
        outside = self._beyond(at.outside).any(-1)
        log_density = inside.log_density + (log_slope * at.support).sum(-1)
        score = inside.score * log_slope.exp() + bend * at.support
        return Estimate(
            torch.where(outside, -torch.inf, log_density), torch.where(outside.unsqueeze(-1), 0.0, score)
        )

    def log_det_left_out(self, at: At, weights: Tensor | None) -> Tensor:
        x = self._inside(at.outside)
        total = torch.zeros_like(x[..., 0])
        for j, own in self.maps.items():
            slope = own.log_derivative_left_out(x[..., j], at.inside[..., j], weights) * at.support[j]
            total = total + torch.where(x[..., j].isnan(), 0.0, slope)
        return total

    def cdf(self, inside: Density, points: Tensor) -> Tensor:
        below = inside.cdf(self.normalize(points))
        return self.maps[0].read_cdf(points.squeeze(-1), below) if self.maps else below

    def select(self, columns: Sequence[int]) -> tuple[Transform | None, list[int]]:
        maps = {j: self.maps[c] for j, c in enumerate(columns) if c in self.maps}
        return (ColumnMaps(maps, len(columns)) if maps else None), list(columns)

    def check_given(self, points: Tensor, columns: Sequence[int]) -> None:
        beyond = self._beyond(points).flatten(0, -2).any(0).nonzero().flatten().tolist()
        if beyond:
            place = beyond[0]
            low, high = (float(end[place]) for end in self.bounds)
            raise ColumnError(
                [columns[place]],
                f"the value given has no density, the fit has none outside {low:g} to {high:g}: give another",
            )

    def describe(self) -> str:
        low, high = self.bounds
        parts = [f"column {j} in ({low[j]:g}, {high[j]:g})" for j in sorted(self.maps)]
        return "bounds: " + ", ".join(parts)

    def _slopes(self, at: At) -> tuple[Tensor, Tensor]:
        x, zero = self._inside(at.outside), torch.zeros_like(at.outside[..., 0])
        pairs = [
            self.maps[j].log_derivative(x[..., j], at.inside[..., j]) if j in self.maps else (zero, zero)
            for j in range(self.dim)
        ]
        log_slope, bend = (torch.stack(parts, -1) for parts in zip(*pairs, strict=True))
        gap = at.outside.isnan()  # the density there is that of the other columns
        return torch.where(gap, 0.0, log_slope), torch.where(gap, 0.0, bend)

    def _beyond(self, points: Tensor) -> Tensor:
        low, high = (end.to(points) for end in self.bounds)
        return (points < low) | (points > high)

    def _inside(self, points: Tensor) -> Tensor:
        """The points, moved onto the bound where they are beyond it: a harmless value, for no mass."""
        low, high = (end.to(points) for end in self.bounds)
        return torch.minimum(torch.maximum(points, low), high)


class Relation(NamedTuple):
    """How the dropped columns follow from the kept ones: offset + (kept - center) slopes.

    Attributes
    ----------
    center : (..., 1, k)
    slopes : (..., k, e)
    offset : (..., 1, e)
    scale : (..., 1, e), what counts as far from the relation
    """

    center: Tensor
    slopes: Tensor
    offset: Tensor
    scale: Tensor

    def complete(self, kept: Tensor) -> Tensor:
        """The dropped columns (..., n, e) of points given by their kept columns (..., n, k)."""
        return self.offset.to(kept) + (kept - self.center.to(kept)) @ self.slopes.to(kept)


@dataclass(frozen=True)
class KeptColumns(Transform):
    """Some of the columns; the others follow from them by a relation found in the sample.

    The score along the others is zero.  Queries whose other columns contradict the relation are answered all
    the same, with one warning.  Beyond ``ends``, the lowest and highest value (e,) that they can
    have, there is no mass.
    """

    kept: tuple[int, ...]
    dropped: tuple[int, ...]
    relation: Relation
    names: tuple[str, ...] | None = None
    ends: tuple[Tensor, Tensor] | None = None
    _warned: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def dim(self) -> int:
        return len(self.kept) + len(self.dropped)

    @property
    def slopes(self) -> Tensor:
        """How all columns change with the kept ones (..., k, d), where nothing ends them."""
        own = self.relation.slopes
        eye = torch.eye(len(self.kept), dtype=own.dtype, device=own.device).expand(*own.shape[:-1], -1)
        order = torch.tensor([*self.kept, *self.dropped], device=own.device).argsort()
        return torch.cat([eye, own], -1)[..., order]

    def normalize(self, points: Tensor) -> Tensor:
        return points[..., list(self.kept)]

    def denormalize(self, points: Tensor) -> Tensor:
        order = torch.tensor([*self.kept, *self.dropped], device=points.device).argsort()
        others = self.relation.complete(points)
        if self.ends is not None:  # what is beyond is so by rounding alone
            others = torch.minimum(torch.maximum(others, self.ends[0].to(others)), self.ends[1].to(others))
        return torch.cat([points, others], -1)[..., order]

    def estimate_outside(self, at: At, inside: Estimate[Tensor]) -> Estimate[Tensor]:
        log_density, score = inside
        place = torch.eye(self.dim, dtype=score.dtype, device=score.device)[list(self.kept)]  # (k, d)
        score = score @ place
        if self.ends is None:
            return Estimate(log_density, score)
        low, high = (end.to(at.outside) for end in self.ends)
        others = at.outside[..., list(self.dropped)]
        beyond = ((others < low) | (others > high)).any(-1)
        return Estimate(
            torch.where(beyond, -torch.inf, log_density), torch.where(beyond.unsqueeze(-1), 0.0, score)
        )

    def select(self, columns: Sequence[int]) -> tuple[Transform | None, list[int]]:
        lost = [c for c in columns if c in set(self.dropped)]
        if lost:
            which = column_names(lost, self.names)
            raise DataError(f"{which}: left out of the fit, has no density of its own")
        return None, [self.kept.index(c) for c in columns]

    def outer_support(self, support: Sequence[int]) -> list[int]:
        return [self.kept[j] for j in support]

    def check_queries(self, points: Tensor) -> None:
        if self._warned:
            return
        expected = self.relation.complete(points[..., list(self.kept)])
        off = (points[..., list(self.dropped)] - expected).abs()
        far = off > OFF_SUPPORT * self.relation.scale.to(points)
        if holds(far):
            columns = far.flatten(0, -2).any(0).nonzero().flatten().tolist()
            which = column_names([self.dropped[c] for c in columns], self.names)
            self._warned.append(which)
            warnings.warn(
                f"queries differ from what the sample has in {which}, left out of the fit: "
                "the answer ignores these columns",
                SupportWarning,
                stacklevel=2,
            )

    def describe(self) -> str:
        return f"left out: {column_names(self.dropped, self.names)}"

"""One composition: a field seen through invertible maps, every verb written once.

    x -> transforms[0] -> transforms[1] -> ... -> base

The transforms are in the order in which a query meets them, from the data to the base.  Maps of single
columns commute with taking margins and with conditioning.  A frame that mixes columns comes last and is
absorbed into the base, which has a closed form for linear maps.  So everything stays in closed form.

The composition can do whatever its base can do: `push` returns the right type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, overload

import torch
from torch import Tensor

from discoformer.core.checks import DataError, check_points
from discoformer.core.fields import Density, Estimate, Field, PointDensity
from discoformer.core.transforms import At, Frame, KeptColumns, Transform, scaling_frame

__all__ = ["Pushforward", "PushedDensity", "PushedField", "on_support", "push"]


@overload
def push(base: Density, transforms: Sequence[Transform]) -> Density: ...
@overload
def push(base: PointDensity, transforms: Sequence[Transform]) -> PointDensity: ...
@overload
def push(base: Field, transforms: Sequence[Transform]) -> Field: ...
def push(base: Field, transforms: Sequence[Transform]) -> Field:
    """The field through the transforms: a `Pushforward` for a density in full, or what the base can be.

    >>> from discoformer.baselines.kde import KDE
    >>> half = scaling_frame(torch.zeros(1, 1).double(), 2 * torch.ones(1).double())
    >>> push(KDE().fit([[0.0], [1.0]]), [half]).score(torch.ones(1, 1)).tolist()
    [[0.0]]
    """
    if not transforms:
        return base
    if isinstance(base, PushedField):
        return push(base.base, [*transforms, *base.transforms])
    if isinstance(base, Density):
        return Pushforward(base, transforms)
    return (
        PushedDensity(base, transforms) if isinstance(base, PointDensity) else PushedField(base, transforms)
    )


def on_support(field: PointDensity) -> tuple[PointDensity, list[int]]:
    """The density of the columns that carry one, and the numbers of these columns."""
    if isinstance(field, PushedDensity) and isinstance(field.transforms[0], KeptColumns):
        return push(field.base, field.transforms[1:]), list(field.transforms[0].kept)
    if isinstance(field, Density) and len(field.support) < field.dim:  # left out behind other transforms
        return field.marginal(field.support), list(field.support)
    return field, list(range(field.dim))


class PushedField(Field):
    """A field that knows the score, through transforms."""

    def __init__(self, base: Field, transforms: Sequence[Transform]) -> None:
        self.base = base
        self.transforms = tuple(transforms)

    @property
    def dim(self) -> int:
        return self.transforms[0].dim

    @property
    def support(self) -> list[int]:
        return _supports(self.base, self.transforms)[0]

    def _score(self, queries: Tensor) -> Tensor:
        places = self._places(queries)
        score = self.base._score(places[-1])
        for transform, at in self._outward(places):
            score = transform.score_outside(at, score)
        return score.to(queries.dtype)

    def _places(self, queries: Tensor) -> list[Tensor]:
        """The queries before each transform, and behind the last."""
        places = [queries]
        for transform in self.transforms:
            transform.check_queries(places[-1].detach())
            places.append(transform.normalize(places[-1]))
        return places

    def _outward(self, places: Sequence[Tensor]) -> list[tuple[Transform, At]]:
        """Transforms from the base to the data, and the points on both sides of each."""
        supports = _supports(self.base, self.transforms)[1:]
        counts = [_mask(support, place) for support, place in zip(supports, places[1:], strict=True)]
        both_sides = map(At, places[:-1], places[1:], counts)
        return list(zip(self.transforms, both_sides, strict=True))[::-1]

    def __repr__(self) -> str:
        said = [text for text in (transform.describe() for transform in self.transforms) if text]
        last = "; ".join(said) or "every column, without bounds"
        base = " ".join(repr(self.base).split())
        return f"{type(self).__name__} in {self.dim} column(s)\n  of {base}\n  {last}"


class PushedDensity(PushedField, PointDensity):
    """A field that knows log density and score, through transforms."""

    base: PointDensity

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        places = self._places(queries)
        answer = self.base._estimate(places[-1])
        for transform, at in self._outward(places):
            answer = transform.estimate_outside(at, answer)
        return Estimate(answer.log_density.to(queries.dtype), answer.score.to(queries.dtype))


class Pushforward(PushedDensity, Density):
    """A density in full, through transforms.

    Examples
    --------
    >>> from discoformer import load_model
    >>> field = load_model("default").network.fit(torch.randn(100, 3, dtype=torch.float64))
    >>> field.marginal([2, 0]).dim, field.conditional([1], [0.5]).dim
    (2, 2)
    >>> median = field.marginal([1]).quantile([0.5])
    >>> round(float(field.marginal([1]).cdf(median)), 9)
    0.5
    """

    base: Density

    @property
    def gaps(self) -> bool:
        return self.base.gaps

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        draw: Callable[[int], Tensor] = partial(self.base.sample, generator=generator)
        for transform in reversed(self.transforms):
            draw = partial(transform.draw, draw)
        return draw(n)

    def marginal(self, columns: Sequence[int]) -> Density:
        self._check_columns(columns)
        whole = self._by_column()
        kept: list[Transform] = []
        for transform in whole.transforms:
            part, columns = transform.select(columns)
            kept += [] if part is None else [part]
        return push(whole.base.marginal(columns), kept)

    def conditional(self, columns: Sequence[int], values: Any) -> Density:
        """The density of the other columns that were fitted, given ``values`` (..., k) of ``columns``."""
        self._check_columns(columns)
        rest = [c for c in self.support if c not in set(columns)]
        if not rest:
            raise DataError("every column is given, none is left: leave at least one out")
        whole = self._by_column()
        row, inner = _check_values(columns, values, gaps=self.gaps), list(columns)
        kept: list[Transform] = []
        for transform in whole.transforms:
            given, inner = transform.select(inner)
            if given is not None:
                given.check_given(row, columns)
                row = given.normalize(row)
            part, rest = transform.select(rest)
            kept += [] if part is None else [part]
        return push(whole.base.conditional(inner, row.squeeze(-2)), kept)

    def cdf(self, queries: Any) -> Tensor:
        self._check_one_column("the distribution function")
        first, *others = (whole := self._by_column()).transforms
        return first.cdf(push(whole.base, others), check_points(queries, "queries", dim=1))

    def quantile(self, shares: Any) -> Tensor:
        self._check_one_column("a quantile")
        first, *others = (whole := self._by_column()).transforms
        return first.quantile(push(whole.base, others), shares)

    def left_out(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        places = self._places(rows)
        log_density = self.base.left_out(places[-1], weights)
        for transform, at in self._outward(places):
            log_density = log_density + transform.log_det_left_out(at, weights)
        return log_density

    def complete(self, rows: Tensor, which: Tensor, chance: Callable[[int], Tensor]) -> Tensor:
        inside = reduce(lambda points, transform: transform.normalize(points), self.transforms, rows)
        found = self.base.complete(inside, which, chance)
        found = reduce(lambda points, transform: transform.denormalize(points), self.transforms[::-1], found)
        return torch.where(rows[which].isnan(), found.to(rows), rows[which])

    def transform(self, matrix: Tensor, shift: Tensor) -> Density:
        if len(self.transforms) > 1 or not isinstance(self.transforms[0], Frame):
            raise DataError("a density with bounds or left-out columns has no linear images in closed form")
        frame = self.transforms[0]
        return self.base.transform(frame.inverse @ matrix, frame.center @ matrix + shift)

    def moments(self) -> tuple[Tensor, Tensor] | None:
        """Through linear maps alone."""
        found = self.base.moments()
        for transform in reversed(self.transforms):
            if isinstance(transform, Frame):
                slopes = transform.inverse
            elif isinstance(transform, KeptColumns) and transform.ends is None:
                slopes = transform.slopes
            else:
                return None
            if found is None:
                return None
            mean, covariance = found
            slopes = slopes.to(mean)
            mean = transform.denormalize(mean.unsqueeze(-2)).squeeze(-2)
            found = mean, slopes.mT @ covariance @ slopes
        return found

    def blurred(self, noise: Tensor) -> Density | None:
        """Through linear maps alone: noise in front of another map has no closed form behind it."""
        for transform in self.transforms:
            if isinstance(transform, Frame):
                noise = transform.matrix.mT @ noise.to(transform.matrix) @ transform.matrix
            elif isinstance(transform, KeptColumns):
                noise = noise[..., list(transform.kept), :][..., list(transform.kept)]
            else:
                return None
        base = self.base.blurred(noise)
        return None if base is None else push(base, self.transforms)

    def _by_column(self) -> Pushforward:
        """The same density by maps of single columns: the base takes over what the frame mixes."""
        frame = self.transforms[-1]
        if not isinstance(frame, Frame):
            return self
        unit = frame.inverse.norm(dim=-2)  # (..., d)
        base = self.base.transform(frame.inverse / unit.unsqueeze(-2), torch.zeros_like(frame.center))
        return Pushforward(base, (*self.transforms[:-1], scaling_frame(frame.center, unit)))


def _supports(base: Field, transforms: Sequence[Transform]) -> list[list[int]]:
    """Columns that count before each transform, and behind the last."""
    supports = [base.support]
    for transform in reversed(transforms):
        supports.append(transform.outer_support(supports[-1]))
    return supports[::-1]


def _mask(support: Sequence[int], points: Tensor) -> Tensor:
    """(d,) of bool."""
    mask = torch.zeros(points.shape[-1], dtype=torch.bool, device=points.device)
    mask[list(support)] = True
    return mask


def _check_values(columns: Sequence[int], values: Any, *, gaps: bool) -> Tensor:
    """Values (..., k) as points (..., 1, k)."""
    try:
        row = torch.as_tensor(values, dtype=torch.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"values are not numbers: {error}") from None
    if row.shape[-1:] != (len(columns),):
        raise DataError(f"values have shape {tuple(row.shape)}, expected one for each of {list(columns)}")
    points = row.unsqueeze(-2)
    check_points(points.nan_to_num(0.0, torch.inf, -torch.inf) if gaps else points, "values")
    return points

"""Densities made of others: a field seen through invertible maps, and several densities blended into one.

    x -> transforms[0] -> transforms[1] -> ... -> base

The transforms are in the order in which a query meets them, from the data to the base.  Maps of single
columns commute with taking margins and with conditioning.  A frame that mixes columns comes last and is
absorbed into the base, which has a closed form for linear maps.  So every verb is written once, and
everything stays in closed form.  The composition can do whatever its base can do: `push` returns the right
type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, overload

import torch
from torch import Tensor

from discoformer.core.checks import DataError, check_points, traced
from discoformer.core.fields import Density, Estimate, Field, PointDensity
from discoformer.core.quantiles import find_quantile
from discoformer.core.transforms import At, Frame, KeptColumns, Transform, scaling_frame

__all__ = ["Blend", "PushedDensity", "PushedField", "Pushforward", "less_unseen", "on_support", "push"]


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
    columns = list(range(field.dim))
    if isinstance(field, PushedDensity) and isinstance(field.transforms[0], KeptColumns):
        columns = list(field.transforms[0].kept)
        field = push(field.base, field.transforms[1:])
    support = field.support
    if isinstance(field, Density) and len(support) < field.dim:  # left out behind other transforms
        field, columns = field.marginal(support), [columns[j] for j in support]
    return field, columns


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


def less_unseen(left_out: Tensor, inside: Tensor, unseen: float) -> Tensor:
    """Log densities of rows that are left out, without the optimism that leaving out does not see.

    Where slots are and which view is right would change, too, if a row was not there.  With the gain
    g = log f - log f_-i of a row that the fit has seen, ``unseen`` log(1 + g) comes off: about that share of
    a small gain, and less of a large one, for a row that lies alone has hardly any say in where slots are.

    >>> less_unseen(torch.tensor([-1.0, -9.0]), torch.tensor([-0.9, -1.0]), 0.7)
    tensor([ -1.0667, -10.5381])
    """
    return left_out - unseen * (inside - left_out).clamp_min(0.0).log1p()


@dataclass(frozen=True, repr=False)
class Blend(Density):
    """The mixture sum_k w_k f_k of densities.

    Attributes
    ----------
    parts : K densities of the same columns
    log_weight : (..., K), log of the weights, which sum to one; a part of weight zero is not asked
    unseen : how much choices among the parts, and inside them, add to the optimism that `left_out` of the
        parts sees (`less_unseen`)

    Examples
    --------
    >>> from discoformer.baselines.kde import KDE
    >>> left, right = (KDE(1.0).fit([[x], [x + 1.0]]) for x in (-9.0, 8.0))
    >>> both = Blend((left, right), torch.tensor([0.5, 0.5]).double().log())
    >>> round(float(both.cdf(torch.zeros(1, 1).double())), 6)
    0.5
    """

    parts: tuple[Density, ...]
    log_weight: Tensor
    unseen: float = 0.0

    @property
    def dim(self) -> int:
        return self.parts[0].dim

    @property
    def support(self) -> list[int]:
        return self.parts[0].support

    @property
    def gaps(self) -> bool:
        return all(part.gaps for part in self.parts)

    @property
    def _heard(self) -> list[int]:
        """The parts that have a weight, in any sample of the batch; all of them while a call is traced."""
        every = list(range(len(self.parts)))
        if traced() or self.log_weight.is_meta:
            return every
        return [k for k in every if bool((self.log_weight[..., k] > -torch.inf).any())]

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        heard = self._heard
        answers = [self.parts[k]._estimate(queries) for k in heard]
        terms = torch.stack([answer.log_density for answer in answers], -1)  # (..., m, K)
        terms = terms + self.log_weight[..., heard].unsqueeze(-2).to(terms)
        log_density = terms.logsumexp(-1)
        # where no part has mass, all answer with a score of zero
        share = (terms - log_density.unsqueeze(-1)).exp().nan_to_num(0.0).unsqueeze(-1)
        scores = torch.stack([answer.score for answer in answers], -2)  # (..., m, K, d)
        return Estimate(log_density, (share * scores).sum(-2))

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw from every part as often as chance says; in a batch, where that differs, n from each."""
        flat = self.log_weight.exp().reshape(-1, len(self.parts))
        if self.log_weight.ndim == 1:
            chosen = torch.multinomial(flat[0], n, replacement=True, generator=generator)
            counts = torch.bincount(chosen, minlength=len(self.parts)).tolist()
            draws = [part.sample(k, generator) for part, k in zip(self.parts, counts, strict=True) if k]
            return torch.cat(draws)[chosen.argsort(stable=True).argsort()]
        draws = [part.sample(n, generator) for part in self.parts]
        chosen = torch.multinomial(flat, n, replacement=True, generator=generator)
        index = chosen.reshape(*self.log_weight.shape[:-1], 1, n, 1)
        return torch.stack(draws, -3).take_along_dim(index, -3).squeeze(-3)

    def marginal(self, columns: Sequence[int]) -> Density:
        return Blend(tuple(part.marginal(columns) for part in self.parts), self.log_weight)

    def conditional(self, columns: Sequence[int], values: Any) -> Density:
        """The weights move to the parts that explain the values."""
        rest = tuple(part.conditional(columns, values) for part in self.parts)
        given = torch.as_tensor(values, dtype=torch.float64).unsqueeze(-2)
        given = given if self.gaps else check_points(given, "values")
        log_density = [part.marginal(columns)._estimate(given).log_density for part in self.parts]
        log_weight = self.log_weight + torch.cat(log_density, -1).to(self.log_weight)
        if not bool(log_weight.isfinite().any(-1).all()):
            raise DataError("the values given have no density: no part of the fit can explain them")
        return Blend(rest, torch.log_softmax(log_weight, -1))

    def cdf(self, queries: Any) -> Tensor:
        self._check_one_column("the distribution function")
        below = torch.stack([part.cdf(queries) for part in self.parts], -1)
        return (below * self.log_weight.exp().unsqueeze(-2).to(below)).sum(-1)

    def quantile(self, shares: Any) -> Tensor:
        self._check_one_column("a quantile")

        def bracket(share: Tensor) -> Tensor:
            return torch.cat([part.quantile(share) for part in self.parts], -1)

        return find_quantile(self.cdf, bracket, shares, self.log_weight)

    def complete(self, rows: Tensor, which: Tensor, chance: Callable[[int], Tensor]) -> Tensor:
        """Every draw by the part that explains what is there, at random where several do."""
        terms = torch.stack([part._estimate(rows).log_density for part in self.parts], -1) + self.log_weight
        below = terms.softmax(-1).cumsum(-1)[which]
        chosen = (chance(1) * below[..., -1:] > below).sum(-1).clamp_max(len(self.parts) - 1)
        found = rows[which]
        for k, part in enumerate(self.parts):
            own = (chosen == k).nonzero().flatten()
            if len(own):
                asked, place = which[own].unique(return_inverse=True)
                found[own] = part.complete(rows[asked], place, partial(_of_rows, chance, own))
        return found

    def left_out(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """The parts without the row; their weights are those of all rows.

        A fit without the row would choose otherwise, which no part sees: `less_unseen` takes it off.
        """
        heard = self._heard
        parts = torch.stack([self.parts[k].left_out(rows, weights) for k in heard], -1)
        found = (parts + self.log_weight[..., heard].unsqueeze(-2).to(parts)).logsumexp(-1)
        return less_unseen(found, self.log_density(rows), self.unseen) if self.unseen else found

    def transform(self, matrix: Tensor, shift: Tensor) -> Density:
        return Blend(
            tuple(part.transform(matrix, shift) for part in self.parts), self.log_weight, self.unseen
        )

    def moments(self) -> tuple[Tensor, Tensor] | None:
        """Those of the parts, where all that have a weight know theirs."""
        heard = self._heard
        known = [found for k in heard if (found := self.parts[k].moments()) is not None]
        if len(known) < len(heard):
            return None
        means, covariances = (
            torch.stack(torch.broadcast_tensors(*part)) for part in zip(*known, strict=True)
        )
        share = self.log_weight[..., heard].exp().movedim(-1, 0).unsqueeze(-1).to(means)  # (K, ..., 1)
        mean = (share * means).sum(0)
        off = (means - mean).unsqueeze(-1)
        return mean, (share.unsqueeze(-1) * (covariances + off * off.mT)).sum(0)

    def blurred(self, noise: Tensor) -> Density | None:
        parts = tuple(part.blurred(noise) for part in self.parts)
        known = tuple(part for part in parts if part is not None)
        return Blend(known, self.log_weight, self.unseen) if len(known) == len(parts) else None

    def __repr__(self) -> str:
        mean = self.log_weight.exp().reshape(-1, len(self.parts)).mean(0)
        weights = ", ".join(f"{weight:.2f}" for weight in mean.tolist())
        return f"Blend in {self.dim} column(s)\n  of {len(self.parts)} densities\n  with weights {weights}"


def _of_rows(chance: Callable[[int], Tensor], rows: Tensor, count: int) -> Tensor:
    """The chances (k, count) of some of the rows."""
    return chance(count)[rows]

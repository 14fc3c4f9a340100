"""What a fitted density knows of its own error at a query.

A slot that rests on c points knows the logarithm of its weight, its mean and its scale as well as c points
tell them.  To first order (u is the Student weight, D the squared distance, P the precision, s the score)

    variance of a slot's log density:        (1 + u^2 D + (u^2 D^2 - 2 u D + d) / 2) / c
    variance of a slot's score in column j:  (P_jj (1 + u D) + s_j^2) / c

and a mixture has the sum of these over its slots, each by its responsibility squared; its score also moves
as the responsibilities do.  These *sizes* have the right units, and follow n.  What they leave out (bias,
overlap of slots, which view, what was merged) a small network has learned (`error_bars`), from numbers
without units: counts, shares, degrees of freedom, and how much the parts of the fit disagree at the query.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.columns.normal_scores import NormalScores
from discoformer.core.blend import Blend
from discoformer.core.fields import Field
from discoformer.core.pushforward import Pushforward
from discoformer.core.transforms import ColumnMaps, Frame, KeptColumns, Transform
from discoformer.models.mixture.lift import natural_parameters
from discoformer.models.mixture.slots import student_log_density
from discoformer.models.mixture.student import StudentMixture

__all__ = ["COLUMN_FEATURES", "ROW_FEATURES", "ErrorFeatures", "error_features", "has_error_features"]

ROW_FEATURES = 22
COLUMN_FEATURES = 5  # beside those of the row
_TOLD = 9  # by the slots that answer for a query
_LEAST = 1e-30  # under a logarithm
_FARTHEST = 15.0  # logarithms of ratios end there
_NUMBERS = 2**20  # in an intermediate
_ROWS_AT = (-1, -2, -2, -3)  # where the queries are in the tensors of `ErrorFeatures`


class ErrorFeatures(NamedTuple):
    """Sizes of the errors to first order, and what the head looks at; a batch (...) leads.

    Attributes
    ----------
    log_density, score : (..., m) and (..., m, d), standard deviations to first order
    row : (..., m, ROW_FEATURES)
    column : (..., m, d, COLUMN_FEATURES)
    """

    log_density: Tensor
    score: Tensor
    row: Tensor
    column: Tensor


def has_error_features(field: Field) -> bool:
    """Whether a field is a fit of the two views to columns of numbers, with or without bounds."""
    return bool(_views(field)[1])


@torch.no_grad()
def error_features(field: Field, queries: Tensor) -> ErrorFeatures:
    """Sizes and features at queries (..., m, d) of a field that has them (`has_error_features`).

    >>> from discoformer.methods import resolve
    >>> x = torch.randn(400, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> found = error_features(resolve("default").method.fit(x), torch.zeros(1, 2).double())
    >>> 0.02 < float(found.log_density) < 0.5, found.score.shape
    (True, torch.Size([1, 2]))
    """
    outer, views = _views(field)
    if not views:
        raise TypeError(f"{type(field).__name__} has no error features")
    kept, slope, points = list(range(queries.shape[-1])), torch.ones_like(queries), queries
    for transform in outer:
        if isinstance(transform, KeptColumns):
            kept = [kept[j] for j in transform.kept]
            slope = slope[..., list(transform.kept)]
        elif isinstance(transform, ColumnMaps):
            slope = slope * _slopes(transform, points)[0]
        points = transform.normalize(points)
    misfit = [view.misfit() for view in views]
    slots = max(part.log_weight.shape[-1] for view in views for part in view.mixtures)
    rows = max(1, _NUMBERS // (slots * points[..., :1, :].numel()))
    parts = [_at(views, misfit, chunk) for chunk in points.split(rows, -2)]
    found = ErrorFeatures(*map(torch.cat, zip(*parts, strict=True), _ROWS_AT))
    score, column = torch.zeros_like(queries), queries.new_zeros(*queries.shape, COLUMN_FEATURES)
    score[..., kept], column[..., kept, :] = found.score * slope, found.column
    return found._replace(score=score, column=column)


class _View(NamedTuple):
    """A view of a fit: its log weight (...), the map of its margins, its frame, and its mixtures (..., K)."""

    log_weight: Tensor
    margins: ColumnMaps | None
    frame: Frame
    mixtures: list[StudentMixture]
    shares: Tensor

    def misfit(self) -> Tensor:
        """Mean square (...) by which the first and the last mixture differ at the centers of the first."""
        first, last = self.mixtures[0], self.mixtures[-1]
        off = first._estimate(first.mean).log_density - last._estimate(first.mean).log_density
        return (first.log_weight.exp() * off.square()).sum(-1)


def _views(field: Field) -> tuple[Sequence[Transform], list[_View]]:
    """The maps around a fit, and its views; none if the field is no such fit."""
    outer: Sequence[Transform] = ()
    if isinstance(field, Pushforward):
        outer, field = field.transforms, field.base
    if not isinstance(field, Blend) or not all(isinstance(t, ColumnMaps | KeptColumns) for t in outer):
        return outer, []
    found = [_view(field.parts[k], field.log_weight[..., k]) for k in field._heard]
    views = [view for view in found if view is not None]
    return outer, views if len(views) == len(found) else []


def _view(part: Field, log_weight: Tensor) -> _View | None:
    if not isinstance(part, Pushforward) or not isinstance(part.base, Blend):
        return None
    *maps, frame = part.transforms
    margins = [own for own in maps if isinstance(own, ColumnMaps)]
    mixtures = [
        own for own in part.base.parts if isinstance(own, StudentMixture) and own.evidence is not None
    ]
    whole = len(mixtures) == len(part.base.parts) and len(margins) == len(maps) < 2
    if not isinstance(frame, Frame) or not whole:
        return None
    return _View(log_weight, margins[0] if margins else None, frame, mixtures, part.base.log_weight)


def _slopes(maps: ColumnMaps, points: Tensor) -> tuple[Tensor, Tensor]:
    """Slopes of maps of columns at points (..., m, d), and the derivatives of their logarithms."""
    inside, slope, bend = maps.normalize(points), torch.ones_like(points), torch.zeros_like(points)
    for j, own in maps.maps.items():
        log_slope, bend[..., j] = own.log_derivative(points[..., j], inside[..., j])
        slope[..., j] = log_slope.exp()
    return slope, bend


class _Slots(NamedTuple):
    """What the slots of one mixture say of points (..., m, d) in its frame.

    Attributes
    ----------
    log_density, variance : (..., m), in the frame
    score, score_variance, precision : (..., m, d), outside the frame
    told : (..., m, T), of the slots that answer for the query
    """

    log_density: Tensor
    variance: Tensor
    score: Tensor
    score_variance: Tensor
    precision: Tensor
    told: Tensor


def _look(mixture: StudentMixture, points: Tensor, matrix: Tensor) -> _Slots:
    """By the formulas above; ``matrix`` (..., d, d) is that of the frame."""
    evidence, dim = mixture.evidence, points.shape[-1]
    assert evidence is not None
    natural = natural_parameters(mixture.mean, mixture.scale)
    outside = matrix.unsqueeze(-3)
    precision = ((outside @ natural.precision) * outside).sum(-1).unsqueeze(-2)  # (..., M, 1, d)
    offset = points.unsqueeze(-3) - mixture.mean.unsqueeze(-2)  # (..., M, m, d)
    pull = offset @ natural.precision
    distance, nu = (offset * pull).sum(-1), mixture.nu.unsqueeze(-1)
    terms = student_log_density(distance, natural.log_peak.unsqueeze(-1), nu, dim)
    terms = terms + mixture.log_weight.unsqueeze(-1)
    log_density = terms.logsumexp(-2)
    held = (terms - log_density.unsqueeze(-2)).exp()  # (..., M, m)
    heavy = (nu + dim) / (nu + distance)
    near = heavy * distance
    count = (evidence.count + evidence.pseudo).clamp_min(1.0).unsqueeze(-1)
    variance = (1 + heavy * near + 0.5 * (near.square() - 2 * near + dim)) / count
    scores = (-heavy.unsqueeze(-1) * pull) @ outside.mT
    score = (held.unsqueeze(-1) * scores).sum(-3)
    own = (precision * (1 + near).unsqueeze(-1) + scores.square()) / count.unsqueeze(-1)
    moved = variance.unsqueeze(-1) * (scores - score.unsqueeze(-3)).square()
    told = [
        count.log(),
        torch.log1p(distance / dim),
        nu.log(),
        evidence.whole.clamp(0, 2).unsqueeze(-1),
        evidence.along.clamp(0, 2).unsqueeze(-1),
        evidence.ball.clamp(0, 2).unsqueeze(-1),
        evidence.pseudo.unsqueeze(-1) / count,
    ]
    means = [(held * one).sum(-2) for one in told]
    few = -held.square().sum(-2).log()
    of_all = -(2 * mixture.log_weight).logsumexp(-1).unsqueeze(-1).expand_as(few)
    return _Slots(
        log_density,
        (held.square() * variance).sum(-2),
        score,
        (held.square().unsqueeze(-1) * (own + moved)).sum(-3),
        (held.unsqueeze(-1) * precision).sum(-3),
        torch.stack([*means, few, of_all], -1),
    )


def _margin_variances(margins: ColumnMaps, points: Tensor) -> tuple[Tensor, Tensor]:
    """Variances of log density and score of every column (..., m, d), by its own slots."""
    density, score = torch.zeros_like(points), torch.zeros_like(points)
    for j, own in margins.maps.items():
        fitted = own.density if isinstance(own, NormalScores) else None
        if isinstance(fitted, Pushforward) and isinstance(fitted.base, StudentMixture):
            [frame] = fitted.transforms
            assert isinstance(frame, Frame)
            seen = _look(fitted.base, frame.normalize(points[..., j].unsqueeze(-1)), frame.matrix)
            density[..., j], score[..., j] = seen.variance, seen.score_variance.squeeze(-1)
    return density, score


class _Leaves(NamedTuple):
    """The mixtures of all views side by side (L), as they look outside of frames and margins."""

    log_density: Tensor  # (..., m, L), with the weights
    variance: Tensor
    score: Tensor  # (..., m, d, L)
    score_variance: Tensor
    precision: Tensor
    told: Tensor  # (..., m, T, L)
    beside: Tensor  # (..., m, B, L): of the margins or not, merged or not, and more


def _at(views: Sequence[_View], misfit: Sequence[Tensor], points: Tensor) -> ErrorFeatures:
    """Sizes and features at points (..., m, d) of the columns that were fitted."""
    dim = points.shape[-1]
    leaves, gaps, score_gaps, margins, score_margins = [], [], [], [], []
    for view, off in zip(views, misfit, strict=True):
        one, nothing = torch.ones_like(points[..., 0]), torch.zeros_like(points)
        inside, slope, bend, own, own_score = points, torch.ones_like(points), nothing, nothing, nothing
        if view.margins is not None:
            inside = view.margins.normalize(points)
            slope, bend = _slopes(view.margins, points)
            own, own_score = _margin_variances(view.margins, points)
        place = view.frame.normalize(inside)
        stretch = view.frame.log_det.unsqueeze(-1) + slope.log().sum(-1)
        seen = [_look(mixture, place, view.frame.matrix) for mixture in view.mixtures]
        for k, slots in enumerate(seen):
            weight = (view.log_weight + view.shares[..., k]).unsqueeze(-1)
            level = (slots.log_density + 0.5 * dim * math.log(2 * math.pi * math.e)) / dim
            beside = [
                one * (view.margins is not None),
                one * (k > 0),
                torch.log1p(place.square().mean(-1)),
                level.clamp(-_FARTHEST, _FARTHEST),
                _log(off).unsqueeze(-1) * one,
            ]
            leaves.append(
                _Leaves(
                    slots.log_density + stretch + weight,
                    slots.variance + own.sum(-1),
                    slots.score * slope + bend,
                    slots.score_variance * slope.square() + own_score,
                    slots.precision * slope.square(),
                    slots.told,
                    torch.stack(beside, -1),
                )
            )
            gaps.append((slots.log_density - seen[0].log_density).square())
            score_gaps.append(((slots.score - seen[0].score) * slope).square())
            margins.append(own.sum(-1))
            score_margins.append(own_score)
    both = _Leaves(*(torch.stack(parts, -1) for parts in zip(*leaves, strict=True)))
    share = both.log_density.softmax(-1)  # (..., m, L)
    of_view = _of_view(share, [len(view.mixtures) for view in views])
    wide, wide_view = share.unsqueeze(-2), of_view.unsqueeze(-2)
    log_weight = torch.cat([view.log_weight.unsqueeze(-1) + view.shares for view in views], -1).exp()
    variance, score = (share * both.variance).sum(-1), (wide * both.score).sum(-1)
    score_variance = (wide * both.score_variance).sum(-1)
    precision = (wide * both.precision).sum(-1)
    answers = both.log_density - log_weight.clamp_min(_LEAST).log().unsqueeze(-2)
    middle = (share * answers).sum(-1, keepdim=True)
    placed = (wide * both.beside).sum(-1)
    weight = (log_weight.unsqueeze(-2).unsqueeze(-2) * both.beside[..., :2, :]).sum(-1)
    size = torch.stack([part.evidence.count.sum(-1) for part in views[0].mixtures if part.evidence], -1)
    row = [
        _log(variance),
        size[..., :1].log().expand_as(variance),
        torch.full_like(variance, math.log(dim)),
        _log((share * (answers - middle).square()).sum(-1) / variance),
        _log((of_view * torch.stack(gaps, -1)).sum(-1) / variance),
        _log((share * torch.stack(margins, -1)).sum(-1) / variance),
    ]
    parts = [torch.stack(row, -1), placed, weight, (wide * both.told).sum(-1)]
    column = [
        _log(score_variance / precision),
        _log(score.square() / precision),
        _log((wide * (both.score - score.unsqueeze(-1)).square()).sum(-1) / score_variance),
        _log((wide_view * torch.stack(score_gaps, -1)).sum(-1) / score_variance),
        _log((wide * torch.stack(score_margins, -1)).sum(-1) / score_variance),
    ]
    return ErrorFeatures(
        variance.sqrt(), score_variance.sqrt(), torch.cat(parts, -1), torch.stack(column, -1)
    )


def _of_view(share: Tensor, counts: Sequence[int]) -> Tensor:
    """Shares (..., m, L) of the views that the mixtures belong to, at the last mixture of each."""
    found, start = torch.zeros_like(share), 0
    for count in counts:
        found[..., start + count - 1] = share[..., start : start + count].sum(-1)
        start += count
    return found


def _log(ratio: Tensor) -> Tensor:
    return ratio.clamp_min(_LEAST).log().clamp(-_FARTHEST, _FARTHEST)

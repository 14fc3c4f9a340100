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
from discoformer.core.composed import Blend, Pushforward
from discoformer.core.fields import Field
from discoformer.core.transforms import ColumnMaps, Frame, KeptColumns, Transform
from discoformer.models.mixture.lift import natural_parameters
from discoformer.models.mixture.slots import student_log_density
from discoformer.models.mixture.student import StudentMixture

__all__ = ["COLUMN_FEATURES", "ROW_FEATURES", "ErrorFeatures", "error_features", "has_error_features"]

ROW_FEATURES = 22
COLUMN_FEATURES = 5  # beside those of the row
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
    """Whether a field is a fit of `Views` to columns of numbers, with or without bounds."""
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


class _SlotsAtPoints(NamedTuple):
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


def _look(mixture: StudentMixture, points: Tensor, matrix: Tensor) -> _SlotsAtPoints:
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
    return _SlotsAtPoints(
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


class _Leaf(NamedTuple):
    """One mixture of one view, outside of frame and margins; (..., m) and (..., m, d).

    Attributes
    ----------
    log_density, log_weight : its answer, and its weight in the fit
    variance, margin : of the log density; of it, what the margins add
    score, score_variance, score_margin : the same of the score
    precision : the unit of squared scores
    gap, score_gap : squared differences to the first mixture of the view
    told : (..., m, T), by the slots
    place : (..., m, P), of the margins or not, merged or not, how far out, how dense, misfit of the view
    """

    log_density: Tensor
    log_weight: Tensor
    variance: Tensor
    margin: Tensor
    score: Tensor
    score_variance: Tensor
    score_margin: Tensor
    precision: Tensor
    gap: Tensor
    score_gap: Tensor
    told: Tensor
    place: Tensor


def _leaves(view: _View, misfit: Tensor, points: Tensor) -> list[_Leaf]:
    """The mixtures of a view at points (..., m, d) of the columns that were fitted."""
    dim, one, nothing = points.shape[-1], torch.ones_like(points[..., 0]), torch.zeros_like(points)
    inside, slope, bend, margin, score_margin = points, torch.ones_like(points), nothing, nothing, nothing
    if view.margins is not None:
        inside = view.margins.normalize(points)
        slope, bend = _slopes(view.margins, points)
        margin, score_margin = _margin_variances(view.margins, points)
    place = view.frame.normalize(inside)
    stretch = view.frame.log_det.unsqueeze(-1) + slope.log().sum(-1)
    seen = [_look(mixture, place, view.frame.matrix) for mixture in view.mixtures]
    found = []
    for k, slots in enumerate(seen):
        level = (slots.log_density + 0.5 * dim * math.log(2 * math.pi * math.e)) / dim
        placed = [
            one * (view.margins is not None),
            one * (k > 0),
            torch.log1p(place.square().mean(-1)),
            level.clamp(-_FARTHEST, _FARTHEST),
            _log(misfit).unsqueeze(-1) * one,
        ]
        leaf = _Leaf(
            slots.log_density + stretch,
            (view.log_weight + view.shares[..., k]).unsqueeze(-1) * one,
            slots.variance + margin.sum(-1),
            margin.sum(-1),
            slots.score * slope + bend,
            slots.score_variance * slope.square() + score_margin,
            score_margin,
            slots.precision * slope.square(),
            (slots.log_density - seen[0].log_density).square(),
            ((slots.score - seen[0].score) * slope).square(),
            slots.told,
            torch.stack(placed, -1),
        )
        found.append(leaf)
    return found


def _at(views: Sequence[_View], misfit: Sequence[Tensor], points: Tensor) -> ErrorFeatures:
    """Sizes and features at points (..., m, d) of the columns that were fitted."""
    parts = [_leaves(view, off, points) for view, off in zip(views, misfit, strict=True)]
    leaf = _Leaf(*(torch.stack(one, -1) for one in zip(*sum(parts, []), strict=True)))  # all have a last L
    share = (leaf.log_density + leaf.log_weight).softmax(-1)
    of_view = _of_view(share, [len(part) for part in parts])

    def mean(of: Tensor, by: Tensor = share) -> Tensor:
        """Over the mixtures, by their shares at the queries."""
        return (of * (by if of.ndim == by.ndim else by.unsqueeze(-2))).sum(-1)

    variance, score_variance, precision = map(mean, (leaf.variance, leaf.score_variance, leaf.precision))
    middle, score = mean(leaf.log_density).unsqueeze(-1), mean(leaf.score)
    evidence = views[0].mixtures[0].evidence
    assert evidence is not None
    row = [
        _log(variance),
        evidence.count.sum(-1, keepdim=True).log().expand_as(variance),
        torch.full_like(variance, math.log(points.shape[-1])),
        _log(mean((leaf.log_density - middle).square()) / variance),
        _log(mean(leaf.gap, of_view) / variance),
        _log(mean(leaf.margin) / variance),
    ]
    weights = mean(leaf.place[..., :2, :], leaf.log_weight.exp())
    column = [
        _log(score_variance / precision),
        _log(score.square() / precision),
        _log(mean((leaf.score - score.unsqueeze(-1)).square()) / score_variance),
        _log(mean(leaf.score_gap, of_view) / score_variance),
        _log(mean(leaf.score_margin) / score_variance),
    ]
    return ErrorFeatures(
        variance.sqrt(),
        score_variance.sqrt(),
        torch.cat([torch.stack(row, -1), mean(leaf.place), weights, mean(leaf.told)], -1),
        torch.stack(column, -1),
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

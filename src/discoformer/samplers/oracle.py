"""What samplers ask: a field, that of a fitted estimator, or a function; what a function says is checked."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from discoformer.columns.bounds import HalfLine, Interval
from discoformer.columns.split import kinds_of
from discoformer.core.checks import DataError, check_context, column_names
from discoformer.core.composed import PushedField
from discoformer.core.fields import Field, HasField, Method, PointDensity
from discoformer.core.frames import constant_columns
from discoformer.core.transforms import ColumnMaps

__all__ = ["Score", "Source", "check_start", "refuse_bounds", "score_function", "source_of", "whole"]

Score = Callable[[Tensor], Tensor]
Source = Field | HasField | Score


def source_of(score: Source, dim: int) -> Field | Score:
    """The field of points with ``dim`` columns, also that of a fitted estimator, or the function itself."""
    found = score.field_ if isinstance(score, HasField) else score
    if isinstance(found, Field):
        if found.dim != dim:
            raise DataError(f"the points have {dim} column(s), but the density has {found.dim}")
        kinds = kinds_of(found) if isinstance(found, PointDensity) else []
        if len(found.support) < dim or any(kind.levels or kind.atoms or kind.step for kind in kinds):
            raise DataError("points cannot move along every column of this density: fit the continuous ones")
        return found
    if not callable(found) or isinstance(found, Method):
        raise DataError(
            f"a {type(found).__name__} has no score: give a field, a fitted estimator, or a function from "
            "points (n, d) to scores (n, d)"
        )
    return found


def refuse_bounds(source: Field | Score, what: str) -> None:
    """Raise `DataError` for a density with bounds, where ``what`` knows nothing but its score.

    Outside the score is zero, so no point would come back, and Stein's identity fails at the edge.

    >>> from discoformer import DiScoFormer
    >>> waits = torch.arange(1.0, 9).unsqueeze(-1)
    >>> refuse_bounds(DiScoFormer(model="kde-scott", bounds=(0, None)).fit(waits).field_, "svgd")
    Traceback (most recent call last):
        ...
    discoformer.DataError: svgd needs a density without bounds, column 0 has some: fit its logarithm, or \
between two bounds its logit
    """
    transforms = source.transforms if isinstance(source, PushedField) else ()
    maps = [step.maps for step in transforms if isinstance(step, ColumnMaps)]
    bounded = sorted({j for own in maps for j in own if isinstance(own[j], HalfLine | Interval)})
    if bounded:
        raise DataError(
            f"{what} needs a density without bounds, {column_names(bounded)} has some: fit its logarithm, or "
            "between two bounds its logit"
        )


def whole(number: object) -> bool:
    """Whether this is a whole number, of Python or of numpy."""
    return isinstance(number, Integral) and not isinstance(number, bool)


def score_function(source: Field | Score) -> Score:
    """The score of a field, or a function whose answers are checked.

    >>> import torch
    >>> score_function(lambda x: -x[:1])(torch.zeros(3, 2))
    Traceback (most recent call last):
        ...
    discoformer.DataError: the score function returns (1, 2), expected a tensor of shape (3, 2)
    """
    ask = source.score if isinstance(source, Field) else source

    def checked(points: Tensor) -> Tensor:
        with torch.enable_grad():  # the samplers run without, but a score may be found by autograd
            score: Any = ask(points.detach())
        shape = tuple(score.shape) if isinstance(score, Tensor) else type(score).__name__
        if shape != tuple(points.shape):
            raise DataError(
                f"the score function returns {shape}, expected a tensor of shape {tuple(points.shape)}"
            )
        lost = ~score.isfinite().all(-1)
        if bool(lost.any()):
            row = int(lost.nonzero()[0, -1])
            raise DataError(
                f"the score is NaN or infinite at row {row} ({int(lost.sum())} such in all): start nearer to "
                "the law, take smaller steps, or repair the function"
            )
        answer: Tensor = score.detach().to(points)
        return answer

    return checked


def check_start(start: Any) -> Tensor:
    """Points (..., n, d) to start from, with a spread in every column: it is the unit of the steps.

    >>> check_start([[0.0, 1.0], [2.0, 1.0]])
    Traceback (most recent call last):
        ...
    discoformer.DataError: start: all points have the same value in column 1, spread them
    """
    points = check_context(start, name="start").detach()
    same = constant_columns(points).reshape(-1, points.shape[-1]).any(0)
    if bool(same.any()):
        which = column_names(same.nonzero().flatten().tolist())
        raise DataError(f"start: all points have the same value in {which}, spread them")
    return points

"""How far two densities are apart, from a sample of each.

    Kullback-Leibler divergence  KL(f|g) =  E_f [log f - log g]
    relative Fisher information  I(f|g)  =  E_f |grad log f - grad log g|^2
    Jensen-Shannon divergence    JS(f,g) =  [KL(f|m) + KL(g|m)] / 2,  m = (f + g) / 2

By default (see `discoformer.functionals.splits`) points are left out one by one, or in folds where that has
no closed form.  Then neither density has seen the points at which they are compared, and their errors cancel
where f and g are alike.  Where an estimated density moves the value to first order, standard errors come from
the influence function, for either sample.  With ``weights``, a pair for the two samples, rows count by
weight, in the fits and in the means.  Arrays with counts or repeated values are fitted as such by a network
that can (`discoformer.functionals.columns`).  No divergence is negative: if one comes out more than two
standard errors below zero, an `ImpossibleWarning` says what to look at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from discoformer.core.checks import DataError, check_points
from discoformer.core.fields import Field, Method, PointDensity
from discoformer.data.containers import in_order_of
from discoformer.functionals.columns import for_kinds_of
from discoformer.functionals.splits import (
    Functional,
    Known,
    Rows,
    Source,
    Split,
    at_own_sample,
    check_pair,
    field_of,
    log_density_of,
    needs_method,
    score_and_divergence,
    score_of,
    shuffled,
    source_of,
)

__all__ = ["jensen_shannon", "kl_divergence", "relative_fisher_information"]

Other = Source | None
Weights = tuple[Any, Any]
_SPREAD_ROWS = 512  # enough to estimate a variance whose terms need divergences of scores
_MOST = 1e4  # of a log ratio; beyond it nothing changes, and a density may be zero
_HALVINGS = 40


def kl_divergence(
    first: Any,
    second: Any,
    source: Source,
    other: Other = None,
    *,
    weights: Weights = (None, None),
    split: Split | None = None,
    folds: int = 5,
) -> Functional:
    """Kullback-Leibler divergence KL(f|g) = E_f [log f - log g], in nats, from two samples.

    The squared standard error is var_f(log f/g) / n + var_g(f/g) / m, without the second term where g is a
    given field.

    Parameters
    ----------
    first, second : (..., n, d) and (..., m, d), the samples of f and g
    source, other : of f and of g, as for `entropy`; the second may be left out where the first is a method,
        which is then fitted to both samples
    weights : (..., n) and (..., m), either of them may be None
    split, folds : how f is estimated at its own sample; g is fitted to all of ``second``.

    >>> import numpy as np
    >>> from discoformer import KDE
    >>> x = np.random.default_rng(0).normal(size=(2, 1000, 1))
    >>> value, standard_error = kl_divergence(x[0], x[1], KDE())
    >>> abs(value) < 3 * standard_error
    True
    """
    x, y, f, g = _of_columns(*_pair(first, second, weights, source, other))
    g_field = field_of(g, y)
    own = at_own_sample(x, f, log_density_of, split, folds, "folds")
    terms = (own - log_density_of(g_field, x.points)).mean(0)
    variance = x.variance_of_mean(terms)
    if isinstance(g, Method):
        log_ratio = log_density_of(field_of(f, x), y.points) - log_density_of(g_field, y.points)
        variance = variance + y.variance_of_mean(_finite_exp(log_ratio))
    return Functional.like(first, x.mean(terms), variance).checked("the divergence")


def relative_fisher_information(
    first: Any,
    second: Any,
    source: Source,
    other: Other = None,
    *,
    weights: Weights = (None, None),
    split: Split = "folds",
    folds: int = 5,
) -> Functional:
    """Relative Fisher information I(f|g) = E_f |grad log f - grad log g|^2 from two samples.

    The score of g is evaluated at the sample of f.  The standard error counts both samples, but only that of
    f where g is a given field, or where a method knows only the score.

    Parameters
    ----------
    first, second : (..., n, d) and (..., m, d), the samples of f and g
    source, other : of f and of g, as for `entropy`; the second may be left out where the first is a method,
        which is then fitted to both samples
    weights : (..., n) and (..., m), either of them may be None
    split : "none", "folds" or "balanced"
    folds : int

    >>> from discoformer.priors import gaussian
    >>> f, g = (gaussian(torch.full((1,), c).double(), torch.eye(1).double()) for c in (0.0, 3.0))
    >>> x, y = f.sample(100), g.sample(100)
    >>> round(float(relative_fisher_information(x, y, f, g).value), 9)
    9.0
    """
    x, y, f, g = _pair(first, second, weights, source, other)
    g_field = field_of(g, y)
    difference = at_own_sample(x, f, score_of, split, folds) - score_of(g_field, x.points)
    terms = difference.square().sum(-1).mean(0)
    variance = x.variance_of_mean(terms)
    with torch.no_grad():
        f_field = field_of(f, x)
        if isinstance(f, Method):
            some = _some_rows(x)
            square, flow = _gap_and_flow(f_field, g_field, some.points)
            variance = some.variance_of_mean(square - 2 * flow) * _worth(some) / _worth(x)
        if isinstance(g, Method):
            variance = variance + _variance_by_second(f_field, g_field, y)
    return Functional.like(first, x.mean(terms), variance)


def jensen_shannon(
    first: Any,
    second: Any,
    source: Source,
    other: Other = None,
    *,
    weights: Weights = (None, None),
    split: Split | None = None,
    folds: int = 5,
) -> Functional:
    """Jensen-Shannon divergence, in nats: 0 for equal densities, log 2 for disjoint ones.

    With r = log f/g and s the logistic function it is half of max_t E_f log 2 s(t r) + E_g log 2 s(-t r);
    the maximum is at t = 1 for the true r.  Errors of an estimated r can only lower it, below zero where f
    and g are about the same.  So r is shrunk by the best t from 0 to 1, unless both fields are given.

    Parameters
    ----------
    first, second : (..., n, d) and (..., m, d), the samples of f and g
    source, other : of f and of g, as for `entropy`; the second may be left out where the first is a method,
        which is then fitted to both samples
    weights : (..., n) and (..., m), either of them may be None
    split, folds : how each density is estimated at its own sample.

    >>> import numpy as np
    >>> from discoformer import KDE
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> value, _ = jensen_shannon(x, x + 100, KDE())
    >>> abs(value - math.log(2)) < 1e-12
    True
    """
    x, y, f, g = _of_columns(*_pair(first, second, weights, source, other))
    sides = (x, f, field_of(g, y)), (y, g, field_of(f, x))
    ratios = []
    for rows, own, other_field in sides:
        log_own = at_own_sample(rows, own, log_density_of, split, folds, "folds")
        ratios.append((log_own - log_density_of(other_field, rows.points)).clamp(-_MOST, _MOST))
    shrink = _shrinkage((x, y), ratios) if isinstance(f, Method) or isinstance(g, Method) else 1.0
    terms = [(math.log(2) + logsigmoid(shrink * ratio)).mean(0) for ratio in ratios]
    value = (x.mean(terms[0]) + y.mean(terms[1])) / 2
    variance = (x.variance_of_mean(terms[0]) + y.variance_of_mean(terms[1])) / 4
    return Functional.like(first, value, variance).checked("the divergence")


def _shrinkage(samples: tuple[Rows, Rows], ratios: Sequence[Tensor]) -> Tensor:
    """The t (..., 1) from 0 to 1 that maximizes the sum of the means of log s(t r), r (folds, ..., n)."""
    ratios = [ratio.detach() for ratio in ratios]
    low = torch.zeros_like(ratios[0][0, ..., :1])
    high = torch.ones_like(low)
    for _ in range(_HALVINGS):  # the sum is concave
        middle = (low + high) / 2
        one, other = (
            rows.mean((ratio * torch.sigmoid(-middle * ratio)).mean(0))
            for rows, ratio in zip(samples, ratios, strict=True)
        )
        rises = (one + other).unsqueeze(-1) > 0
        low, high = torch.where(rises, middle, low), torch.where(rises, high, middle)
    return low


def _of_columns(x: Rows, y: Rows, f: Known, g: Known) -> tuple[Rows, Rows, Known, Known]:
    """The sources, told the kinds of the columns of both samples together."""
    if x.points.ndim != 2 or y.points.ndim != 2:
        return x, y, f, g
    both = torch.cat([x.points, y.points])
    return x, y, for_kinds_of(f, both), for_kinds_of(g, both)


def _gap_and_flow(f: Field, g: Field, points: Tensor) -> tuple[Tensor, Tensor]:
    """|u|^2 and w = div(f u) / f = div u + u.s_f, both (..., m), with u = s_f - s_g.

    A change df of the density f moves the relative Fisher information by the integral of (|u|^2 - 2 w) df,
    and a change dg of g moves it by the integral of 2 w (f/g) dg (integration by parts).
    """
    (score_f, divergence_f), (score_g, divergence_g) = (score_and_divergence(h, points) for h in (f, g))
    gap = score_f - score_g
    return gap.square().sum(-1), divergence_f - divergence_g + (gap * score_f).sum(-1)


def _variance_by_second(f: Field, g: Field, second: Rows) -> Tensor:
    """What the sample of g adds to the variance of the relative Fisher information, (...)."""
    some = _some_rows(second)
    if not (isinstance(f, PointDensity) and isinstance(g, PointDensity)):
        return second.points.new_zeros(())
    log_f, log_g = f.log_density(some.points), g.log_density(some.points)
    _, flow = _gap_and_flow(f, g, some.points)
    terms = 2 * flow * _finite_exp(log_f - log_g)
    return some.variance_of_mean(terms) * _worth(some) / _worth(second)


def _finite_exp(log_ratio: Tensor) -> Tensor:
    """exp, cut off where its square would not be finite."""
    return log_ratio.clamp(max=math.log(torch.finfo(log_ratio.dtype).max) / 4).exp()


def _some_rows(rows: Rows) -> Rows:
    """At most `_SPREAD_ROWS` of the rows, at random."""
    return rows.take(shuffled(rows.points)[:_SPREAD_ROWS])


def _worth(rows: Rows) -> Tensor | float:
    """Effective sample size (...): how many rows of equal weight these stand for."""
    return rows.points.shape[-2] if rows.weights is None else 1 / rows.weights.square().sum(-1)


def _pair(
    first: Any, second: Any, weights: Weights, source: Source, other: Other
) -> tuple[Rows, Rows, Known, Known]:
    of_first, of_second = check_pair(weights)
    x, second = Rows.check(first, of_first, "first sample"), in_order_of(first, second)
    y = Rows.check(check_points(second, "second sample", min_rows=2).to(x.points), of_second, "second sample")
    if x.points.shape[-1] != y.points.shape[-1]:
        raise DataError(
            f"the samples have {x.points.shape[-1]} and {y.points.shape[-1]} column(s): "
            "give the same columns of both"
        )
    f = source_of(source)
    return x, y, f, needs_method(f) if other is None else source_of(other)

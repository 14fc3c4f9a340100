"""Numbers that densities and scores are the way to: entropy, Fisher information, divergences.

    entropy                      H(f)    = -E_f log f
    Fisher information           I(f)    =  E_f |grad log f|^2
    Kullback-Leibler divergence  KL(f|g) =  E_f [log f - log g]
    relative Fisher information  I(f|g)  =  E_f |grad log f - grad log g|^2
    Jensen-Shannon divergence    JS(f,g) =  [KL(f|m) + KL(g|m)] / 2,  m = (f + g) / 2
    mutual information           MI(x,y) =  E [log f(x,y) - log f(x) - log f(y)]

Each expectation is a mean over a sample, with log densities and scores from a `Method` that is fitted to
the sample, or from a `Field` that is there already (an exact distribution, say) and is asked as it is.

**In-sample bias.** A method that is asked at the points it was fitted to is too sure of them; asked at
points it has not seen it is not sure enough.  ``split`` chooses:

============  ==========================================================================================
``none``      fit to all points and ask at the same: the plug-in estimate of the paper
``folds``     fit to the other folds, ask at the points held out (cross-fitting); folds are random
              with a fixed seed, so that the answer is the same every time
``balanced``  the mean of the two: for an estimate by maximum likelihood the optimism of the one and
              the pessimism of the other are equal to first order and cancel
``loo``       leave one point out, for a field with ``loo_log_density`` (kernel density estimates)
============  ==========================================================================================

Where one density is averaged at its own sample (`entropy`, `fisher_information`,
`mutual_information`) the default is ``balanced``.  Where two densities are compared at the same
points the default is ``folds``: then neither has seen them, and their errors cancel where f and g
are alike.  For entropy and Fisher information the defaults were chosen by error, on the whole, of kernel
density estimates and maximum likelihood mixtures in 1 and 10 dimensions;
`discoformer reproduce entropy_fisher`
measures them next to the plug-in estimate of the paper.

**Standard errors** are sqrt(var(term) / n), with the terms that the value is the mean of, or, where an
estimated density moves the value to first order as well (the divergences), with those of its influence
function, for either sample.  They tell how much the value would vary with the samples, not how far off the
method is: a kernel density estimate that smooths too much has a bias that no standard error shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

import torch
from torch import Tensor

from discoformer.core.checks import DataError, check_points
from discoformer.core.fields import Field, Method

__all__ = [
    "Functional",
    "Split",
    "entropy",
    "fisher_information",
    "jensen_shannon",
    "kl_divergence",
    "mutual_information",
    "relative_fisher_information",
]

Split = Literal["none", "folds", "balanced", "loo"]
Form = Literal["one-step", "square"]
Ask = Callable[[Field, Tensor], Tensor]
_CHUNK = 1024  # points at a time where a graph is held for the divergence of the score
_SPREAD_ROWS = 512  # enough to know a variance by, where its terms need divergences of scores


class Functional(NamedTuple):
    """An estimate and its standard error.

    Floats for one sample, arrays (...) for a batch; tensors (...) if the sample was a tensor.
    """

    value: Any
    standard_error: Any

    @classmethod
    def like(cls, sample: Any, value: Tensor, variance: Tensor) -> Functional:
        """Value (...) with the root of its variance (...), as the kind of numbers that ``sample`` is."""
        numbers = (value, variance.sqrt())
        if isinstance(sample, Tensor):
            return cls(*numbers)
        return cls(*(n.item() if n.ndim == 0 else n.detach().cpu().numpy() for n in numbers))


def entropy(sample: Any, source: Method | Field, *, split: Split = "balanced", folds: int = 5) -> Functional:
    """Differential entropy -E log f, in nats.

    Parameters
    ----------
    sample : (..., n, d)
    source : Method or Field
        What estimates log f; a field is asked as it is, whatever ``split`` says.
    split : "none", "folds", "balanced" or "loo"
    folds : int

    >>> import numpy as np
    >>> from discoformer import KDE
    >>> x = np.random.default_rng(0).normal(size=(500, 1))
    >>> value, standard_error = entropy(x, KDE())
    >>> abs(value - 0.5 * math.log(2 * math.pi * math.e)) < 3 * standard_error
    True
    """
    points = check_points(sample, "sample", min_rows=2)
    terms = -_own(points, source, _log_density, split, folds).mean(0)
    return Functional.like(sample, terms.mean(-1), _variance(terms))


def fisher_information(
    sample: Any,
    source: Method | Field,
    *,
    form: Form = "one-step",
    split: Split = "balanced",
    folds: int = 5,
) -> Functional:
    """Fisher information E |s|^2 of the location, s = grad log f.

    The plug-in form of the paper, ``square``, is the mean of |s|^2.  An error e of the score moves it by
    2 E s.e + E |e|^2.  Since E_f div(s + e) = -E_f s.(s + e) (integration by parts), the mean of

        -|s|^2 - 2 div s,

    ``one-step``, is moved by -E |e|^2 only: errors count in second order.  It is minus the loss of
    score matching.

    Parameters
    ----------
    sample : (..., n, d)
    source : Method or Field
    form : "one-step" or "square"
        The first needs the divergence of the score: d derivatives by autograd, unless the field has a
        closed form (kernel density estimates do).
    split : "none", "folds" or "balanced"
    folds : int

    >>> from discoformer.priors import gaussian
    >>> normal = gaussian(torch.zeros(2).double(), 4 * torch.eye(2).double())
    >>> x = normal.sample(1000, torch.Generator().manual_seed(0))
    >>> value, standard_error = fisher_information(x, normal)
    >>> bool(abs(value - 0.5) < 3 * standard_error)
    True
    """
    if form not in get_args(Form):
        raise DataError(f"form={form!r} is unknown: use {_either(Form)}")
    points = check_points(sample, "sample", min_rows=2)
    ask = _one_step if form == "one-step" else _squared_score
    terms = _own(points, source, ask, split, folds).mean(0)
    return Functional.like(sample, terms.mean(-1), _variance(terms))


def kl_divergence(
    first: Any,
    second: Any,
    source: Method | Field,
    second_source: Method | Field | None = None,
    *,
    split: Split = "folds",
    folds: int = 5,
) -> Functional:
    """Kullback-Leibler divergence KL(f|g) = E_f [log f - log g], in nats, from two samples.

    The standard error counts both samples, var_f(log f/g) / n + var_g(f/g) / m; the second only where g is
    estimated from it.

    Parameters
    ----------
    first : (..., n, d), the sample of f
    second : (..., m, d), the sample of g
    source : Method or Field of f
    second_source : Method or Field of g
        May be left out where ``source`` is a method: then it is fitted to both samples.
    split, folds : how f is estimated at its own sample; g is fitted to all of ``second``.

    >>> import numpy as np
    >>> from discoformer import KDE
    >>> x = np.random.default_rng(0).normal(size=(2, 1000, 1))
    >>> value, standard_error = kl_divergence(x[0], x[1], KDE())
    >>> abs(value) < 3 * standard_error
    True
    """
    x, y, f, g = _pair(first, second, source, second_source)
    g_field = _field(g, y)
    terms = (_own(x, f, _log_density, split, folds) - _log_density(g_field, x)).mean(0)
    variance = _variance(terms)
    if isinstance(g, Method):
        log_ratio = _log_density(_field(f, x), y) - _log_density(g_field, y)
        variance = variance + _variance(_finite_exp(log_ratio))
    return Functional.like(first, terms.mean(-1), variance)


def relative_fisher_information(
    first: Any,
    second: Any,
    source: Method | Field,
    second_source: Method | Field | None = None,
    *,
    split: Split = "folds",
    folds: int = 5,
) -> Functional:
    """Relative Fisher information I(f|g) = E_f |grad log f - grad log g|^2 from two samples.

    The score of g is asked at the sample of f.  The standard error counts both samples; that of f only where
    g is a field that is there already, or where a density is not known (a score alone).

    Parameters
    ----------
    first : (..., n, d), the sample of f
    second : (..., m, d), the sample of g
    source : Method or Field of f
    second_source : Method or Field of g
        May be left out where ``source`` is a method: then it is fitted to both samples.
    split : "none", "folds" or "balanced"
    folds : int

    >>> from discoformer.priors import gaussian
    >>> f, g = (gaussian(torch.full((1,), c).double(), torch.eye(1).double()) for c in (0.0, 3.0))
    >>> x, y = f.sample(100), g.sample(100)
    >>> round(float(relative_fisher_information(x, y, f, g).value), 9)
    9.0
    """
    x, y, f, g = _pair(first, second, source, second_source)
    g_field = _field(g, y)
    difference = _own(x, f, _score, split, folds) - _score(g_field, x)
    terms = difference.square().sum(-1).mean(0)
    variance = _variance(terms)
    with torch.no_grad():
        f_field = _field(f, x)
        if isinstance(f, Method):
            square, flow = _gap_and_flow(f_field, g_field, _some_rows(x))
            variance = (square - 2 * flow).var(-1) / x.shape[-2]
        if isinstance(g, Method):
            variance = variance + _variance_by_second(f_field, g_field, y)
    return Functional.like(first, terms.mean(-1), variance)


def jensen_shannon(
    first: Any,
    second: Any,
    source: Method | Field,
    second_source: Method | Field | None = None,
    *,
    split: Split = "folds",
    folds: int = 5,
) -> Functional:
    """Jensen-Shannon divergence, in nats: 0 for equal densities, log 2 for disjoint ones.

    Parameters
    ----------
    first : (..., n, d), the sample of f
    second : (..., m, d), the sample of g
    source : Method or Field of f
    second_source : Method or Field of g
        May be left out where ``source`` is a method: then it is fitted to both samples.
    split, folds : how each density is estimated at its own sample.

    >>> import numpy as np
    >>> from discoformer import KDE
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> value, _ = jensen_shannon(x, x + 100, KDE())
    >>> abs(value - math.log(2)) < 1e-12
    True
    """
    x, y, f, g = _pair(first, second, source, second_source)
    sides = []
    for points, own, other in ((x, f, _field(g, y)), (y, g, _field(f, x))):
        log_own = _own(points, own, _log_density, split, folds)
        log_mean = torch.logaddexp(log_own, _log_density(other, points)) - math.log(2)
        sides.append((log_own - log_mean).mean(0))
    value = (sides[0].mean(-1) + sides[1].mean(-1)) / 2
    return Functional.like(first, value, (_variance(sides[0]) + _variance(sides[1])) / 4)


def mutual_information(
    first: Any,
    second: Any,
    source: Method | Field,
    marginals: tuple[Method | Field, Method | Field] | None = None,
    *,
    split: Split = "balanced",
    folds: int = 5,
) -> Functional:
    """Mutual information of the paired columns (..., n, d1) and (..., n, d2), in nats.

    Parameters
    ----------
    first, second : (..., n, d1) and (..., n, d2); row by row one draw of the pair
    source : Method or Field of the joint density, columns of ``first`` before those of ``second``
    marginals : Method or Field of each part
        May be left out where ``source`` is a method: then it is fitted to the parts as well.
    split, folds : how the densities are estimated at their own samples.

    >>> import numpy as np
    >>> from discoformer import KDE
    >>> x, y = np.random.default_rng(0).normal(size=(2, 500, 1))
    >>> dependent, independent = (mutual_information(x, z, KDE()).value for z in (x + 0.1 * y, y))
    >>> dependent > 1, abs(independent) < 0.1
    (True, True)
    """
    x = check_points(first, "first sample", min_rows=2)
    y = check_points(second, "second sample", min_rows=2).to(x)
    if x.shape[:-1] != y.shape[:-1]:
        raise DataError(
            f"the samples have shapes {tuple(x.shape)} and {tuple(y.shape)}: "
            "mutual information needs pairs, as many rows in the one as in the other"
        )
    if marginals is None:
        marginals = (_needs_method(source), _needs_method(source))
    joint, *parts = (
        _own(points, own, _log_density, split, folds)
        for points, own in ((torch.cat([x, y], -1), source), (x, marginals[0]), (y, marginals[1]))
    )
    # Exact fields answer once, methods once or twice: broadcasting takes care of it.
    terms = (joint - parts[0] - parts[1]).mean(0)
    return Functional.like(first, terms.mean(-1), _variance(terms))


@runtime_checkable
class _LeavesOneOut(Protocol):
    def loo_log_density(self) -> Tensor: ...


@runtime_checkable
class _KnowsDivergence(Protocol):
    def score_divergence(self, queries: Tensor) -> Tensor: ...


def _own(points: Tensor, source: Method | Field, ask: Ask, split: Split, folds: int) -> Tensor:
    """What ``source`` answers at its own sample, (passes, ..., n) or (passes, ..., n, d).

    One pass, or two for ``balanced``: seen points and points held out.
    """
    if split not in get_args(Split):
        raise DataError(f"split={split!r} is unknown: use {_either(Split)}")
    if isinstance(source, Field):
        return ask(source, points).unsqueeze(0)
    if split == "loo":
        return _leave_one_out(source.fit(points), ask).unsqueeze(0)
    passes = []
    if split != "folds":
        passes.append(ask(source.fit(points), points))
    if split != "none":
        passes.append(_cross_fit(points, source, ask, folds))
    return torch.stack(passes)


def _cross_fit(points: Tensor, method: Method, ask: Ask, folds: int) -> Tensor:
    rows = points.shape[-2]
    if not 2 <= folds <= rows:
        raise DataError(
            f"{rows} row(s) do not make {folds} folds: use between 2 and the number of rows, or split='none'"
        )
    order = _shuffled(points)
    answers = []
    for fold in range(folds):
        rest = torch.cat([order[k::folds] for k in range(folds) if k != fold])
        answers.append(ask(method.fit(points[..., rest, :]), points[..., order[fold::folds], :]))
    back = torch.cat([order[fold::folds] for fold in range(folds)]).argsort()
    axis = points.ndim - 2
    return torch.cat(answers, axis).index_select(axis, back)


def _leave_one_out(field: Field, ask: Ask) -> Tensor:
    if ask is not _log_density or not isinstance(field, _LeavesOneOut):
        what = "the score" if ask is not _log_density else type(field).__name__
        raise DataError(f"split='loo' is not there for {what}: use split='folds'")
    return field.loo_log_density()


def _log_density(field: Field, points: Tensor) -> Tensor:
    return field.log_density(points)


def _score(field: Field, points: Tensor) -> Tensor:
    return field.score(points)


def _squared_score(field: Field, points: Tensor) -> Tensor:
    return field.score(points).square().sum(-1)


def _one_step(field: Field, points: Tensor) -> Tensor:
    """-|s|^2 - 2 div s, (..., m)."""
    score, divergence = _score_and_divergence(field, points)
    return -score.square().sum(-1) - 2 * divergence


def _score_and_divergence(field: Field, points: Tensor) -> tuple[Tensor, Tensor]:
    """Score (..., m, d) and its divergence (..., m), in closed form or by autograd, a block at a time."""
    if isinstance(field, _KnowsDivergence):
        return field.score(points), field.score_divergence(points)
    tracked = torch.is_grad_enabled() and points.requires_grad
    scores, divergences = [], []
    for block in points.split(_CHUNK, -2):
        with torch.enable_grad():
            queries = block if tracked else block.detach().requires_grad_()
            score = field.score(queries)
            # Queries do not see one another: the gradient of the sum holds every query's own derivative.
            divergence = torch.zeros_like(score[..., 0])
            for column in range(points.shape[-1]):
                total = score[..., column].sum()
                (slope,) = torch.autograd.grad(total, queries, retain_graph=True, create_graph=tracked)
                divergence = divergence + slope[..., column]
        scores.append(score if tracked else score.detach())
        divergences.append(divergence if tracked else divergence.detach())
    return torch.cat(scores, -2), torch.cat(divergences, -1)


def _gap_and_flow(f: Field, g: Field, points: Tensor) -> tuple[Tensor, Tensor]:
    """|u|^2 and w = div(f u) / f = div u + u.s_f, both (..., m), with u = s_f - s_g.

    A change df of the density f moves the relative Fisher information by the integral of
    (|u|^2 - 2 w) df, a change dg of g by that of 2 w (f/g) dg (integration by parts).
    """
    (score_f, divergence_f), (score_g, divergence_g) = (_score_and_divergence(h, points) for h in (f, g))
    gap = score_f - score_g
    return gap.square().sum(-1), divergence_f - divergence_g + (gap * score_f).sum(-1)


def _variance_by_second(f: Field, g: Field, second: Tensor) -> Tensor:
    """What the sample of g adds to the variance of the relative Fisher information, (...)."""
    rows = _some_rows(second)
    log_f, log_g = f.estimate(rows).log_density, g.estimate(rows).log_density
    if log_f is None or log_g is None:
        return second.new_zeros(())
    _, flow = _gap_and_flow(f, g, rows)
    return (2 * flow * _finite_exp(log_f - log_g)).var(-1) / second.shape[-2]


def _finite_exp(log_ratio: Tensor) -> Tensor:
    """exp, cut off where its square would not be finite."""
    return log_ratio.clamp(max=math.log(torch.finfo(log_ratio.dtype).max) / 4).exp()


def _some_rows(points: Tensor) -> Tensor:
    """At most `_SPREAD_ROWS` of the rows."""
    return points[..., _shuffled(points)[:_SPREAD_ROWS], :]


def _shuffled(points: Tensor) -> Tensor:
    """Numbers of the rows in random order, because data may be sorted or periodic; always the same one."""
    order = torch.randperm(points.shape[-2], generator=torch.Generator().manual_seed(0))
    return order.to(points.device)


def _pair(
    first: Any, second: Any, source: Method | Field, second_source: Method | Field | None
) -> tuple[Tensor, Tensor, Method | Field, Method | Field]:
    x = check_points(first, "first sample", min_rows=2)
    y = check_points(second, "second sample", min_rows=2).to(x)
    if x.shape[-1] != y.shape[-1]:
        raise DataError(
            f"the samples have {x.shape[-1]} and {y.shape[-1]} column(s): give the same columns of both"
        )
    return x, y, source, _needs_method(source) if second_source is None else second_source


def _needs_method(source: Method | Field) -> Method:
    if not isinstance(source, Method):
        raise DataError("one field cannot stand for several densities: give a field for each, or a method")
    return source


def _field(source: Method | Field, points: Tensor) -> Field:
    return source if isinstance(source, Field) else source.fit(points)


def _variance(terms: Tensor) -> Tensor:
    """Variance (...) of the mean over the last axis."""
    return terms.var(-1) / terms.shape[-1]


def _either(kind: Any) -> str:
    return " or ".join(map(repr, get_args(kind)))

"""Entropy, Fisher information, mutual information: means over a sample of its own density and score.

    entropy                      H(f)    = -E_f log f
    Fisher information           I(f)    =  E_f |grad log f|^2
    mutual information           MI(x,y) =  E [log f(x,y) - log f(x) - log f(y)]

The default of ``split`` (see `discoformer.functionals.splits`) is ``balanced``.  It was chosen by the error
of kernel estimates and maximum likelihood mixtures in 1 and 10 dimensions; `discoformer reproduce
entropy_fisher` measures it next to the plug-in estimate of the paper.  Standard errors, sqrt(var(term) / n),
tell how much the value varies with the sample, not how far off the method is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from discoformer.core.checks import DataError, check_points
from discoformer.core.fields import Field, Method, as_density
from discoformer.functionals.splits import (
    Functional,
    Source,
    Split,
    at_own_sample,
    either,
    log_density_of,
    needs_method,
    one_step_of,
    squared_score_of,
    variance_of_mean,
)

__all__ = [
    "conditional_mutual_information",
    "entropy",
    "fisher_information",
    "mutual_information",
    "total_correlation",
]

Form = Literal["one-step", "square"]


def entropy(sample: Any, source: Source, *, split: Split = "balanced", folds: int = 5) -> Functional:
    """Differential entropy -E log f, in nats.

    Parameters
    ----------
    sample : (..., n, d)
    source : Method or Field
        What estimates log f; a field is asked as it is, whatever ``split`` says.
    split : "none", "folds", "balanced" or "loo"
    folds : int

    >>> import math
    >>> import numpy as np
    >>> from discoformer import KDE
    >>> x = np.random.default_rng(0).normal(size=(500, 1))
    >>> value, standard_error = entropy(x, KDE())
    >>> abs(value - 0.5 * math.log(2 * math.pi * math.e)) < 3 * standard_error
    True
    """
    points = check_points(sample, "sample", min_rows=2)
    terms = -at_own_sample(points, source, log_density_of, split, folds).mean(0)
    return Functional.like(sample, terms.mean(-1), variance_of_mean(terms))


def fisher_information(
    sample: Any,
    source: Source,
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
        raise DataError(f"form={form!r} is unknown: use {either(Form)}")
    points = check_points(sample, "sample", min_rows=2)
    ask = one_step_of if form == "one-step" else squared_score_of
    terms = at_own_sample(points, source, ask, split, folds).mean(0)
    return Functional.like(sample, terms.mean(-1), variance_of_mean(terms))


def mutual_information(
    first: Any,
    second: Any,
    source: Source,
    marginals: tuple[Source, Source] | Literal["joint"] | None = None,
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
        May be left out where ``source`` is a method: then it is fitted to the parts as well.  "joint"
        takes those of the joint density: better where a part lies close to a curve, whose own density is
        hard to find and cancels.
    split, folds : how the densities are estimated at their own samples.

    >>> import numpy as np
    >>> from discoformer import KDE
    >>> x, y = np.random.default_rng(0).normal(size=(2, 500, 1))
    >>> dependent, independent = (mutual_information(x, z, KDE()).value for z in (x + 0.1 * y, y))
    >>> dependent > 1, abs(independent) < 0.1
    (True, True)
    """
    x, y = _paired(first, second)
    if marginals == "joint":
        return _within(first, torch.cat([x, y], -1), x.shape[-1], source, split, folds)
    parts = [x, y] if marginals is None else [(x, marginals[0]), (y, marginals[1])]
    return _combine(first, source, [torch.cat([x, y], -1)], parts, split, folds)


def conditional_mutual_information(
    first: Any, second: Any, given: Any, source: Method, *, split: Split = "balanced", folds: int = 5
) -> Functional:
    """Mutual information of two parts given a third, E log f(x,y,z) f(z) / (f(x,z) f(y,z)), in nats.

    Parameters
    ----------
    first, second, given : (..., n, d1), (..., n, d2) and (..., n, d3); row by row one draw of all
    source : a method, which is fitted to all of them and to the parts
    split, folds : how the densities are estimated at their own samples.

    >>> import numpy as np
    >>> from discoformer import KDE
    >>> z, a, b = np.random.default_rng(0).normal(size=(3, 500, 1))
    >>> abs(conditional_mutual_information(z + a, z + b, z, KDE()).value) < 0.15  # dependent through z alone
    True
    """
    x, y = _paired(first, second)
    z = _paired(first, given)[1]
    joined, below = [torch.cat([x, y, z], -1), z], [torch.cat([x, z], -1), torch.cat([y, z], -1)]
    return _combine(first, source, joined, below, split, folds)


def total_correlation(
    sample: Any, source: Method, *, split: Split = "balanced", folds: int = 5
) -> Functional:
    """How far columns are from independent, E log f(x) / (f(x_1) ... f(x_d)), in nats.

    Parameters
    ----------
    sample : (..., n, d)
    source : a method, which is fitted to all columns and to each
    split, folds : how the densities are estimated at their own samples.

    >>> import numpy as np
    >>> from discoformer import KDE
    >>> x = np.random.default_rng(0).normal(size=(500, 2))
    >>> abs(total_correlation(x, KDE()).value) < 0.1
    True
    """
    points = check_points(sample, "sample", min_rows=2)
    return _combine(sample, source, [points], list(points.split(1, -1)), split, folds)


def _within(like: Any, points: Tensor, cut: int, source: Source, split: Split, folds: int) -> Functional:
    """Mutual information of the columns before and after ``cut``, by the margins of the joint density."""
    parts = list(range(cut)), list(range(cut, points.shape[-1]))

    def log_ratio(field: Field, queries: Tensor) -> Tensor:
        density = as_density(field)
        own = [density.marginal(part).log_density(queries[..., part]) for part in parts]
        return density.log_density(queries) - own[0] - own[1]

    terms = at_own_sample(points, source, log_ratio, split, folds).mean(0)
    return Functional.like(like, terms.mean(-1), variance_of_mean(terms))


Part = Tensor | tuple[Tensor, Source]


def _combine(
    like: Any, source: Source, joined: Sequence[Part], parts: Sequence[Part], split: Split, folds: int
) -> Functional:
    """Mean of the sum of log densities of what is joined, minus those of the parts.

    Exact fields answer once, methods once or twice: broadcasting takes care of it.
    """

    def log_density(part: Part) -> Tensor:
        points, own = part if isinstance(part, tuple) else (part, needs_method(source))
        return at_own_sample(points, own, log_density_of, split, folds)

    whole = [(part, source) if isinstance(part, Tensor) else part for part in joined]
    terms = sum(map(log_density, whole)) - sum(map(log_density, parts))
    assert isinstance(terms, Tensor)
    terms = terms.mean(0)
    return Functional.like(like, terms.mean(-1), variance_of_mean(terms))


def _paired(first: Any, second: Any) -> tuple[Tensor, Tensor]:
    x = check_points(first, "first sample", min_rows=2)
    y = check_points(second, "second sample", min_rows=2).to(x)
    if x.shape[:-1] != y.shape[:-1]:
        raise DataError(
            f"the samples have shapes {tuple(x.shape)} and {tuple(y.shape)}: "
            "mutual information needs pairs, as many rows in the one as in the other"
        )
    return x, y

"""Entropy, Fisher information, mutual information: means over a sample of its own density and score.

    entropy                      H(f)    = -E_f log f
    Fisher information           I(f)    =  E_f |grad log f|^2
    mutual information           MI(x,y) =  E [log f(x,y) - log f(x) - log f(y)]

By default (see `discoformer.functionals.splits`) the value is halfway between two: one by the fit to all
rows, the other with each row held out of its fit.  Standard errors, sqrt(var(term) / n), say how much the
value varies with the sample, not how far off the method is.  With ``weights`` (..., n), rows count by weight,
in the fits and in the means.  Arrays with counts or repeated values are fitted as such by a network that can
(`discoformer.functionals.columns`): values with a mass then enter an entropy by their probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from discoformer.core.checks import DataError, check_points
from discoformer.core.fields import Field, Method, as_density
from discoformer.functionals.columns import for_kinds_of
from discoformer.functionals.splits import (
    Functional,
    Known,
    Rows,
    Source,
    Split,
    at_own_sample,
    either,
    log_density_of,
    needs_method,
    one_step_of,
    source_of,
    squared_score_of,
)

__all__ = [
    "conditional_mutual_information",
    "entropy",
    "fisher_information",
    "mutual_information",
    "total_correlation",
]

Form = Literal["one-step", "square"]


def entropy(
    sample: Any, source: Source, *, weights: Any = None, split: Split | None = None, folds: int = 5
) -> Functional:
    """Differential entropy -E log f, in nats.

    Parameters
    ----------
    sample : (..., n, d)
    source : what estimates log f
        A method or its name, such as "default", which is fitted to the sample; or a field or a fitted
        `DiScoFormer`, which are evaluated as they are, whatever ``split`` says.
    weights : (..., n), optional
    split : "none", "folds", "balanced" or "loo", optional
    folds : int

    >>> import math
    >>> import numpy as np
    >>> from discoformer import KDE
    >>> x = np.random.default_rng(0).normal(size=(500, 1))
    >>> value, standard_error = entropy(x, KDE())
    >>> abs(value - 0.5 * math.log(2 * math.pi * math.e)) < 3 * standard_error
    True
    """
    rows = Rows.check(sample, weights)
    terms = -at_own_sample(
        rows, for_kinds_of(source_of(source), rows.points), log_density_of, split, folds
    ).mean(0)
    return Functional.like(sample, rows.mean(terms), rows.variance_of_mean(terms))


def fisher_information(
    sample: Any,
    source: Source,
    *,
    weights: Any = None,
    form: Form = "one-step",
    split: Split = "balanced",
    folds: int = 5,
) -> Functional:
    """Fisher information E |s|^2 of the location, s = grad log f.

    The plug-in form of the paper, ``square``, is the mean of |s|^2.  An error e of the score moves it by
    2 E s.e + E |e|^2.  Since E_f div(s + e) = -E_f s.(s + e) (integration by parts), the mean of

        -|s|^2 - 2 div s,

    ``one-step``, is moved by -E |e|^2 only: errors count only to second order.  It is minus the loss of
    score matching.

    Parameters
    ----------
    sample : (..., n, d)
    source : as for `entropy`
    weights : (..., n), optional
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
    rows = Rows.check(sample, weights)
    ask = one_step_of if form == "one-step" else squared_score_of
    terms = at_own_sample(rows, source_of(source), ask, split, folds).mean(0)
    return Functional.like(sample, rows.mean(terms), rows.variance_of_mean(terms))


def mutual_information(
    first: Any,
    second: Any,
    source: Source,
    marginals: tuple[Source, Source] | Literal["joint"] | None = None,
    *,
    weights: Any = None,
    split: Split | None = None,
    folds: int = 5,
) -> Functional:
    """Mutual information of the paired columns (..., n, d1) and (..., n, d2), in nats.

    Parameters
    ----------
    first, second : (..., n, d1) and (..., n, d2); each row is one draw of the pair
    source : of the joint density, as for `entropy`; columns of ``first`` before those of ``second``
    marginals : a pair, the same of each part
        May be left out where ``source`` is a method, which is then fitted to the parts as well.  "joint"
        takes the margins of the joint density.  That is better where a part lies close to a curve: its own
        density is hard to estimate, and cancels.
    weights : (..., n), optional
    split, folds : how the densities are estimated at their own samples.

    >>> import numpy as np
    >>> from discoformer import KDE
    >>> x, y = np.random.default_rng(0).normal(size=(2, 500, 1))
    >>> dependent, independent = (mutual_information(x, z, KDE()).value for z in (x + 0.1 * y, y))
    >>> dependent > 1, abs(independent) < 0.1
    (True, True)
    """
    rows, parts = _beside(weights, first, second)
    if marginals == "joint":
        return _within(first, rows, parts, source_of(source), split, folds)
    own = (None, None) if marginals is None else marginals
    if not isinstance(own, tuple | list) or len(own) != 2:
        raise DataError("marginals: give a pair, one for each part, or 'joint'")
    terms = [(1, parts[0] + parts[1], source), *zip((-1, -1), parts, own, strict=True)]
    return _combine(first, rows, source, terms, split, folds)


def conditional_mutual_information(
    first: Any,
    second: Any,
    given: Any,
    source: str | Method,
    *,
    weights: Any = None,
    split: Split | None = None,
    folds: int = 5,
) -> Functional:
    """Mutual information of two parts given a third, E log f(x,y,z) f(z) / (f(x,z) f(y,z)), in nats.

    Parameters
    ----------
    first, second, given : (..., n, d1), (..., n, d2) and (..., n, d3); each row is one draw of all three
    source : a method or its name, which is fitted to all of them and to the parts
    weights : (..., n), optional
    split, folds : how the densities are estimated at their own samples.

    >>> import numpy as np
    >>> from discoformer import load_model
    >>> z, a, b = np.random.default_rng(0).normal(size=(3, 300, 1))
    >>> found = conditional_mutual_information(z + a, z + b, z, load_model())  # dependent through z alone
    >>> abs(found.value) < 3 * found.standard_error
    True
    """
    rows, (x, y, z) = _beside(weights, first, second, given)
    terms: list[Term] = [(1, x + y + z, None), (1, z, None), (-1, x + z, None), (-1, y + z, None)]
    return _combine(first, rows, source, terms, split, folds)


def total_correlation(
    sample: Any, source: str | Method, *, weights: Any = None, split: Split | None = None, folds: int = 5
) -> Functional:
    """How far columns are from independent, E log f(x) / (f(x_1) ... f(x_d)), in nats.

    Parameters
    ----------
    sample : (..., n, d)
    source : a method or its name, which is fitted to all columns and to each
    weights : (..., n), optional
    split, folds : how the densities are estimated at their own samples.

    >>> import numpy as np
    >>> from discoformer import KDE
    >>> x = np.random.default_rng(0).normal(size=(500, 2))
    >>> abs(total_correlation(x, KDE()).value) < 0.1
    True
    """
    rows = Rows.check(sample, weights)
    columns = list(range(rows.points.shape[-1]))
    terms: list[Term] = [(1, columns, None), *((-1, [j], None) for j in columns)]
    return _combine(sample, rows, source, terms, split, folds)


def _within(
    like: Any, rows: Rows, parts: Sequence[list[int]], source: Known, split: Split | None, folds: int
) -> Functional:
    """Mutual information of two sets of columns, by the margins of the joint density."""

    def log_ratio(field: Field, queries: Tensor) -> Tensor:
        density = as_density(field)
        own = [density.marginal(part).log_density(queries[..., part]) for part in parts]
        return density.log_density(queries) - own[0] - own[1]

    terms = at_own_sample(rows, source, log_ratio, split, folds).mean(0)
    return Functional.like(like, rows.mean(terms), rows.variance_of_mean(terms))


Term = tuple[
    int, list[int], Source | None
]  # sign, columns, and what knows their density: None for the method


def _combine(
    like: Any, rows: Rows, source: Source, terms: Sequence[Term], split: Split | None, folds: int
) -> Functional:
    """Mean of a signed sum of log densities, each of some columns.

    Fields answer in one pass, methods in one or two: broadcasting takes care of it.
    """
    total: Tensor | float = 0.0
    known = source_of(source)
    for sign, columns, own in terms:
        who = needs_method(known) if own is None else source_of(own)
        own_rows = rows.select(columns)
        who = for_kinds_of(who, own_rows.points)
        total = total + sign * at_own_sample(own_rows, who, log_density_of, split, folds)
    assert isinstance(total, Tensor)
    total = total.mean(0)
    return Functional.like(like, rows.mean(total), rows.variance_of_mean(total)).checked("the information")


def _beside(weights: Any, *parts: Any) -> tuple[Rows, list[list[int]]]:
    """Parts whose rows belong together, joined into one sample, and the columns of each."""
    names = ("first sample", "second sample", "what is given")
    checked = [check_points(part, name, min_rows=2) for part, name in zip(parts, names, strict=False)]
    joined, columns = checked[0], [list(range(checked[0].shape[-1]))]
    for part in checked[1:]:
        if part.shape[:-1] != joined.shape[:-1]:
            raise DataError(
                f"the samples have shapes {tuple(joined.shape)} and {tuple(part.shape)}: "
                "mutual information needs pairs, as many rows in the one as in the other"
            )
        columns.append(list(range(joined.shape[-1], joined.shape[-1] + part.shape[-1])))
        joined = torch.cat([joined, part.to(joined)], -1)
    return Rows.check(joined, weights), columns

"""What a density or a score says at its own sample, and how to correct its optimism there.

**In-sample bias.** At the points it was fitted to, a method is overconfident.  At points it has not seen, it
is underconfident.  ``split`` says what to do about it:

============  ==========================================================================================
``none``      fit to all points and ask at the same points: the plug-in estimate of the paper
``folds``     fit to the other folds, ask at the points held out (cross-fitting); folds are random
              with a fixed seed, so that the answer is the same every time
``balanced``  the mean of the two: with maximum likelihood, the optimism of the one and the pessimism
              of the other are equal to first order, and cancel
``loo``       the fit without each point, in closed form: log densities of mixtures and kernel estimates
============  ==========================================================================================

By default nothing is fitted again where leaving one out has a closed form.  Where a density is averaged at
its own sample (`entropy`, `mutual_information`), the value is the mean of ``none`` and ``loo``, whose biases
cancel as those of ``balanced`` do.  Where two densities are compared at the same points, it is ``loo``: then
neither has seen them, and their errors cancel where f and g are alike.  Other methods, and all functionals of
the score, take ``balanced`` in the first case and ``folds`` in the second.
`discoformer reproduce entropy_fisher` measures ``balanced`` next to the plug-in estimate of the paper.

**Weights.** A sample with weights is fitted with them, and means over it are weighted.  For draws of
importance sampling or of a nested sampler, the answers are those of the distribution that the weights aim at.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

import torch
from torch import Tensor

from discoformer.core.checks import DataError, check_points, check_weights, show_cell
from discoformer.core.fields import Density, Field, Method, as_point_density

__all__ = [
    "Functional",
    "ImpossibleWarning",
    "Rows",
    "Source",
    "Split",
    "at_own_sample",
    "either",
    "field_of",
    "log_density_of",
    "needs_method",
    "one_step_of",
    "score_and_divergence",
    "score_of",
    "shuffled",
    "squared_score_of",
]

Split = Literal["none", "folds", "balanced", "loo"]
"""How a functional corrects for evaluating a fit at points that it has seen."""

Source = Method | Field
Ask = Callable[[Field, Tensor], Tensor]
_ERRORS = 2.0  # an estimate this many standard errors below zero is called impossible
_CHUNK = 1024  # points at a time where autograd keeps a graph for the divergence of the score


class ImpossibleWarning(UserWarning):
    """An estimate has a value that its own error bar calls impossible."""

    __module__ = "discoformer.functionals"  # where users import it from


class Functional(NamedTuple):
    """An estimate and its standard error.

    Floats for one sample, arrays (...) for a batch; tensors (...) if the sample was a tensor.
    """

    value: Any
    standard_error: Any

    @classmethod
    def like(cls, sample: Any, value: Tensor, variance: Tensor) -> Functional:
        """Value (...) and the root of its variance (...), as tensors if ``sample`` is one, else numbers."""
        numbers = (value, variance.sqrt())
        if isinstance(sample, Tensor):
            return cls(*numbers)
        return cls(*(n.item() if n.ndim == 0 else n.detach().cpu().numpy() for n in numbers))

    def interval(self, share: float = 0.9) -> tuple[Any, Any]:
        """Ends (...) of the interval that holds the truth with this probability, if the error is chance.

        >>> [round(end, 3) for end in Functional(1.0, 0.1).interval(0.9)]
        [0.836, 1.164]
        """
        if not 0 < share < 1:
            raise DataError(f"an interval with share {share}: give one between 0 and 1")
        width = NormalDist().inv_cdf((1 + share) / 2) * self.standard_error
        return self.value - width, self.value + width

    def checked(self, what: str) -> Functional:
        """Itself, with a warning if it is more than two standard errors below zero, where it cannot be."""
        value, error = (torch.as_tensor(part).detach() for part in self)
        wrong = value < -_ERRORS * error
        if bool(wrong.any()):
            found, its_error = value[wrong].flatten()[0], error[wrong].flatten()[0]
            warnings.warn(
                f"{what} comes out at {float(found):.3g} +- {float(its_error):.2g} and cannot be below zero: "
                "look for copies of rows, for rows of one sample made from the other, for values that repeat "
                "in columns taken as continuous, and for samples too small for so many columns",
                ImpossibleWarning,
                stacklevel=3,
            )
        return self


class Rows(NamedTuple):
    """A sample (..., n, d) with weights (..., n) that sum to one; None if all rows count the same."""

    points: Tensor
    weights: Tensor | None = None

    @classmethod
    def check(cls, sample: Any, weights: Any = None, name: str = "sample") -> Rows:
        """Rows from what a user gives, checked."""
        points = check_points(sample, name, min_rows=2)
        return cls(points, check_weights(weights, points))

    def fit(self, method: Method) -> Field:
        """The method, fitted to the rows with their weights."""
        return method.fit(self.points, self.weights)

    def take(self, rows: Tensor) -> Rows:
        """Some of the rows; their weights sum to one again, unless all are zero."""
        weights = None if self.weights is None else self.weights[..., rows]
        if weights is not None:
            weights = weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)
        return Rows(self.points[..., rows, :], weights)

    def select(self, columns: Sequence[int]) -> Rows:
        """Some of the columns."""
        return Rows(self.points[..., list(columns)], self.weights)

    def mean(self, terms: Tensor) -> Tensor:
        """Mean (...) of one term per row (..., n)."""
        return terms.mean(-1) if self.weights is None else (self.weights.to(terms) * terms).sum(-1)

    def variance_of_mean(self, terms: Tensor) -> Tensor:
        """Variance (...) of that mean."""
        if self.weights is None:
            return terms.var(-1) / terms.shape[-1]
        share = self.weights.to(terms)
        square = (share * (terms - self.mean(terms).unsqueeze(-1))).square().sum(-1)
        return square / (1 - share.square().sum(-1))


@runtime_checkable
class _KnowsDivergence(Protocol):
    def score_divergence(self, queries: Tensor) -> Tensor: ...


def at_own_sample(
    rows: Rows, source: Source, ask: Ask, split: Split | None, folds: int, usual: Split = "balanced"
) -> Tensor:
    """What ``source`` answers at its own sample, (passes, ..., n) or (passes, ..., n, d).

    One pass, or two for ``balanced``: with the points seen, and with them held out.  Without a ``split`` it
    is ``usual``, and points are held out one by one where that has a closed form.
    """
    check_source(source)
    if split is not None and split not in get_args(Split):
        raise DataError(f"split={split!r} is unknown: use {either(Split)}")
    if isinstance(source, Field):
        return ask(source, rows.points).unsqueeze(0)
    if split is None:
        split = usual
        if ask is log_density_of and isinstance(field := rows.fit(source), Density):
            seen = [ask(field, rows.points)] if usual == "balanced" else []
            return torch.stack([*seen, field.left_out(*rows)])
    if split == "loo":
        return _leave_one_out(rows.fit(source), rows, ask).unsqueeze(0)
    passes = []
    if split != "folds":
        passes.append(ask(rows.fit(source), rows.points))
    if split != "none":
        passes.append(_cross_fit(rows, source, ask, folds))
    return torch.stack(passes)


def _cross_fit(rows: Rows, method: Method, ask: Ask, folds: int) -> Tensor:
    count, axis = rows.points.shape[-2], rows.points.ndim - 2
    if not 2 <= folds <= count:
        raise DataError(
            f"{count} row(s) do not make {folds} folds: use between 2 and the number of rows, or split='none'"
        )
    order = shuffled(rows.points)
    answers = []
    for fold in range(folds):
        rest = torch.cat([order[k::folds] for k in range(folds) if k != fold])
        held_out = rows.points[..., order[fold::folds], :]
        answers.append(ask(rows.take(rest).fit(method), held_out))
    back = torch.cat([order[fold::folds] for fold in range(folds)]).argsort()
    return torch.cat(answers, axis).index_select(axis, back)


def _leave_one_out(field: Field, rows: Rows, ask: Ask) -> Tensor:
    if ask is not log_density_of or not isinstance(field, Density):
        what = "the score" if ask is not log_density_of else type(field).__name__
        raise DataError(f"split='loo' does not work for {what}: use split='folds'")
    return field.left_out(*rows)


def log_density_of(field: Field, points: Tensor) -> Tensor:
    return as_point_density(field).log_density(points)


def score_of(field: Field, points: Tensor) -> Tensor:
    return field.score(points)


def squared_score_of(field: Field, points: Tensor) -> Tensor:
    return field.score(points).square().sum(-1)


def one_step_of(field: Field, points: Tensor) -> Tensor:
    """-|s|^2 - 2 div s, (..., m)."""
    score, divergence = score_and_divergence(field, points)
    return -score.square().sum(-1) - 2 * divergence


def score_and_divergence(field: Field, points: Tensor) -> tuple[Tensor, Tensor]:
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


def shuffled(points: Tensor) -> Tensor:
    """Row numbers in a random order that is always the same; the data may be sorted or periodic."""
    order = torch.randperm(points.shape[-2], generator=torch.Generator().manual_seed(0))
    return order.to(points.device)


def check_source(source: Any) -> None:
    """Refuse what is neither a method nor a field: names, estimators, and classes."""
    if not isinstance(source, Method | Field):
        what = show_cell(source) if isinstance(source, str | type) else f"a {type(source).__name__}"
        raise DataError(
            f"the density is {what}: pass a method such as load_model('default') or KDE(), or a fitted "
            "field such as field_ of an estimator"
        )


def field_of(source: Source, rows: Rows) -> Field:
    check_source(source)
    return source if isinstance(source, Field) else rows.fit(source)


def either(kind: Any) -> str:
    return " or ".join(map(repr, get_args(kind)))


def needs_method(source: Source) -> Method:
    check_source(source)
    if not isinstance(source, Method):
        raise DataError("one field cannot stand for several densities: give a field for each, or a method")
    return source

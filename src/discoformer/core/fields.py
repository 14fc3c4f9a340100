"""The spine: a method turns a sample into a field, a field answers at query points.

    field = method.fit(context)                     # context (..., n, d)
    log_density, score = field.estimate(queries)    # (..., m), (..., m, d)

Its type says what a field can do:

==============  ==================================================================================
`Field`         knows the score, the gradient of the log density: score matching, Stein estimators
`PointDensity`  knows the log density too, point by point: attention networks, flows
`Density`       is a distribution in full: it can be sampled, and has margins, conditionals, a
                distribution function and quantiles: mixtures, kernel estimates
==============  ==================================================================================

NumPy arrays go in, NumPy arrays come out; tensors stay tensors, on their device and in their graph.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.core.checks import DataError, check_context, check_points, check_weights, holds

__all__ = [
    "Density",
    "Estimate",
    "Field",
    "HasField",
    "Method",
    "PointDensity",
    "as_density",
    "as_field",
    "as_point_density",
]

A = TypeVar("A", NDArray[np.float64], Tensor)


class Estimate(NamedTuple, Generic[A]):
    """Log density (..., m) and score, its gradient, (..., m, d) at the query points."""

    log_density: A
    score: A


class Field(ABC):
    """Something that knows the gradient of a log density.

    Subclasses implement `_score` on tensors; callers use `score`.
    """

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of columns d of the points this field is defined on."""

    @property
    def support(self) -> list[int]:
        """Columns that the answers depend on: all, unless some were left out of the fit."""
        return list(range(self.dim))

    @abstractmethod
    def _score(self, queries: Tensor) -> Tensor:
        """Score (..., m, d) at checked queries (..., m, d)."""

    def score(self, queries: A) -> A:
        """Gradient of the log density (..., m, d) at ``queries`` (..., m, d)."""
        points = as_points(queries, self.dim)
        score = self._score(points)
        _refuse_lost(points, ~score.detach().isfinite().all(-1))
        return _in_kind(score, queries)

    def __repr__(self) -> str:
        return f"{type(self).__name__} in {self.dim} column(s)"


class PointDensity(Field):
    """A field that knows the log density, too.

    Subclasses implement `_estimate` on tensors; callers use `estimate`, `log_density`, `score`.
    """

    @abstractmethod
    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        """Answer at checked queries (..., m, d)."""

    def _score(self, queries: Tensor) -> Tensor:
        return self._estimate(queries).score

    def estimate(self, queries: A) -> Estimate[A]:
        """Log density (..., m) and score (..., m, d) at ``queries`` (..., m, d).

        Minus infinity is a legal log density where the score is zero: there is no mass, as outside bounds.
        """
        points = as_points(queries, self.dim)
        log_density, score = self._estimate(points)
        density, gradient = log_density.detach(), score.detach()
        empty = density.isneginf() & (gradient == 0).all(-1)
        _refuse_lost(points, ~(density.isfinite() & gradient.isfinite().all(-1) | empty))
        return Estimate(_in_kind(log_density, queries), _in_kind(score, queries))

    def log_density(self, queries: A) -> A:
        """Log density (..., m) at ``queries`` (..., m, d)."""
        return self.estimate(queries).log_density


class Density(PointDensity):
    """A distribution in full: every question about it has an answer in closed form."""

    @property
    def gaps(self) -> bool:
        """Whether rows may have gaps, NaN: the density is then that of what is there."""
        return False

    @abstractmethod
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n points: (..., n, d)."""

    @abstractmethod
    def marginal(self, columns: Sequence[int]) -> Density:
        """The density of some of the columns, in the order given."""

    @abstractmethod
    def conditional(self, columns: Sequence[int], values: Any) -> Density:
        """The density of the other columns given ``values`` (..., k) of ``columns``."""

    def conditional_log_density(self, columns: Sequence[int], queries: A) -> A:
        """Log density (..., m) of the other columns given ``columns``, each row by its own values of them.

        ``queries`` (..., m, d) hold all columns: log f(x, y) - log f(x), all rows in one batch.
        """
        self._check_columns(columns)
        if len(columns) == self.dim:
            raise DataError("every column is given, none is left: leave at least one out")
        points = as_points(queries, self.dim)
        joint = self.log_density(points)
        given = self.marginal(columns).log_density(points[..., list(columns)])
        if holds(given.isneginf()):
            row = int(given.isneginf().nonzero()[0, -1])
            raise DataError(f"what is given at row {row} has no density: give values inside the bounds")
        return _in_kind(joint - given, queries)

    @abstractmethod
    def cdf(self, queries: Any) -> Tensor:
        """Distribution function (..., m) of one column, at queries (..., m, 1); has no gradient."""

    @abstractmethod
    def quantile(self, shares: Any) -> Tensor:
        """Where the distribution function (..., m) of one column is ``shares`` (..., m): (..., m, 1)."""

    def complete(self, rows: Tensor, which: Tensor, chance: Callable[[int], Tensor]) -> Tensor:
        """Rows (n, d) with their gaps, NaN, drawn given the rest of the row: (m, d), one per ``which``.

        ``which`` (m,) are numbers of rows; what rows say is asked once, however often they are drawn.
        ``chance(k)`` gives numbers (m, k) between 0 and 1 that the draws come from.
        """
        raise DataError(
            f"{type(self).__name__} knows nothing of gaps: fit a mixture network such as 'default' "
            "to a sample that has some"
        )

    @abstractmethod
    def left_out(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """Log density (..., n) at every row of the sample under the fit without that row; in closed form.

        ``rows`` (..., n, d) are those of the sample, with their ``weights`` (..., n), if it had any.
        """

    @abstractmethod
    def transform(self, matrix: Tensor, shift: Tensor) -> Density:
        """The law of x matrix + shift, matrix (..., d, e) of rank e and shift (..., 1, e)."""

    def blurred(self, noise: Tensor) -> Density | None:
        """The density through normal noise of covariance ``noise`` (d, d); None if it has no closed form.

        What rests on the sample stays known: `left_out` answers as before.
        """
        return None

    def moments(self) -> tuple[Tensor, Tensor] | None:
        """Mean (..., d) and covariance (..., d, d); None if they have no closed form."""
        return None

    def _check_columns(self, columns: Sequence[int]) -> None:
        wrong = [c for c in columns if not 0 <= c < self.dim]
        if wrong or len(set(columns)) != len(columns) or not columns:
            raise DataError(f"columns {list(columns)}: give distinct numbers from 0 to {self.dim - 1}")

    def _check_one_column(self, what: str) -> None:
        if self.dim != 1:
            raise DataError(f"{what} needs one column, not {self.dim}: take a marginal")


class Method(ABC):
    """Turns a sample into a `Field`.  Subclasses implement `_fit` on tensors."""

    @abstractmethod
    def _fit(self, context: Tensor, weights: Tensor | None) -> Field:
        """Fit to a checked context (..., n, d) and weights (..., n) that sum to one."""

    def fit(self, context: Any, weights: Any = None) -> Field:
        """Fit to a sample.

        Parameters
        ----------
        context : array or tensor (..., n, d)
            The sample; leading dimensions are a batch of samples.
        weights : array or tensor (..., n), optional
            Non-negative sample weights.
        """
        points = check_context(context)
        if points is context:  # what the caller does to it later changes nothing
            points = points.clone()
        share = check_weights(weights, points)
        try:
            return self._fit(points, share)
        except DataError as error:
            raise (error if points.ndim == 2 else self._of_sample(points, share, error)) from None

    def _of_sample(self, points: Tensor, weights: Tensor | None, error: DataError) -> DataError:
        """The error of a batch (..., n, d) with the number of the first sample that has one by itself."""
        for index in np.ndindex(points.shape[:-2]):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    self._fit(points[index], None if weights is None else weights[index])
            except DataError as own:
                return DataError(f"sample {', '.join(map(str, index))}: {own}")
        return error

    def pads(self, rows: int, size: int, dim: int) -> bool:
        """Whether a sample may be filled up to ``size`` rows by copies without weight: no answer changes.

        Samples of different sizes are then digested in one batch.
        """
        return rows == size

    def for_few_rows(self) -> Method:
        """The method to use when a sample has few rows per column; by default this one."""
        return self


@runtime_checkable
class HasField(Protocol):
    """A fitted estimator, such as `DiScoFormer`: its field is all that is asked of it."""

    field_: Field


def as_field(source: Field | HasField) -> Field:
    """The field of a fitted estimator, or the field itself; `DataError` for anything else."""
    field = source.field_ if isinstance(source, HasField) else source
    if not isinstance(field, Field):
        raise DataError(f"a {type(source).__name__} is no density: fit a DiScoFormer first")
    return field


def as_point_density(field: Field) -> PointDensity:
    """The field, if it knows a log density; `DataError` if it knows the score only."""
    if not isinstance(field, PointDensity):
        raise DataError(f"{type(field).__name__} estimates the score only: use score_function")
    return field


def as_density(field: Field) -> Density:
    """The field, if it is a distribution in full; `DataError` if it cannot be sampled or conditioned."""
    if not isinstance(field, Density):
        raise DataError(
            f"{type(field).__name__} answers at points only, it cannot be sampled, conditioned or "
            "integrated: use a mixture model such as 'default'"
        )
    return field


def as_points(queries: Any, dim: int) -> Tensor:
    """Queries (..., m, d) as a floating tensor; anything else is a `DataError`.

    Whether they are finite shows in the answers, which are checked: `_refuse_lost`.
    """
    if type(queries) is np.ndarray and queries.dtype in (np.float64, np.float32):
        queries = torch.from_numpy(np.require(queries, requirements=["C", "W"]))
    plain = isinstance(queries, Tensor) and queries.dtype in (torch.float64, torch.float32)
    if plain and queries.ndim > 1 and queries.shape[-1] == dim and queries.shape[-2]:
        return cast(Tensor, queries)
    return check_points(queries, "queries", dim=dim)


def _refuse_lost(points: Tensor, lost: Tensor) -> None:
    """Raise `DataError` where an answer is lost (..., m): its query was not finite, or too far away."""
    if holds(lost):
        check_points(points, "queries")
        row = int(lost.nonzero()[0, -1])
        raise DataError(
            f"no finite answer at row {row} ({int(lost.sum())} such in all), too far from the sample: "
            "check the units of the points"
        )


def _in_kind(tensor: Tensor, like: A) -> A:
    """A tensor in its type for tensors (half precision cannot hold every answer), an array for arrays."""
    if isinstance(like, Tensor) and like.is_floating_point():
        return tensor.to(torch.promote_types(like.dtype, torch.float32))
    if isinstance(like, Tensor):
        return tensor
    return cast("A", tensor.detach().cpu().numpy())

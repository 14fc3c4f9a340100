"""Methods and fields of the harness: cached fits, and known answers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import torch
from torch import Tensor

from discoformer.core.fields import Estimate, Field, Method, PointDensity, as_point_density

__all__ = ["Cached", "KnownAnswers", "fit_density"]


def fit_density(method: Method, sample: Tensor) -> PointDensity:
    """A method's fit to a sample (n, d); `DataError` if it knows only the score."""
    return as_point_density(method.fit(sample))


class Cached(Method):
    """A method that remembers its last fits.

    Parameters
    ----------
    method : Method
    fits : how many it remembers
    answers : whether each fit also remembers its last answer

    >>> from discoformer import KDE
    >>> cached, x = Cached(KDE()), torch.tensor([[0.0], [1.0]])
    >>> cached.fit(x) is cached.fit(x.clone())
    True
    """

    def __init__(self, method: Method, fits: int = 1, *, answers: bool = False) -> None:
        self.method = method
        self.answers = answers
        self._last: deque[tuple[Tensor, Field]] = deque(maxlen=fits)

    def _fit(self, context: Tensor, weights: Tensor | None) -> Field:
        if weights is not None:
            return self.method.fit(context, weights)
        for known, field in self._last:
            if torch.equal(known, context):
                return field
        field = self.method.fit(context)
        if self.answers:
            field = _CachedDensity(as_point_density(field))
        self._last.append((context, field))
        return field


class _CachedDensity(PointDensity):
    """A density that remembers its last answer, without its autograd graph."""

    def __init__(self, field: PointDensity) -> None:
        self.field = field
        self._last: tuple[Tensor, Estimate[Tensor]] | None = None

    @property
    def dim(self) -> int:
        return self.field.dim

    @torch.no_grad()
    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        if self._last is None or not torch.equal(self._last[0], queries):
            self._last = (queries, self.field.estimate(queries))
        return self._last[1]


@dataclass(frozen=True)
class KnownAnswers(PointDensity):
    """Exact answers at some points, and nowhere else."""

    truth: Estimate[Tensor]

    @property
    def dim(self) -> int:
        return self.truth.score.shape[-1]

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        return self.truth

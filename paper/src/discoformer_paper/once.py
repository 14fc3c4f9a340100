"""Fits and answers that are asked for again and again are made once."""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor

from discoformer.core.fields import Estimate, Field, Method

__all__ = ["Once"]


class Once(Method):
    """A method that remembers its last fits.

    Parameters
    ----------
    method : Method
    fits : how many it remembers
    answers : whether each fit remembers its last answer too

    >>> from discoformer import KDE
    >>> once, x = Once(KDE()), torch.tensor([[0.0], [1.0]])
    >>> once.fit(x) is once.fit(x.clone())
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
            field = _Remembers(field)
        self._last.append((context, field))
        return field


class _Remembers(Field):
    """A field that remembers its last answer; the answer has no graph."""

    def __init__(self, field: Field) -> None:
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

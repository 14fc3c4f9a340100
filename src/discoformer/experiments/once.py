"""Fits that are asked for again and again are made once."""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor

from discoformer.fields import Field, Method

__all__ = ["Once"]


class Once(Method):
    """A method that remembers its last fits.

    Parameters
    ----------
    method : Method
    fits : how many it remembers

    >>> from discoformer import KDE
    >>> once, x = Once(KDE()), torch.tensor([[0.0], [1.0]])
    >>> once.fit(x) is once.fit(x.clone())
    True
    """

    def __init__(self, method: Method, fits: int = 1) -> None:
        self.method = method
        self._last: deque[tuple[Tensor, Field]] = deque(maxlen=fits)

    def _fit(self, context: Tensor, weights: Tensor | None) -> Field:
        if weights is not None:
            return self.method.fit(context, weights)
        for known, field in self._last:
            if torch.equal(known, context):
                return field
        field = self.method.fit(context)
        self._last.append((context, field))
        return field

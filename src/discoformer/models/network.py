"""A core in a frame: the networks as methods.

A core works in normalized coordinates and knows nothing of the data's units.  `Network` puts it in a frame:
normalize the context, digest it once, and push the answer back by the exact change of variables.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from discoformer.core.checks import check_context, check_untracked, check_weights
from discoformer.core.composed import push
from discoformer.core.fields import Estimate, Field, Method, PointDensity, as_point_density
from discoformer.core.frames import FRAMES

__all__ = ["Network", "TorchMethod"]


class TorchMethod(nn.Module, Method):
    """A method that is a torch module: it digests a context once, to be read anywhere."""

    @property
    def dtype(self) -> torch.dtype:
        """Floating type of the weights, and of the arithmetic."""
        return next(self.parameters()).dtype

    def encode(self, context: Tensor, weights: Tensor | None = None) -> PointDensity:
        """Digest a context (..., n, d) once, to be read at any number of queries."""
        points = check_context(context).to(self.dtype)
        return as_point_density(self._fit(points, check_weights(weights, points)))

    def read(self, field: PointDensity, queries: Tensor) -> Estimate[Tensor]:
        """Log density (..., m) and score (..., m, d) at ``queries`` (..., m, d)."""
        return field.estimate(queries)

    def forward(self, context: Tensor, queries: Tensor, weights: Tensor | None = None) -> Estimate[Tensor]:
        """`encode` and `read` in one call."""
        return self.read(self.encode(context, weights), queries)

    @abstractmethod
    def _fit(self, context: Tensor, weights: Tensor | None) -> Field: ...


class Network(TorchMethod):
    """A core in a frame.

    Parameters
    ----------
    core : a torch module
    frame : name of a frame in `discoformer.core.frames.FRAMES`
    """

    def __init__(self, core: nn.Module, frame: str) -> None:
        super().__init__()
        self.core: Any = core
        self.frame_name = frame
        self.frame = FRAMES[frame]

    def for_few_rows(self) -> Network:
        """The same core in a frame that needs only some spread in every column."""
        return type(self)(self.core, "standardize") if self.frame_name in ("whiten", "canonical") else self

    @abstractmethod
    def digest(self, points: Tensor, weights: Tensor | None) -> Field:
        """What the core makes of normalized points (..., n, d), as a field in the same coordinates."""

    def _fit(self, context: Tensor, weights: Tensor | None) -> Field:
        check_untracked(weights)
        context = context.to(self.dtype)
        weights = None if weights is None else weights.to(self.dtype)
        frame = self.frame.fit(context, weights)
        return push(self.digest(frame.normalize(context), weights), [frame])

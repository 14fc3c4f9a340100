"""A core in a frame: the networks as methods of the spine.

A core works in normalized coordinates and knows nothing of the data's units.  `Network` puts it in
a frame: normalize the context, `encode` it once, `read` at normalized queries, and carry the answer
back by the exact change of variables.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from discoformer.core.checks import check_context, check_untracked, check_weights
from discoformer.core.fields import Estimate, Field, Method
from discoformer.core.frames import FRAMES, Frame

if TYPE_CHECKING:
    from discoformer.models.mixture.stream import Stream

__all__ = ["Core", "Network", "NetworkField", "TorchMethod"]


class Core(Protocol):
    """What a network computes in normalized coordinates.

    A core may name a richer ``field_type`` than `NetworkField` for what it returns.
    """

    def encode(self, points: Tensor, weights: Tensor | None = None) -> Any:
        """Digest a normalized context (..., n, d) into a state."""
        ...

    def read(self, state: Any, queries: Tensor) -> Estimate[Tensor]:
        """Answer at normalized queries (..., m, d)."""
        ...


@dataclass(frozen=True)
class NetworkField(Field):
    """An encoded context: the frame it was normalized by and the core's state."""

    frame: Frame
    core: Core
    state: Any

    @property
    def dim(self) -> int:
        return self.frame.matrix.shape[-1]

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        points = queries.to(self.frame.center.dtype)
        inside = self.core.read(self.state, self.frame.normalize(points))
        log_density, score = self.frame.denormalize_estimate(inside)
        return Estimate(
            None if log_density is None else log_density.to(queries.dtype), score.to(queries.dtype)
        )


class TorchMethod(nn.Module, Method):
    """A method of the spine that is a torch module: it digests a context once, to be read anywhere."""

    @property
    def dtype(self) -> torch.dtype:
        """Floating type of the weights, and of the arithmetic."""
        return next(self.parameters()).dtype

    def encode(self, context: Tensor, weights: Tensor | None = None) -> NetworkField:
        """Digest a context (..., n, d) once, to be read at any number of queries."""
        points = check_context(context).to(self.dtype)
        return self._fit(points, check_weights(weights, points))

    def read(self, field: NetworkField, queries: Tensor) -> Estimate[Tensor]:
        """Log density (..., m) and score (..., m, d) at ``queries`` (..., m, d)."""
        return field.estimate(queries)

    def forward(self, context: Tensor, queries: Tensor, weights: Tensor | None = None) -> Estimate[Tensor]:
        """`encode` and `read` in one call."""
        return self.read(self.encode(context, weights), queries)

    @abstractmethod
    def _fit(self, context: Tensor, weights: Tensor | None) -> NetworkField: ...


class Network(TorchMethod):
    """A core in a frame.

    Parameters
    ----------
    core : a torch module with `encode` and `read`
    frame : name of a frame in `discoformer.core.frames.FRAMES`
    """

    def __init__(self, core: nn.Module, frame: str) -> None:
        super().__init__()
        self.core: Any = core
        self.frame_name = frame
        self.frame = FRAMES[frame]

    def for_few_rows(self) -> Network:
        """The same core in the frame that asks for nothing but a spread in every column."""
        return Network(self.core, "standardize") if self.frame_name == "whiten" else self

    def _fit(self, context: Tensor, weights: Tensor | None) -> NetworkField:
        check_untracked(weights)
        context = context.to(self.dtype)
        weights = None if weights is None else weights.to(self.dtype)
        frame = self.frame.fit(context, weights)
        return self._field(frame, self.core.encode(frame.normalize(context), weights))

    @property
    def streams(self) -> bool:
        """Whether the core can `fit_stream`."""
        return hasattr(self.core, "digest")

    @torch.no_grad()
    def fit_stream(self, stream: Stream) -> NetworkField:
        """Fit to a sample that is not in memory, by passes over it."""
        state = self.core.digest(stream.inside(self.frame_name, self.dtype))
        return self._field(stream.frame(self.frame_name).to(self.dtype), state.map(lambda t: t.squeeze(0)))

    def _field(self, frame: Frame, state: Any) -> NetworkField:
        kind: type[NetworkField] = getattr(self.core, "field_type", NetworkField)
        return kind(frame, self.core, state)

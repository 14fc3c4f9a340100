"""The mixture core as a method: what it returns is a closed-form density, and holds no network."""

from __future__ import annotations

import torch
from torch import Tensor

from discoformer.core.fields import Density
from discoformer.core.pushforward import push
from discoformer.models.mixture.streamed import StreamedSample
from discoformer.models.mixture.student import StudentMixture
from discoformer.models.network import Network
from discoformer.scale.stream import Stream, StreamingMethod

__all__ = ["MixtureNetwork"]


class MixtureNetwork(Network, StreamingMethod):
    """A `MixtureCore` in a frame.

    Examples
    --------
    >>> from discoformer.models.mixture.core import MixtureConfig, MixtureCore
    >>> core = MixtureCore(MixtureConfig(layers=1, width=8, heads=2, slots=3))
    >>> MixtureNetwork(core, "whiten").fit(torch.randn(50, 2)).marginal([1]).dim
    1
    """

    def digest(self, points: Tensor, weights: Tensor | None) -> StudentMixture:
        mixture: StudentMixture = self.core.encode(points, weights)
        return mixture

    @torch.no_grad()
    def fit_stream(self, stream: Stream) -> Density:
        """Fit to a sample that is not in memory, by passes over it."""
        mixture: StudentMixture = self.core.digest(StreamedSample(stream, self.frame_name, self.dtype))
        frame = stream.frame(self.frame_name).to(self.dtype)
        return push(mixture.map(lambda t: t.squeeze(0)), [frame])

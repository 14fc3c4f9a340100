"""Attention heads that are also Gaussian kernels, and the local likelihood they give."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

__all__ = ["KernelHeads", "Local"]


class Local(NamedTuple):
    """Local likelihood under the kernels of a layer, one per head.

    Attributes
    ----------
    log_density : (..., heads, m)
    score, shift : (..., heads, m, d), the shift leads from a point to the mean of the points under its kernel
    """

    log_density: Tensor
    score: Tensor
    shift: Tensor


class KernelHeads(nn.Module):
    """The Gaussian kernels of a layer, one bandwidth h per head, as further columns of its attention.

    With [x / h^2, -1 / 2h^2] beside a query and [y, |y|^2] beside a key the logits gain
    -|x - y|^2 / 2h^2 up to a term of x alone; with [y, y^2] beside a value the output holds local moments.
    Distances are between places.  In the first layer these are the points; in later layers they are where the
    head's mean shift has led them, so that layer by layer a kernel closes in on one cluster.
    """

    def __init__(self, dim: int, heads: int, width: int, layer: int) -> None:
        super().__init__()
        spread = torch.logspace(-1, 0, heads) * dim**0.5
        self.log_bandwidth = nn.Parameter((spread if layer == 0 else spread / 2).log())
        self.follow = nn.Parameter(torch.ones(heads)) if layer > 0 else None
        self.log_prior = nn.Parameter(torch.zeros(heads))  # points that h^2 counts for in a variance
        nu = max(20.0, 2.0 * dim)  # degrees of freedom of the tails: squared distances are about d
        self.log_nu = nn.Parameter(torch.full((heads,), math.log(nu)))
        self.density = nn.Linear(heads, width, bias=False)
        self.moments = nn.Linear(3 * heads * dim, width, bias=False)

    @property
    def bandwidth(self) -> Tensor:
        """(heads, 1, 1)."""
        return self.log_bandwidth.exp()[:, None, None]

    def remember(self, keys: Tensor, values: Tensor, points: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Widen keys and values (..., heads, n, c) at points (..., n, d) to c + 2d columns."""
        shape = (*keys.shape[:-1], points.shape[-1])
        point, place = points.unsqueeze(-3).expand(shape), places.expand(shape)
        key = torch.cat([keys, place, place.square().sum(-1, keepdim=True)], -1)
        value = torch.cat([values, point, point.square()], -1)
        return _fill(key, value.shape[-1]), value

    def ask(self, query: Tensor, places: Tensor, scale: float) -> Tensor:
        """Widen queries (..., heads, m, c) like the keys; ``scale`` multiplies all logits later."""
        dim = places.shape[-1]
        precision = 1 / (scale * self.bandwidth.square())
        column = (places * precision).expand(*query.shape[:-1], dim)
        lifted = torch.cat([query, column, (-0.5 * precision).expand(*query.shape[:-1], 1)], -1)
        return _fill(lifted, query.shape[-1] + 2 * dim)

    def forward(
        self, moments: Tensor, normalizers: Tensor, points: Tensor, places: Tensor, log_total: Tensor
    ) -> tuple[Tensor, Local]:
        """What the stream (..., m, width) gains from local moments (..., heads, m, 2d), and the estimates.

        Where a kernel holds few points, their variance is shrunk towards h^2, and the score towards that of
        the kernel estimate.  Tails are Student's: far from the points of a kernel, the score of a Gaussian
        fitted to part of a cluster would grow without bound.
        """
        mean, second = moments.chunk(2, -1)
        square = self.bandwidth.square()
        log_kernel = normalizers - 0.5 * (places.square().sum(-1) / square.squeeze(-1))
        known = torch.sigmoid(log_kernel + log_total - self.log_prior.unsqueeze(-1)).unsqueeze(-1)
        variance = torch.lerp(square, (second - mean.square()).clamp_min(0), known) + 1e-4 * square
        shift = mean - points.unsqueeze(-3)
        score = shift / variance
        distance = (shift * score).sum(-1)  # squared, in units of the variance
        nu, dim = self.log_nu.exp().unsqueeze(-1), points.shape[-1]
        score = score * ((nu + dim) / (nu + distance)).unsqueeze(-1)
        log_tail = 0.5 * (nu + dim) * torch.log1p(distance / nu)
        log_density = log_kernel - 0.5 * variance.log().sum(-1) - log_tail
        seen = torch.cat([shift / self.bandwidth, score, variance.log()], -1)
        gain: Tensor = self.density(log_density.mT) + self.moments(seen.transpose(-3, -2).flatten(-2))
        return gain, Local(log_density, score, shift)


def _fill(tensor: Tensor, columns: int) -> Tensor:
    """Fill up with zeros: the fused kernels need queries, keys and values of the same width."""
    return nn.functional.pad(tensor, (0, columns - tensor.shape[-1]))

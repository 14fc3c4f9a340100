"""The data's own axes, as they lie in whitened coordinates."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.core.transforms import Frame

__all__ = ["Axes"]


class Axes(NamedTuple):
    """The linear map u = z K from a frame's coordinates z to standardized columns u; a batch (B) leads.

    A covariance C of z is K' C K in the columns' own coordinates, and a matrix D there is G' D G here.

    Attributes
    ----------
    matrix, inverse : (B, d, d), K and G = K^-1
    log_det : (B,), log|det K|

    Examples
    --------
    >>> axes = Axes.between(*(Frame(*[torch.full((1, 1, 1), x)] * 3, torch.ones(1)) for x in (1.0, 1.0)))
    >>> axes.diagonal(torch.full((1, 2, 1, 1), 3.0)).flatten().tolist()
    [3.0, 3.0]
    """

    matrix: Tensor
    inverse: Tensor
    log_det: Tensor

    @classmethod
    def between(cls, frame: Frame, standard: Frame) -> Axes:
        """From a frame's coordinates to those of the frame that standardizes the same sample."""
        return cls(
            frame.inverse @ standard.matrix,
            standard.inverse @ frame.matrix,
            standard.log_det - frame.log_det,
        )

    def flat(self) -> Axes:
        """The same with one leading dimension, or none made one."""
        dim = self.matrix.shape[-1]
        square = (-1, dim, dim)
        return Axes(self.matrix.reshape(square), self.inverse.reshape(square), self.log_det.reshape(-1))

    def to(self, dtype: torch.dtype) -> Axes:
        """The same in another precision."""
        return Axes(*(tensor.to(dtype) for tensor in self))

    def diagonal(self, covariance: Tensor) -> Tensor:
        """Variances along the axes (B, M, d), the diagonal of K' C K, of covariances (B, M, d, d)."""
        turned = (covariance.flatten(1, 2) @ self.matrix).view_as(covariance)
        return (self.matrix.unsqueeze(1) * turned).sum(-2).clamp_min(0)

    def along(self, variance: Tensor) -> Tensor:
        """Covariances (B, M, d, d) with the given variances (B, M, d) along the axes: G' diag(v) G."""
        left = self.inverse.mT.unsqueeze(1) * variance.unsqueeze(-2)  # (B, M, d, d)
        return (left.flatten(1, 2) @ self.inverse).view_as(left)

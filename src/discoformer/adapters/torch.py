"""A fitted density as a `torch.distributions.Distribution`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from discoformer.adapters.fitted import density_of
from discoformer.core.checks import DataError
from discoformer.core.fields import Density
from discoformer.core.moving import is_tracked, moved

__all__ = ["TorchDensity", "to_torch"]

_FAR, _NODES = 7.5, 241  # of the integrals over quantiles, in normal scores


class TorchDensity(Distribution):
    """A density of d columns: the event has shape (d,).

    `log_prob` has gradients with respect to the points.  A fitted density has no parameters, so `rsample` is
    `sample`: there is nothing to differentiate by.  Where the sample that it was fitted to is differentiated,
    there is no `rsample`: the component that a point comes from is a discrete choice.

    Parameters
    ----------
    density : of one sample
    batch_shape : independent copies, as `expand` makes them
    """

    arg_constraints: dict[str, constraints.Constraint] = {}
    support = constraints.real_vector

    def __init__(self, density: Density, batch_shape: torch.Size | tuple[int, ...] = ()) -> None:
        self.density = density
        self.has_rsample = not is_tracked(density)
        super().__init__(torch.Size(batch_shape), torch.Size([density.dim]), validate_args=False)

    def expand(self, batch_shape: Any, _instance: Any = None) -> TorchDensity:
        """Independent copies of the same law."""
        return TorchDensity(self.density, torch.Size(batch_shape))

    @torch.no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Points, of shape ``(*sample_shape, *batch_shape, d)``, by torch's own random numbers."""
        shape = self._extended_shape(torch.Size(sample_shape))
        return self.density.sample(max(1, shape[:-1].numel())).reshape(shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Points as of `sample`, where the density is not differentiated itself."""
        if not self.has_rsample:
            raise NotImplementedError("draws have no derivative by the sample that a density is fitted to")
        return self.sample(sample_shape)

    @property
    def mean(self) -> Tensor:
        """Of every column, ``(*batch_shape, d)``: the integral of its quantiles."""
        return self._moments[0].expand(self._extended_shape())

    @property
    def variance(self) -> Tensor:
        """Of every column, ``(*batch_shape, d)``."""
        return self._moments[1].expand(self._extended_shape())

    @property
    def _moments(self) -> tuple[Tensor, Tensor]:
        z = torch.linspace(-_FAR, _FAR, _NODES, dtype=torch.float64)  # shares are Phi(z): tails count
        share, weight = torch.special.ndtr(z), (-0.5 * z.square()).softmax(0)
        # in double precision: shares so near to one are one in single
        density = moved(self.density, torch.float64)
        columns = [density.marginal([j]).quantile(share) for j in range(density.dim)]
        quantiles = torch.cat(columns, -1)  # (nodes, d)
        mean = weight.to(quantiles) @ quantiles
        return mean, weight.to(quantiles) @ (quantiles - mean).square()

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density (...) at value (..., d); -inf outside of bounds."""
        points = self._points(value)
        shape = torch.broadcast_shapes(value.shape[:-1], self.batch_shape)
        return self.density.log_density(points).reshape(value.shape[:-1]).expand(shape)

    def score(self, value: Tensor) -> Tensor:
        """Gradient of the log density (..., d) at value (..., d)."""
        return self.density.score(self._points(value)).reshape(value.shape)

    def _points(self, value: Tensor) -> Tensor:
        dim = self.density.dim
        if value.ndim == 0 or value.shape[-1] != dim:
            raise DataError(
                f"value has shape {tuple(value.shape)}: its last axis must be the {dim} column(s)"
            )
        return value.reshape(-1, dim)

    def cdf(self, value: Tensor) -> Tensor:
        """Distribution function (...) of one column at value (..., 1)."""
        return self.density.cdf(value.reshape(-1, 1)).reshape(value.shape[:-1])

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles (..., 1) of one column at shares (...)."""
        return self.density.quantile(value.reshape(-1)).reshape(*value.shape, 1)


def to_torch(fitted: Any) -> TorchDensity:
    """A fitted density as a distribution of torch.

    Parameters
    ----------
    fitted : a fitted `DiScoFormer`, or a `Density` of one sample

    Examples
    --------
    >>> from discoformer import KDE
    >>> law = to_torch(KDE().fit([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]))
    >>> law.sample((4, 2)).shape, law.log_prob(torch.zeros(4, 2)).shape
    (torch.Size([4, 2, 2]), torch.Size([4]))
    """
    density = density_of(fitted)
    with torch.no_grad():
        batch = density.sample(1).shape[:-2]
    if batch:
        raise DataError(f"the density is a batch {tuple(batch)} of densities: fit one sample")
    return TorchDensity(density)

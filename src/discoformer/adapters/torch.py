"""A fitted density as a `torch.distributions.Distribution`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, biject_to, constraints
from torch.distributions.transforms import Transform

from discoformer.adapters.fitted import constraints_of, density_of
from discoformer.core.checks import DataError
from discoformer.core.fields import Density
from discoformer.core.moving import is_tracked, moved

__all__ = ["TorchDensity", "normal_shares", "to_torch"]

_FAR, _NODES = 7.5, 241  # of the integrals over quantiles, in normal scores


def normal_shares() -> tuple[Tensor, Tensor]:
    """Nodes (k,) and weights (k,) of an integral over shares, dense in the tails: they are Phi of a grid.

    >>> share, weight = normal_shares()
    >>> round(float(weight @ share), 9)
    0.5
    """
    z = torch.linspace(-_FAR, _FAR, _NODES, dtype=torch.float64)
    return torch.special.ndtr(z), (-0.5 * z.square()).softmax(0)


class TorchDensity(Distribution):
    """A density of d columns: the event has shape (d,).

    `log_prob` has gradients with respect to the points, draws carry none: `rsample` is `sample`.  Where the
    sample that the density was fitted to is differentiated, there is no `rsample`: the component that a point
    comes from is a discrete choice.

    Parameters
    ----------
    density : of one sample
    batch_shape : independent copies, as `expand` makes them
    """

    arg_constraints: dict[str, constraints.Constraint] = {}

    def __init__(self, density: Density, batch_shape: torch.Size | tuple[int, ...] = ()) -> None:
        self.density = density
        self.has_rsample = not is_tracked(density)
        super().__init__(torch.Size(batch_shape), torch.Size([density.dim]), validate_args=False)

    @property
    def support(self) -> constraints.Constraint:
        """Where the density has mass: within the bounds of the fit."""
        columns = constraints_of(self.density, constraints)
        return constraints.real_vector if columns is None else _Within(columns)

    def expand(self, batch_shape: Any, _instance: Any = None) -> TorchDensity:
        """Independent copies of the same law."""
        return TorchDensity(self.density, torch.Size(batch_shape))

    @torch.no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Points, of shape ``(*sample_shape, *batch_shape, d)``, by torch's own random numbers."""
        shape = self._extended_shape(torch.Size(sample_shape))
        rows = shape[:-1].numel()
        return self.density.sample(max(1, rows))[:rows].reshape(shape)

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
        share, weight = normal_shares()
        # in double precision: shares so near to one are one in single
        density = moved(self.density, torch.float64)
        columns = [density.marginal([j]).quantile(share) for j in range(density.dim)]
        quantiles = torch.cat(columns, -1)  # (nodes, d)
        mean = weight.to(quantiles) @ quantiles
        return mean, weight.to(quantiles) @ (quantiles - mean).square()

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density (...) at value (..., d); -inf outside of bounds."""
        found = self.density.log_density(self._points(value)) if value.numel() else value.sum(-1)
        return self._copied(found.reshape(value.shape[:-1]))

    def score(self, value: Tensor) -> Tensor:
        """Gradient of the log density (..., d) at value (..., d)."""
        found = self.density.score(self._points(value)) if value.numel() else value
        return self._copied(found.reshape(value.shape), 1)

    def _copied(self, found: Tensor, event: int = 0) -> Tensor:
        """Answers with ``event`` axes of their own, for every copy of the law."""
        split = found.ndim - event
        batch = torch.broadcast_shapes(found.shape[:split], self.batch_shape)
        return found.expand(*batch, *found.shape[split:])

    def _points(self, value: Tensor) -> Tensor:
        dim = self.density.dim
        if value.ndim == 0 or value.shape[-1] != dim:
            raise DataError(
                f"value has shape {tuple(value.shape)}: its last axis must be the {dim} column(s)"
            )
        return value.reshape(-1, dim)

    def cdf(self, value: Tensor) -> Tensor:
        """Distribution function (...) of one column at value (..., 1)."""
        found = self.density.cdf(self._points(value)) if value.numel() else value
        return self._copied(found.reshape(value.shape[:-1]))

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles (..., 1) of one column at shares (...)."""
        found = self.density.quantile(value.reshape(-1)) if value.numel() else value
        return self._copied(found.reshape(*value.shape, 1), 1)


class _Within(constraints.Constraint):
    """Every column (..., d) within its bounds: unlike `constraints.stack`, one answer for a point."""

    event_dim = 1

    def __init__(self, columns: list[constraints.Constraint]) -> None:
        self.columns = columns

    def check(self, value: Tensor) -> Tensor:
        return torch.stack([own.check(value[..., j]) for j, own in enumerate(self.columns)], -1).all(-1)


class _FromLine(Transform):
    """The line to the bounded columns of (..., d)."""

    domain = constraints.real_vector
    bijective = True

    def __init__(self, within: _Within) -> None:
        super().__init__()
        self.codomain = within
        self.own = [biject_to(column) for column in within.columns]

    def _call(self, x: Tensor) -> Tensor:
        return torch.stack([own(x[..., j]) for j, own in enumerate(self.own)], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return torch.stack([own.inv(y[..., j]) for j, own in enumerate(self.own)], -1)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        both = [own.log_abs_det_jacobian(x[..., j], y[..., j]) for j, own in enumerate(self.own)]
        return torch.stack(both, -1).sum(-1)


biject_to.register(_Within, _FromLine)


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

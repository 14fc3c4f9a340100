"""Priors over distributions: what a network is trained on.

A draw is a batch of independent random distributions that share what must be equal within a batch
(the number of components k, the family, aligned or rotated axes).  All priors are frozen dataclasses
of plain values, so a config file can name one and the header of the weights can record it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Literal

import torch

from discoformer.core.checks import DataError
from discoformer.priors.base import Distribution
from discoformer.priors.draws import (
    Range,
    check_choice,
    check_modes,
    check_number,
    check_range,
    flip,
    log_uniform,
    mixture_weights,
    uniform,
)
from discoformer.priors.location_scale import LocationScaleMixture, random_rotations
from discoformer.priors.warps import Affine, Warped

__all__ = ["AffinePrior", "GMMPrior", "GaussianPrior", "Prior"]


class Prior(ABC):
    """A random distribution over distributions.

    >>> prior = GMMPrior(modes=(1, 3))
    >>> target = prior.draw(4, 2, torch.Generator().manual_seed(0))
    >>> target.batch_shape, target.sample(8).shape
    (torch.Size([4]), torch.Size([4, 8, 2]))
    """

    name: ClassVar[str]

    @abstractmethod
    def _kind(
        self, dim: int, generator: torch.Generator | None, dtype: torch.dtype
    ) -> Callable[[int], Distribution]:
        """Draw what a batch shares; return the function that draws batches of that kind."""

    def draw(
        self,
        batch: int,
        dim: int,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Distribution:
        """Draw ``batch`` independent distributions on R^dim."""
        return self._kind(dim, generator, dtype)(batch)

    def pair(
        self,
        batch: int,
        dim: int,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Distribution, Distribution]:
        """Draw the distribution of the context and an independent one of the same kind for the queries.

        This is the paper's Algorithm 1: both have the same k, and the targets at the queries are those
        of the first.
        """
        return self._pair(batch, dim, generator, dtype)

    def _pair(
        self, batch: int, dim: int, generator: torch.Generator | None, dtype: torch.dtype
    ) -> tuple[Distribution, Distribution]:
        kind = self._kind(dim, generator, dtype)
        return kind(batch), kind(batch)

    def describe(self) -> dict[str, Any]:
        """The name and every field as plain values; `prior_from_config` is the inverse.

        >>> GaussianPrior(spread=1.0).describe()
        {'name': 'gaussian', 'spread': 1.0, 'scale': 1.0, 'anisotropy': 0.5}
        """
        description: dict[str, Any] = {"name": self.name}
        # one's own may be any class
        names: list[str] = [field.name for field in fields(self)] if is_dataclass(self) else []
        description.update({name: _plain(getattr(self, name)) for name in names})
        return description


def _plain(value: Any) -> Any:
    """Priors as their descriptions, tuples as lists."""
    if isinstance(value, Prior):
        return value.describe()
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


@dataclass(frozen=True)
class GMMPrior(Prior):
    """The paper's prior: Gaussian mixtures with one k per batch and means uniform in a cube.

    Parameters
    ----------
    modes : smallest and largest number of components; one k per batch, uniform.
    spread : means are uniform in [-spread, spread]^d.
    scale : range of the uniform scales along the axes of the components.
    reading : whether ``scale`` means standard deviations or variances; the paper leaves it open, and
        standard deviations come closest to its KDE column.
    covariance : axes along the coordinates, rotated at random, or a coin per batch.
    weights : all 1/k, uniform on the simplex (Dirichlet), or a coin per data set.
    """

    name: ClassVar[str] = "gmm"

    modes: tuple[int, int] = (1, 10)
    spread: float = 3.0
    scale: Range = (0.2, 1.0)
    reading: Literal["std", "variance"] = "std"
    covariance: Literal["diagonal", "rotated", "either"] = "diagonal"
    weights: Literal["equal", "dirichlet", "either"] = "equal"

    def __post_init__(self) -> None:
        check_modes(self.modes)
        check_number("spread", self.spread)
        check_range("scale", self.scale)
        check_choice("reading", self.reading, ("std", "variance"))
        check_choice("covariance", self.covariance, ("diagonal", "rotated", "either"))
        check_choice("weights", self.weights, ("equal", "dirichlet", "either"))

    def _kind(
        self, dim: int, generator: torch.Generator | None, dtype: torch.dtype
    ) -> Callable[[int], Distribution]:
        low, high = self.modes
        k = int(torch.randint(low, high + 1, (), generator=generator))
        rotated = self.covariance == "rotated" or (self.covariance == "either" and flip(0.5, generator))
        share = {"equal": 0.0, "dirichlet": 1.0, "either": 0.5}[self.weights]

        def draw(batch: int) -> Distribution:
            scale = uniform((batch, k, dim), self.scale, generator, dtype)
            return LocationScaleMixture(
                weights=mixture_weights(batch, k, share, generator, dtype),
                means=uniform((batch, k, dim), (-self.spread, self.spread), generator, dtype),
                std=scale if self.reading == "std" else scale.sqrt(),
                rotation=random_rotations((batch, k), dim, generator, dtype) if rotated else None,
            )

        return draw


@dataclass(frozen=True)
class GaussianPrior(Prior):
    """Single Gaussians with a random mean and a random full covariance.

    Parameters
    ----------
    spread : means are uniform in [-spread, spread]^d.
    scale : median standard deviation along the principal axes.
    anisotropy : the logarithms of the standard deviations have this standard deviation.
    """

    name: ClassVar[str] = "gaussian"

    spread: float = 3.0
    scale: float = 1.0
    anisotropy: float = 0.5

    def __post_init__(self) -> None:
        check_number("spread", self.spread)
        check_range("scale", (self.scale, self.scale))
        check_number("anisotropy", self.anisotropy)

    def _kind(
        self, dim: int, generator: torch.Generator | None, dtype: torch.dtype
    ) -> Callable[[int], Distribution]:
        def draw(batch: int) -> Distribution:
            spectrum = torch.randn(batch, 1, dim, generator=generator, dtype=dtype)
            return LocationScaleMixture(
                weights=torch.ones(batch, 1, dtype=dtype),
                means=uniform((batch, 1, dim), (-self.spread, self.spread), generator, dtype),
                std=self.scale * torch.exp(self.anisotropy * spectrum),
                rotation=random_rotations((batch, 1), dim, generator, dtype),
            )

        return draw


@dataclass(frozen=True)
class AffinePrior(Prior):
    """Another prior, every data set scaled and shifted by random amounts of many orders of magnitude.

    x -> scale * x + location, one scale per data set and one location per coordinate, both log-uniform
    in absolute value, the sign of the location random.  Both members of a `pair` share the map, or the
    queries would be nowhere near the context.  This is the meta-distribution of the whitening ablation.

    Parameters
    ----------
    base : the prior of x.
    location, scale : ranges, positive.
    """

    name: ClassVar[str] = "affine"

    base: Prior = GMMPrior()
    location: Range = (0.1, 10.0)
    scale: Range = (0.1, 10.0)

    def __post_init__(self) -> None:
        if not isinstance(self.base, Prior):
            raise DataError(f"base = {self.base!r} is not a prior: give its name and fields, {{name: gmm}}")
        check_range("location", self.location)
        check_range("scale", self.scale)

    def _map(self, batch: int, dim: int, generator: torch.Generator | None, dtype: torch.dtype) -> Affine:
        sign = torch.randint(0, 2, (batch, dim), generator=generator, dtype=dtype) * 2 - 1
        return Affine(
            scale=log_uniform((batch, 1), self.scale, generator, dtype).expand(batch, dim),
            shift=sign * log_uniform((batch, dim), self.location, generator, dtype),
        )

    def _kind(
        self, dim: int, generator: torch.Generator | None, dtype: torch.dtype
    ) -> Callable[[int], Distribution]:
        kind = self.base._kind(dim, generator, dtype)
        return lambda batch: Warped(kind(batch), self._map(batch, dim, generator, dtype))

    def _pair(
        self, batch: int, dim: int, generator: torch.Generator | None, dtype: torch.dtype
    ) -> tuple[Distribution, Distribution]:
        context, queries = self.base.pair(batch, dim, generator, dtype)
        affine = self._map(batch, dim, generator, dtype)
        return Warped(context, affine), Warped(queries, affine)

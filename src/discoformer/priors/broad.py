"""The broad prior: mixtures of several families and shapes, skewed and bent, for the default model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from discoformer.core.checks import DataError
from discoformer.priors.base import Distribution
from discoformer.priors.draws import (
    Range,
    check_modes,
    check_number,
    check_probability,
    check_range,
    flip,
    log_uniform,
    mixture_weights,
    uniform,
)
from discoformer.priors.families import Family, Laplace, Logistic, Normal, StudentT
from discoformer.priors.location_scale import LocationScaleMixture, random_rotations
from discoformer.priors.mixture_distribution import MixtureDistribution
from discoformer.priors.prior import GMMPrior, Prior
from discoformer.priors.warps import Banana, Rotated, Skew, Warped

__all__ = ["BroadPrior"]

_VARIATIONS = (
    "spread",
    "spread_variation",
    "scale_variation",
    "anisotropy",
    "skew_strength",
    "banana_strength",
)
_SHARES = ("normal", "student_t", "laplace", "logistic")


@dataclass(frozen=True)
class BroadPrior(Prior):
    """A share of the GMM prior, and otherwise mixtures that vary in every respect.

    Rings, spirals and the quartic (box-like) family are not in it: they stay test families.

    Parameters
    ----------
    gmm, gmm_share : a Gaussian mixture prior, and the probability that a batch comes from it.
    modes : smallest and largest k; log-uniform, because single components with heavy tails or a bend
        are as common in data as many of them.
    spread, spread_variation : means are uniform in a cube of half-width ``spread`` times, per data set,
        a log-normal factor with this standard deviation of the logarithm.
    scale, scale_variation : the same for the scale of each component.
    anisotropy : the logarithms of the scales along the axes of the components have a standard deviation
        that is uniform, per data set, between zero and this.
    normal, student_t, laplace, logistic : shares of the component families, relative to their sum.
    mixed : probability that every component of a batch has a family of its own; otherwise one for all.
    degrees : range of the degrees of freedom of Student's t, log-uniform.
    rotated : probability that a batch has randomly rotated axes; otherwise everything is axis-aligned.
    dirichlet : probability that a data set has unequal weights.
    skew, skew_strength : probability of a skewed batch, and the largest |s| of `Skew`.
    banana, banana_strength : probability of a bent batch, and the largest |b| of `Banana`.  Never with
        Student's t, whose squares have no variance.
    """

    name: ClassVar[str] = "broad"

    gmm: GMMPrior = GMMPrior(covariance="either", weights="either")
    gmm_share: float = 0.5
    modes: tuple[int, int] = (1, 16)
    spread: float = 3.0
    spread_variation: float = 0.7
    scale: float = 0.5
    scale_variation: float = 0.5
    anisotropy: float = 0.9
    normal: float = 0.4
    student_t: float = 0.2
    laplace: float = 0.2
    logistic: float = 0.2
    mixed: float = 0.0
    degrees: Range = (2.5, 30.0)
    rotated: float = 0.5
    dirichlet: float = 0.5
    skew: float = 0.25
    skew_strength: float = 0.6
    banana: float = 0.25
    banana_strength: float = 0.5

    def __post_init__(self) -> None:
        check_modes(self.modes)
        check_range("degrees", self.degrees)
        check_range("scale", (self.scale, self.scale))
        if not isinstance(self.gmm, GMMPrior):
            raise DataError(f"gmm = {self.gmm!r} is not a GMM prior: give its name and fields, {{name: gmm}}")
        for name in ("gmm_share", "mixed", "rotated", "dirichlet", "skew", "banana"):
            check_probability(name, getattr(self, name))
        for name in (*_VARIATIONS, *_SHARES):
            check_number(name, getattr(self, name))
        if not any(getattr(self, name) for name in _SHARES):
            raise DataError("the shares of the families must not all be zero")

    def _kind(
        self, dim: int, generator: torch.Generator | None, dtype: torch.dtype
    ) -> Callable[[int], Distribution]:
        if flip(self.gmm_share, generator):
            return self.gmm._kind(dim, generator, dtype)
        low, high = self.modes
        # A uniform logarithm between low and high + 1, rounded down; the minimum guards against rounding.
        k = min(high, int(log_uniform((), (low, high + 1), generator, torch.float64)))
        # Without mixed families no coin is thrown, so that a seed draws the same as it did without the field.
        mixed = self.mixed > 0 and flip(self.mixed, generator)
        families = [self._family(generator) for _ in range(k if mixed else 1)]
        rotated = flip(self.rotated, generator)
        skewed = flip(self.skew, generator)
        bent = flip(self.banana, generator) and dim > 1
        bent = bent and not any(isinstance(family, StudentT) for family in families)
        source, target = (torch.randperm(dim, generator=generator)[:2].tolist() * 2)[:2]

        def draw(batch: int) -> Distribution:
            mixture = self._mixture(batch, k, dim, families[0], rotated, generator, dtype)
            result: Distribution = _by_component(mixture, families) if mixed else mixture
            # Root mean square of a coordinate: bends and skews are relative to the extent of the data.
            size = (mixture.means.square() + mixture.std.square()).mean((-2, -1)).sqrt()  # (batch,)
            if skewed:
                strength = uniform((batch, dim), (-self.skew_strength, self.skew_strength), generator, dtype)
                result = Warped(result, Skew(strength, size.unsqueeze(-1).expand(batch, dim)))
            if bent:
                strength = uniform((batch,), (-self.banana_strength, self.banana_strength), generator, dtype)
                result = Warped(result, Banana(strength, size, source, target))
            if rotated and (skewed or bent):
                result = Warped(result, Rotated(random_rotations((batch,), dim, generator, dtype)))
            return result

        return draw

    def _family(self, generator: torch.Generator | None) -> Family:
        nu = float(log_uniform((), self.degrees, generator, torch.float64))
        families = (Normal(), StudentT(nu), Laplace(), Logistic())
        shares = torch.tensor([getattr(self, name) for name in _SHARES])
        return families[int(torch.multinomial(shares, 1, generator=generator))]

    def _mixture(
        self,
        batch: int,
        k: int,
        dim: int,
        family: Family,
        rotated: bool,
        generator: torch.Generator | None,
        dtype: torch.dtype,
    ) -> LocationScaleMixture:
        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=generator, dtype=dtype)

        spread = self.spread * torch.exp(self.spread_variation * normal(batch, 1, 1))
        strength = uniform((batch, 1, 1), (0, self.anisotropy), generator, dtype)
        log_std = self.scale_variation * normal(batch, k, 1) + strength * normal(batch, k, dim)
        return LocationScaleMixture(
            weights=mixture_weights(batch, k, self.dirichlet, generator, dtype),
            means=spread * uniform((batch, k, dim), (-1, 1), generator, dtype),
            std=torch.exp(log_std + math.log(self.scale)),
            rotation=random_rotations((batch, k), dim, generator, dtype) if rotated else None,
            family=family,
        )


def _by_component(mixture: LocationScaleMixture, families: Sequence[Family]) -> MixtureDistribution:
    """The mixture with one family for each component; components of the same family stay together."""
    parts = []
    for family in dict.fromkeys(families):
        index = [i for i, other in enumerate(families) if other == family]
        rotation = None if mixture.rotation is None else mixture.rotation[..., index, :, :]
        part = replace(
            mixture,
            weights=mixture.weights[..., index],
            means=mixture.means[..., index, :],
            std=mixture.std[..., index, :],
            rotation=rotation,
            family=family,
        )
        parts.append(part)
    return MixtureDistribution(torch.stack([part.weights.sum(-1) for part in parts], -1), tuple(parts))

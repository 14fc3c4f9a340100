"""The broad prior: mixtures of several families and shapes, skewed and bent, for the default model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch

from discoformer.checks import DataError
from discoformer.priors.base import Distribution
from discoformer.priors.draws import (
    Range,
    check_modes,
    check_range,
    flip,
    log_uniform,
    mixture_weights,
    uniform,
)
from discoformer.priors.families import Family, Laplace, Logistic, Normal, StudentT
from discoformer.priors.mixtures import LocationScaleMixture, random_rotations
from discoformer.priors.prior import GMMPrior, Prior
from discoformer.priors.warps import Banana, Rotated, Skew, Warped

__all__ = ["BroadPrior"]


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
    normal, student_t, laplace, logistic : shares of the component families (one family per batch),
        relative to their sum.
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
        for name in ("gmm_share", "rotated", "dirichlet", "skew", "banana"):
            if not 0 <= getattr(self, name) <= 1:
                raise DataError(f"{name} = {getattr(self, name)} must be a probability between 0 and 1")
        shares = (self.normal, self.student_t, self.laplace, self.logistic)
        if min(shares) < 0 or sum(shares) <= 0:
            raise DataError("the shares of the families must not be negative and not all be zero")

    def _kind(
        self, dim: int, generator: torch.Generator | None, dtype: torch.dtype
    ) -> Callable[[int], Distribution]:
        if flip(self.gmm_share, generator):
            return self.gmm._kind(dim, generator, dtype)
        low, high = self.modes
        # A uniform logarithm between low and high + 1, rounded down; the minimum guards against rounding.
        k = min(high, int(log_uniform((), (low, high + 1), generator, torch.float64)))
        family = self._family(generator)
        rotated = flip(self.rotated, generator)
        skewed = flip(self.skew, generator)
        bent = flip(self.banana, generator) and dim > 1 and not isinstance(family, StudentT)
        source, target = (torch.randperm(dim, generator=generator)[:2].tolist() * 2)[:2]

        def draw(batch: int) -> Distribution:
            mixture = self._mixture(batch, k, dim, family, rotated, generator, dtype)
            result: Distribution = mixture
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
        shares = torch.tensor((self.normal, self.student_t, self.laplace, self.logistic))
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

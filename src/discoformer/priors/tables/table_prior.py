"""The table prior: laws closer to real tables, each with exact density and score."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.priors.base import Distribution
from discoformer.priors.draws import (
    Range,
    check_modes,
    check_probability,
    check_range,
    flip,
    log_uniform,
    uniform,
)
from discoformer.priors.families import Family, Logistic, Normal, StudentT
from discoformer.priors.location_scale import LocationScaleMixture, gaussian, random_rotations
from discoformer.priors.mixture_distribution import MixtureDistribution
from discoformer.priors.prior import Prior
from discoformer.priors.tables.column_maps import Reshaped
from discoformer.priors.tables.copulas import elliptical_copula, mixture_copula, random_mixing
from discoformer.priors.tables.precise import Precise
from discoformer.priors.tables.random_columns import COLUMN_KINDS, ColumnPlan, draw_columns, plan_columns
from discoformer.priors.tables.structural import draw_structural
from discoformer.priors.warps import Linear, Warped

__all__ = ["TablePrior"]

F64 = torch.float64
_KINDS = ("copula", "structural", "clusters", "correlated")
_CHANCES = ("alike", "censored", "heaped", "reshaped", "independent", "turned", "contaminated")
# Condition numbers of a copula's correlations, smooth and with heaps or spikes, and of turned laws: what is
# both thin and bent is not made round by any linear map, and narrow heaps make it thinner.
_SMOOTH: Range = (1.0, 1000.0)
_ROUGH: Range = (1.0, 30.0)
_TURN: Range = (1.0, 100.0)
_NOISE: Range = (0.12, 1.0)  # of structural models, relative to the column
_ROUGH_NOISE: Range = (0.3, 1.0)
_PILOT = 128  # points that tell where a law is, for the far rows


@dataclass(frozen=True)
class TablePrior(Prior):
    """Copulas with all kinds of margins, structural models, narrow clusters, columns all but collinear.

    Every law has a positive density on all of R^d with a finite score: bounds are soft, values on a lattice
    are narrow heaps.  Their widths are relative to the spread of the column, from .005 of it on
    (`priors.tables.random_columns`), and where columns have any, the dependence between them is not thin;
    so scores stay below about a thousand in whitened coordinates.  Everything is computed in double
    precision and answered in that of the queries.

    Kept apart for tests: there are no rings, spirals and bananas (parabolas here have straight ends), no
    quartic density (boxes here have edges of at most .06 of their half-width, much sharper ones), no Laplace
    columns, no Student t with three degrees of freedom (six at least, where the default is used), and no
    sinh-arcsinh with normal tails or of strength .8.

    Parameters
    ----------
    copula, structural, clusters, correlated : shares of the four kinds of laws, relative to their sum:
        normal, Student-t or mixture dependence with margins of any kind; columns that are noisy functions of
        others; Gaussian mixtures with narrow components of unequal weight; mixtures and single components
        with correlations up to .999 and beyond.
    plain, skewed, positive, bounded, atoms : shares of the kinds of columns, relative to their sum.
    alike : probability that all columns of a table are of one kind.
    censored : probability that columns have spikes at a bound: zeros, ceilings.
    heaped : probability that columns are heaped on a lattice.
    reshaped : probability that structural models get such columns as well; in one dimension they always do.
    student, mixture : shares of copulas that are Student's t, and mixtures; the others are normal.
    independent : probability that the columns of a copula are otherwise independent.
    turned : probability that a copula or structural model is turned and sheared at the end: axes are wrong.
    contaminated, contamination, distance : probability that a law has far rows, the range of their share,
        and that of their distance in standard deviations.
    modes : range of the number of components, log-uniform.
    narrow : range of the scales of narrow components relative to the spread of the table.
    condition : range of the condition number of the covariance in correlated tables.
    degrees : range of the degrees of freedom of every Student t.

    >>> law = TablePrior().draw(4, 3, torch.Generator().manual_seed(0))
    >>> x = law.sample(8)
    >>> x.shape, law.log_density(x).shape
    (torch.Size([4, 8, 3]), torch.Size([4, 8]))
    """

    name: ClassVar[str] = "tables"

    copula: float = 0.35
    structural: float = 0.25
    clusters: float = 0.15
    correlated: float = 0.25
    plain: float = 0.3
    skewed: float = 0.2
    positive: float = 0.2
    bounded: float = 0.15
    atoms: float = 0.15
    alike: float = 0.3
    censored: float = 0.2
    heaped: float = 0.25
    reshaped: float = 0.4
    student: float = 0.2
    mixture: float = 0.4
    independent: float = 0.2
    turned: float = 0.15
    contaminated: float = 0.2
    contamination: Range = (0.001, 0.03)
    distance: Range = (3.0, 20.0)
    modes: tuple[int, int] = (1, 12)
    narrow: Range = (0.02, 0.3)
    condition: Range = (10.0, 1e6)
    degrees: Range = (6.0, 30.0)

    def __post_init__(self) -> None:
        check_modes(self.modes)
        for name in ("contamination", "distance", "narrow", "condition", "degrees"):
            check_range(name, getattr(self, name))
        for name in (*_KINDS, *COLUMN_KINDS, *_CHANCES, "student", "mixture"):
            check_probability(name, getattr(self, name))
        for names in (_KINDS, COLUMN_KINDS):
            if not any(getattr(self, name) for name in names):
                raise DataError(f"{', '.join(names)} must not all be zero")
        if self.student + self.mixture > 1:
            raise DataError("student and mixture are shares of the copulas: their sum must not be above one")
        if self.contamination[1] >= 1 or self.condition[0] < 1:
            raise DataError("contamination must be below one, condition at least one")

    def _kind(
        self, dim: int, generator: torch.Generator | None, dtype: torch.dtype
    ) -> Callable[[int], Distribution]:
        draw, mix = self._draws(dim, generator, dtype)
        return lambda batch: draw(batch, mix(batch))

    def _pair(
        self, batch: int, dim: int, generator: torch.Generator | None, dtype: torch.dtype
    ) -> tuple[Distribution, Distribution]:
        """As in every prior; both laws share the correlations, or one would be nowhere near the other."""
        draw, mix = self._draws(dim, generator, dtype)
        mixing = mix(batch)
        return draw(batch, mixing), draw(batch, mixing)

    def _draws(
        self, dim: int, generator: torch.Generator | None, dtype: torch.dtype
    ) -> tuple[Callable[[int, Tensor | None], Distribution], Callable[[int], Tensor | None]]:
        """Draw what a batch shares; return how to draw laws, and the matrices that turn them at the end."""
        shares = torch.tensor([getattr(self, name) for name in _KINDS])
        kind = _KINDS[int(torch.multinomial(shares, 1, generator=generator))]
        draw_base: Callable[[int], Distribution] = getattr(self, f"_{kind}")(dim, generator)
        turned = kind == "correlated" or (kind != "clusters" and flip(self.turned, generator))
        condition = self.condition if kind == "correlated" else _TURN
        factors = flip(0.5, generator)
        far = flip(self.contaminated, generator)

        def mix(batch: int) -> Tensor | None:
            return random_mixing(batch, dim, condition, generator, factors=factors) if turned else None

        def draw(batch: int, mixing: Tensor | None) -> Distribution:
            law = draw_base(batch)
            if mixing is not None:
                law = Warped(law, Linear(mixing))
            if far:
                law = self._with_far_rows(law, batch, mixing is not None, generator)
            return Precise(law, dtype)

        return draw, mix

    def _copula(self, dim: int, generator: torch.Generator | None) -> Callable[[int], Distribution]:
        place = float(torch.rand((), generator=generator))
        heavy, several = place < self.student, self.student <= place < self.student + self.mixture
        nu = float(log_uniform((), self.degrees, generator, F64)) if heavy else None
        k = max(2, self._modes(generator))
        plan = self._columns(dim, heavy, generator)
        condition = _ROUGH if plan.rough else _SMOOTH
        independent, factors = flip(self.independent, generator), flip(0.5, generator)

        def draw(batch: int) -> Distribution:
            if several:
                return Reshaped(
                    mixture_copula(batch, k, dim, generator), draw_columns(plan, batch, generator)
                )
            if independent:
                mixing = torch.eye(dim, dtype=F64).expand(batch, dim, dim)
            else:
                mixing = random_mixing(batch, dim, condition, generator, factors=factors)
            return Reshaped(elliptical_copula(mixing, nu), draw_columns(plan, batch, generator))

        return draw

    def _structural(self, dim: int, generator: torch.Generator | None) -> Callable[[int], Distribution]:
        degrees = self.degrees if flip(0.4, generator) else None
        varying = flip(0.5, generator)
        plan = None
        if flip(self.reshaped, generator) or dim == 1:
            plan = self._columns(dim, True, generator)
        noise = _ROUGH_NOISE if plan is not None and plan.rough else _NOISE

        def draw(batch: int) -> Distribution:
            law = draw_structural(batch, dim, noise, degrees, varying, generator)
            return law if plan is None else Reshaped(law, draw_columns(plan, batch, generator))

        return draw

    def _clusters(self, dim: int, generator: torch.Generator | None) -> Callable[[int], Distribution]:
        k = max(2, self._modes(generator))
        family, rotated, background = self._family(generator), flip(0.5, generator), flip(0.5, generator)

        def draw(batch: int) -> Distribution:
            size = log_uniform((batch, k, 1), self.narrow, generator, F64)
            if background:  # one component as wide as the table, and narrow ones in it
                size[:, 0] = uniform((batch, 1), (0.4, 1.0), generator, F64)
            shape = uniform((batch, 1, 1), (0, 0.5), generator, F64)
            std = size * torch.exp(-shape * torch.randn(batch, k, dim, generator=generator, dtype=F64).abs())
            unequal = 1.2 * torch.randn(batch, k, generator=generator, dtype=F64)
            return LocationScaleMixture(
                weights=torch.softmax(unequal, -1) + 0.005,
                means=uniform((batch, k, dim), (-math.sqrt(3), math.sqrt(3)), generator, F64),
                std=std.clamp_min(0.5 * self.narrow[0]),
                rotation=random_rotations((batch, k), dim, generator, F64) if rotated else None,
                family=family,
            )

        return draw

    def _correlated(self, dim: int, generator: torch.Generator | None) -> Callable[[int], Distribution]:
        k = 1 if flip(0.4, generator) else self._modes(generator)
        family, rotated = self._family(generator), flip(0.5, generator)

        def draw(batch: int) -> Distribution:
            return LocationScaleMixture(
                weights=uniform((batch, k), (0.1, 1.0), generator, F64),
                means=2 * torch.randn(batch, k, dim, generator=generator, dtype=F64),
                std=log_uniform((batch, k, dim), (0.2, 1.0), generator, F64),
                rotation=random_rotations((batch, k), dim, generator, F64) if rotated else None,
                family=family,
            )

        return draw

    def _with_far_rows(
        self, law: Distribution, batch: int, along: bool, generator: torch.Generator | None
    ) -> MixtureDistribution:
        """The law with a small share of rows from a broad normal, placed by a few points of the law.

        Nearly flat laws get far rows along their own covariance: anywhere else, these rows alone would set
        the spread of the table.
        """
        pilot = law.sample(2 * law.dim + _PILOT, generator)
        distance = log_uniform((batch, 1), self.distance, generator, F64)
        share = log_uniform((batch,), self.contamination, generator, F64)
        centered = pilot - pilot.mean(-2, keepdim=True)
        if along:
            covariance = centered.mT @ centered / pilot.shape[-2]
        else:
            covariance = torch.diag_embed(centered.square().mean(-2))
        root = torch.linalg.cholesky(covariance) * distance.unsqueeze(-1)
        direction = torch.randn(batch, law.dim, 1, generator=generator, dtype=F64)
        far = gaussian(pilot.median(-2).values + 0.5 * (root @ direction).squeeze(-1), root @ root.mT)
        return MixtureDistribution(torch.stack([1 - share, share], -1), (law, far))

    def _modes(self, generator: torch.Generator | None) -> int:
        low, high = self.modes
        return min(high, int(log_uniform((), (low, high + 1), generator, F64)))

    def _family(self, generator: torch.Generator | None) -> Family:
        nu = float(log_uniform((), self.degrees, generator, F64))
        families = (Normal(), Normal(), StudentT(nu), Logistic())
        return families[int(torch.randint(0, len(families), (), generator=generator))]

    def _columns(self, dim: int, gentle: bool, generator: torch.Generator | None) -> ColumnPlan:
        return plan_columns(
            dim,
            {name: getattr(self, name) for name in COLUMN_KINDS},
            alike=flip(self.alike, generator),
            censored=flip(self.censored, generator),
            heaped=flip(self.heaped, generator),
            gentle=gentle,
            generator=generator,
        )

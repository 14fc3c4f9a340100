"""Distributions with exact log density and score, and priors over them."""

from discoformer.priors.base import Distribution
from discoformer.priors.broad import BroadPrior
from discoformer.priors.config import PRIORS, prior_from_config
from discoformer.priors.families import Family, Laplace, Logistic, Normal, Quartic, StudentT
from discoformer.priors.location_scale import LocationScaleMixture, gaussian, random_rotations, spiral
from discoformer.priors.mixed_prior import MixedPrior
from discoformer.priors.mixture_distribution import MixtureDistribution
from discoformer.priors.own import OwnPrior, Target, check_prior
from discoformer.priors.prior import AffinePrior, GaussianPrior, GMMPrior, Prior
from discoformer.priors.ring import Ring
from discoformer.priors.tables.table_prior import TablePrior
from discoformer.priors.warps import Affine, Banana, Linear, Rotated, Skew, Warp, Warped

__all__ = [
    "PRIORS",
    "Affine",
    "AffinePrior",
    "Banana",
    "BroadPrior",
    "Distribution",
    "Family",
    "GMMPrior",
    "GaussianPrior",
    "Laplace",
    "Linear",
    "LocationScaleMixture",
    "Logistic",
    "MixedPrior",
    "MixtureDistribution",
    "Normal",
    "OwnPrior",
    "Prior",
    "Quartic",
    "Ring",
    "Rotated",
    "Skew",
    "StudentT",
    "TablePrior",
    "Target",
    "Warp",
    "Warped",
    "check_prior",
    "gaussian",
    "prior_from_config",
    "random_rotations",
    "spiral",
]

"""Estimators to compare with: kernel density estimates, mixtures, flows, and what builds on them."""

from discoformer.baselines.flow import SplineFlow
from discoformer.baselines.kde import KDE, KDEField
from discoformer.baselines.mixtures import BayesianMixture, GaussianMixtureBIC
from discoformer.baselines.oracle import oracle_bandwidth

__all__ = ["KDE", "BayesianMixture", "GaussianMixtureBIC", "KDEField", "SplineFlow", "oracle_bandwidth"]

"""Estimators to compare with: kernel density estimates, mixtures, flows, score estimators."""

from discoformer.baselines.best_bandwidth import oracle_bandwidth
from discoformer.baselines.flow import SplineFlow
from discoformer.baselines.gmm import BayesianMixture, GaussianMixtureBIC
from discoformer.baselines.kde import KDE, KDEField
from discoformer.baselines.score_matching import ScoreMatching
from discoformer.baselines.sdkde import SDKDE
from discoformer.baselines.stein import NuMethod, SpectralStein, SteinGradient

__all__ = [
    "KDE",
    "SDKDE",
    "BayesianMixture",
    "GaussianMixtureBIC",
    "KDEField",
    "NuMethod",
    "ScoreMatching",
    "SpectralStein",
    "SplineFlow",
    "SteinGradient",
    "oracle_bandwidth",
]

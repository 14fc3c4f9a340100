"""Estimators to compare with: kernel density estimates, mixtures, flows, score estimators, neighbours."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from discoformer.baselines.flow import SplineFlow
from discoformer.baselines.kde import KDE, KDEField
from discoformer.baselines.mixtures import BayesianMixture, GaussianMixtureBIC
from discoformer.baselines.oracle import oracle_bandwidth
from discoformer.baselines.score_matching import ScoreMatching
from discoformer.baselines.sdkde import SDKDE
from discoformer.baselines.stein import NuMethod, SpectralStein, SteinGradient

if TYPE_CHECKING:
    from discoformer.functionals.neighbours import knn_entropy, knn_kl_divergence

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
    "knn_entropy",
    "knn_kl_divergence",
    "oracle_bandwidth",
]


def __getattr__(name: str) -> Any:
    if name not in ("knn_entropy", "knn_kl_divergence"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # On first use: scipy.spatial is slow to import.
    return getattr(import_module("discoformer.functionals.neighbours"), name)

"""Estimators to compare with: kernel density estimates and what builds on them."""

from discoformer.baselines.kde import KDE, KDEField
from discoformer.baselines.oracle import oracle_bandwidth

__all__ = ["KDE", "KDEField", "oracle_bandwidth"]

"""Entropy, Fisher information, divergences: numbers that densities and scores are the way to."""

from discoformer.functionals.estimates import (
    Functional,
    Split,
    entropy,
    fisher_information,
    jensen_shannon,
    kl_divergence,
    mutual_information,
    relative_fisher_information,
)

__all__ = [
    "Functional",
    "Split",
    "entropy",
    "fisher_information",
    "jensen_shannon",
    "kl_divergence",
    "mutual_information",
    "relative_fisher_information",
]

"""Entropy, information, divergences: numbers that densities and scores are the way to, with errors."""

from discoformer.functionals.divergences import jensen_shannon, kl_divergence, relative_fisher_information
from discoformer.functionals.information import (
    conditional_mutual_information,
    entropy,
    fisher_information,
    mutual_information,
    total_correlation,
)
from discoformer.functionals.splits import Functional, Split

__all__ = [
    "Functional",
    "Split",
    "conditional_mutual_information",
    "entropy",
    "fisher_information",
    "jensen_shannon",
    "kl_divergence",
    "mutual_information",
    "relative_fisher_information",
    "total_correlation",
]

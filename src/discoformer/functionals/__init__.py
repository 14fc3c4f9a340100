"""Entropy, information, divergences: numbers computed from densities and scores, with standard errors."""

from discoformer.functionals.divergences import jensen_shannon, kl_divergence, relative_fisher_information
from discoformer.functionals.information import (
    conditional_mutual_information,
    entropy,
    fisher_information,
    mutual_information,
    total_correlation,
)
from discoformer.functionals.refits import bootstrapped
from discoformer.functionals.splits import Functional, ImpossibleWarning, Split

__all__ = [
    "Functional",
    "ImpossibleWarning",
    "Split",
    "bootstrapped",
    "conditional_mutual_information",
    "entropy",
    "fisher_information",
    "jensen_shannon",
    "kl_divergence",
    "mutual_information",
    "relative_fisher_information",
    "total_correlation",
]

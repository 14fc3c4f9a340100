"""Entropy, information, divergences: numbers computed from densities and scores, with standard errors."""

from discoformer.functionals.divergences import jensen_shannon, kl_divergence, relative_fisher_information
from discoformer.functionals.information import entropy, fisher_information, mutual_information
from discoformer.functionals.splits import Functional, Split

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

"""Samplers that need a score and nothing else, and the discrepancy that judges them."""

from discoformer.samplers.langevin import annealed, langevin
from discoformer.samplers.stein_variational import kernel_stein_discrepancy, svgd

__all__ = ["annealed", "kernel_stein_discrepancy", "langevin", "svgd"]

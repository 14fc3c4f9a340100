"""Kinetic equations by particles with a plug-in score: equations, oracles, integrator, references.

>>> import torch
>>> from discoformer import KDE
>>> from discoformer.particles import Landau, integrate, landau_start
>>> start = landau_start("gaussian", 2).sample(100, torch.Generator().manual_seed(0))
>>> run = integrate(Landau(), start, KDE(), dt=0.1, steps=5)
>>> bool(run.covariance[-1, 0, 0] < run.covariance[0, 0, 0])
True
"""

from discoformer.particles.calibrated import Calibrated, calibration_pays
from discoformer.particles.carried import Carried
from discoformer.particles.equations import DoubleWell, Equation, FokkerPlanck, Landau, OrnsteinUhlenbeck
from discoformer.particles.history import History
from discoformer.particles.integrate import integrate
from discoformer.particles.monte_carlo import pair_monte_carlo
from discoformer.particles.oracles import Blob, ExactOracle, GaussianClosure, Oracle
from discoformer.particles.references import (
    BKW,
    landau_start,
    match_moments,
    maxwell_covariance,
    ornstein_uhlenbeck,
    ornstein_uhlenbeck_covariance,
)
from discoformer.particles.sbtm import SBTM

__all__ = [
    "BKW",
    "SBTM",
    "Blob",
    "Calibrated",
    "Carried",
    "DoubleWell",
    "Equation",
    "ExactOracle",
    "FokkerPlanck",
    "GaussianClosure",
    "History",
    "Landau",
    "Oracle",
    "OrnsteinUhlenbeck",
    "calibration_pays",
    "integrate",
    "landau_start",
    "match_moments",
    "maxwell_covariance",
    "ornstein_uhlenbeck",
    "ornstein_uhlenbeck_covariance",
    "pair_monte_carlo",
]

"""Fitted densities for other libraries; each adapter needs its library only when it is called."""

from discoformer.adapters.chains import Chains, read_chains
from discoformer.adapters.getdist import to_getdist
from discoformer.adapters.nested import prior_transform
from discoformer.adapters.numpyro import to_numpyro
from discoformer.adapters.pymc import to_pymc
from discoformer.adapters.torch import TorchDensity, to_torch

__all__ = [
    "Chains",
    "TorchDensity",
    "prior_transform",
    "read_chains",
    "to_getdist",
    "to_numpyro",
    "to_pymc",
    "to_torch",
]

"""Score oracles by name, for the command line and the experiments."""

from __future__ import annotations

from discoformer.core.fields import Field, Method
from discoformer.methods import METHODS, resolve, without_axes
from discoformer.models.mixture.views import Views
from discoformer.particles.calibrated import Calibrated
from discoformer.particles.carried import Carried
from discoformer.particles.oracles import Blob, GaussianClosure, MethodOracle, Oracle, OracleLike
from discoformer.particles.sbtm import SBTM

__all__ = ["ORACLES", "choose_oracle", "is_network", "network_oracle"]

ORACLES = {
    "blob": "blob method with Scott's rule",
    "gaussian": "Gaussian with the particles' own moments",
    "sbtm": "network of two hidden layers, refitted at every step",
    "sbtm-1": "the same with one hidden layer",
}


def is_network(name: str) -> bool:
    """Whether a name means a pretrained network: a model's name, or the path of a weights file.

    >>> is_network("default"), is_network("kde-scott"), is_network("sbtm")
    (True, False, False)
    """
    return name not in ORACLES and name not in METHODS


def choose_oracle(
    name: str, start: Field, *, seed: int = 0, every: int = 1, calibrate: bool = False
) -> OracleLike:
    """The oracle behind a name of `ORACLES`, or behind a method's name or path.

    Parameters
    ----------
    name : a name of `ORACLES`, or whatever `discoformer.methods.resolve` takes
    start : field of the start, which SBTM is first fitted to
    seed : of SBTM's weights and noise
    every : answers per fit of a network, which is carried along in between; other oracles are cheap, or
        train at every step anyway
    calibrate : correct the score with `Calibrated`, whatever the oracle

    >>> from discoformer.particles import landau_start
    >>> type(choose_oracle("gaussian", landau_start("gaussian", 3))).__name__
    'GaussianClosure'
    """
    if calibrate:
        return Calibrated(choose_oracle(name, start, seed=seed, every=every))
    if name == "blob":
        return Blob("scott")
    if name == "gaussian":
        return GaussianClosure()
    if name in ("sbtm", "sbtm-1"):
        return SBTM(start, hidden=(100,) if name == "sbtm-1" else (100, 100), seed=seed)
    resolved = resolve(name)
    if isinstance(resolved.method, Views):  # space has no axes
        resolved = without_axes(resolved)
    return network_oracle(resolved.method, resolved.name, every if is_network(name) else 1)


def network_oracle(method: Method, name: str, every: int) -> Oracle:
    """A method fitted at every answer, or at every few answers and carried along in between.

    >>> from discoformer import KDE
    >>> network_oracle(KDE(), "kernel", every=5).name
    'kernel every 5'
    """
    return MethodOracle(method, name) if every == 1 else Carried(method, every, name)

"""Score oracles by name, for the command line and the experiments."""

from __future__ import annotations

from discoformer.baselines.kde import KDE
from discoformer.core.fields import Field, Method
from discoformer.particles.calibrated import Calibrated
from discoformer.particles.carried import Carried
from discoformer.particles.oracles import Blob, GaussianClosure, MethodOracle, Oracle, OracleLike
from discoformer.particles.sbtm import SBTM

__all__ = ["ORACLES", "choose_oracle", "is_network", "network_oracle"]

ORACLES = {
    "default": "the package's network",
    "attention": "the paper's network for this dimension",
    "kde": "kernel density estimate with Scott's rule",
    "blob": "blob method with Scott's rule",
    "gaussian": "Gaussian with the particles' own moments",
    "sbtm": "network of two hidden layers, refitted at every step",
    "sbtm-1": "the same with one hidden layer",
}


def is_network(name: str) -> bool:
    """Whether a name means a pretrained network: ours, the paper's, or a model's name or path.

    >>> is_network("mixture"), is_network("kde")
    (True, False)
    """
    return name in ("default", "attention") or name not in ORACLES


def choose_oracle(
    name: str, start: Field, *, seed: int = 0, every: int = 1, calibrate: bool = False
) -> OracleLike:
    """The oracle behind a name of `ORACLES`, or behind a model's name or path.

    Parameters
    ----------
    name : a name of `ORACLES`, of a model, or the path of a weights file
    start : field of the start, which SBTM is first fitted to
    seed : of SBTM's weights and noise
    every : answers per fit of a network, which is carried along in between; the others are cheap, or
        train at every step anyway
    calibrate : correct the score by `Calibrated`, whichever oracle it is

    >>> from discoformer.particles import landau_start
    >>> type(choose_oracle("gaussian", landau_start("gaussian", 3))).__name__
    'GaussianClosure'
    """
    if calibrate:
        return Calibrated(choose_oracle(name, start, seed=seed, every=every))
    if name == "kde":
        return KDE("scott")
    if name == "blob":
        return Blob("scott")
    if name == "gaussian":
        return GaussianClosure()
    if name in ("sbtm", "sbtm-1"):
        return SBTM(start, hidden=(100,) if name == "sbtm-1" else (100, 100), seed=seed)
    from discoformer.methods import resolve

    resolved = resolve(f"attention-d{start.dim}" if name == "attention" else name)
    return network_oracle(resolved.method, resolved.name, every)


def network_oracle(method: Method, name: str, every: int) -> Oracle:
    """A method fitted at every answer, or at every so many of them and carried along in between.

    >>> network_oracle(KDE(), "kernel", every=5).name
    'kernel every 5'
    """
    return MethodOracle(method, name) if every == 1 else Carried(method, every, name)

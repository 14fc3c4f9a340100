"""Who takes part in an experiment: our network, the paper's core for the dimension, and rivals by name.

A network may get new weights under an old name, so in a file of measurements it is called
``name@fingerprint``.  Weights that are not in the package are left out, with one line that says so; as
soon as the registry holds them, they take part.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import sys
from pathlib import Path
from typing import NamedTuple

import torch

from discoformer.core.checks import DataError
from discoformer.core.fields import Method
from discoformer.evaluation.held_out import PEERS
from discoformer.methods import resolve
from discoformer.models.registry import list_models

__all__ = ["CORE_NAME", "CORE_SIZE", "Contestant", "Networks", "fingerprint", "model_label", "rival"]

CORE_NAME = "attention-d"  # and the dimension: the names of the paper's core
CORE_SIZE = 4096  # largest n that the core, quadratic in n, is usually asked at


class Contestant(NamedTuple):
    """A method, its name, and what it is called in a file of measurements."""

    label: str
    identity: str
    method: Method

    @property
    def mark(self) -> str:
        """The fingerprint in the identity; empty for rivals."""
        return self.identity.partition("@")[2]

    def variant(self, how: str) -> str:
        """What this network is called in a file of measurements when it is used in another way.

        >>> Contestant("default", "default@1e8abfe2", PEERS["kde-scott"]()).variant("calibrated")
        'default, calibrated@1e8abfe2'
        """
        return f"{self.label}, {how}@{self.mark}"


def rival(name: str) -> Contestant:
    """A method of `discoformer.evaluation.held_out.PEERS`.

    >>> rival("gmm-diag").identity
    'gmm-diag'
    """
    return Contestant(name, name, PEERS[name]())


class Networks:
    """The networks of a run, each loaded and fingerprinted once.

    Parameters
    ----------
    model : our network, a name of the registry or a path
    """

    def __init__(self, model: str = "default") -> None:
        self.model = model
        self._found: dict[tuple[str, bool], Contestant | None] = {}

    @property
    def label(self) -> str:
        """Name of our network."""
        return model_label(self.model)

    def ours(self) -> Contestant:
        """Our network; an error if there is no such model."""
        found = self._load(self.model, single=False)
        assert found is not None
        return found

    def shipped(self, name: str, *, single: bool = False) -> Contestant | None:
        """A network of the package, in single precision if asked to; None, and a line, if it is not there."""
        if name not in list_models():
            if (name, False) not in self._found:
                self._found[name, False] = None
                print(f"without {name}: its weights are not in this package", file=sys.stderr)
            return None
        return self._load(name, single=single)

    def core(self, dim: int) -> Contestant | None:
        """The paper's core, whose weights are for one dimension each.

        It computes in single precision: it is quadratic in n, and the difference shows in no table.
        """
        return self.shipped(f"{CORE_NAME}{dim}", single=True)

    def for_dim(self, dim: int, size: int = 0) -> list[Contestant]:
        """Our network and, up to `CORE_SIZE`, the paper's core."""
        core = self.core(dim) if size <= CORE_SIZE else None
        return [self.ours()] if core is None or core.label == self.label else [self.ours(), core]

    def is_stale(self, key: dict[str, str]) -> bool:
        """Whether a line of measurements belongs to former weights of a network of this run."""
        label, _, mark = key.get("method", "").partition("@")
        label, _, _ = label.partition(",")  # "name, variant": a network used in another way
        marks = {found.mark for found in self._found.values() if found and found.label == label}
        return bool(marks) and mark not in marks

    def _load(self, name: str, *, single: bool) -> Contestant | None:
        if (name, single) not in self._found:
            method = resolve(name).method
            label = model_label(name)
            twin = self._found.get((name, not single))
            identity = twin.identity if twin else f"{label}@{fingerprint(method)}"
            if single and isinstance(method, torch.nn.Module):
                method = copy.deepcopy(method).to(torch.float32)
            self._found[name, single] = Contestant(label, identity, method)
        return self._found[name, single]


def model_label(name: str) -> str:
    """A short name for a model given by name or path; a run is named after its folder.

    >>> model_label("default"), model_label("runs/wide/weights.safetensors")
    ('default', 'wide')
    """
    path = Path(name)
    return path.stem if path.stem != "weights" else path.parent.name


def fingerprint(method: Method) -> str:
    """Eight digits that change with the weights and with the code that uses them.

    They are made from the weights and from mean log densities of fixed samples, rounded so that the order
    of a sum is no news.
    """
    digest = hashlib.sha256()
    if isinstance(method, torch.nn.Module):
        for name, tensor in method.state_dict().items():
            digest.update(name.encode() + tensor.detach().cpu().float().numpy().tobytes())
    for dim, size in ((1, 64), (2, 300), (5, 1100), (10, 64)):
        with contextlib.suppress(DataError), torch.no_grad():  # a network for one dimension only
            sample = torch.randn(size, dim, generator=torch.Generator().manual_seed(dim), dtype=torch.float64)
            log_density = method.fit(sample**3).log_density(sample)
            digest.update(f"{dim}:{float(log_density.mean()):.6f} ".encode())
    return digest.hexdigest()[:8]

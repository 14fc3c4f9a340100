"""Who takes part: our network, the paper's core for the dimension, and rivals by name.

A network may get new weights under an old name, so in a file of measurements it is called
``name@fingerprint``.  Networks whose weights are not installed are left out, with one line that says so.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from discoformer.core.checks import DataError
from discoformer.core.fields import Method
from discoformer.methods import PEERS, resolve
from discoformer.models.mixture.views import Views
from discoformer.models.registry import list_models, read_card
from discoformer_paper.harness.adapters import fit_density

__all__ = [
    "CORE_SIZE",
    "NETWORKS",
    "ONE_VIEW",
    "RIVALS",
    "WITHOUT_AXES",
    "Contestant",
    "Networks",
    "adaptation_rate",
    "core_name",
    "fingerprint",
    "is_core",
    "model_label",
    "network_name",
    "rival",
]

NETWORKS: dict[str, dict[str, Any]] = tomllib.loads(
    (Path(__file__).parent / "networks.toml").read_text(encoding="utf-8")
)
_RATES = {int(size): rate for size, rate in NETWORKS.pop("adaptation").items()}
CORE_SIZE = 4096  # largest n for the core, which is quadratic in n, unless an experiment says otherwise
ONE_VIEW, WITHOUT_AXES = "one view", "without axes"  # our network, used in another way
_CORES = ("core", "whitened")  # the second lists only where it differs from the first
RIVALS = PEERS  # what a user would pick instead of a network


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
        """Identity of this network when it is used in another way.

        >>> Contestant("default", "default@1e8abfe2", rival("kde-scott").method).variant("calibrated")
        'default, calibrated@1e8abfe2'
        """
        return f"{self.label}, {how}@{self.mark}"


def rival(name: str) -> Contestant:
    """A method of `RIVALS`, or any other that needs no fingerprint.

    >>> rival("gmm-diag").identity
    'gmm-diag'
    """
    return Contestant(name, name, resolve(name).method)


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
        return self._load(self.model, single=False)

    def one_view(self) -> Contestant | None:
        """Our network with one view, the sample as it is; None if ours has no views."""
        return self._used(ONE_VIEW, lambda views: views.network)

    def without_axes(self) -> Contestant | None:
        """Our network without axes, so that it follows every affine map; None if ours has no views."""
        return self._used(WITHOUT_AXES, lambda views: views.without_axes())

    def _used(self, how: str, method: Callable[[Views], Method]) -> Contestant | None:
        ours = self.ours()
        if not isinstance(ours.method, Views):
            return None
        return Contestant(f"{ours.label}, {how}", ours.variant(how), method(ours.method))

    def shipped(self, name: str, *, single: bool = False) -> Contestant | None:
        """A network by name or path, in single precision if asked; None, and a printed line, if missing."""
        if name in list_models() or Path(name).is_file():
            return self._load(name, single=single)
        if (name, False) not in self._found:
            self._found[name, False] = None
            print(f"without {name}: its weights are not installed", file=sys.stderr)
        return None

    def core(self, dim: int, kind: str = "core") -> Contestant | None:
        """The paper's core for this dimension (each has its own weights), or a network of another kind.

        It computes in single precision: it is quadratic in n, and no table shows the difference.
        """
        return self.named(kind, dim)

    def exact_core(self, dim: int) -> Contestant | None:
        """The paper's core in double precision, for laws that hold to rounding."""
        return self.shipped(_listed("core", dim) or core_name(dim))

    def named(self, kind: str, key: object) -> Contestant | None:
        """A network of `networks.toml`, in single precision."""
        name = _listed(kind, key)
        return None if name is None else self.shipped(name, single=True)

    def largest_trained(self, name: str, usual: int = 1024) -> int:
        """Largest n in the training of a network by name or path; the usual one if the network is missing."""
        cards = list_models()
        if name not in cards and not Path(name).is_file():
            return usual
        return (cards[name] if name in cards else read_card(name)).sizes[1]

    def for_dim(self, dim: int, size: int = 0, kind: str = "core") -> list[Contestant]:
        """Our network and, up to `CORE_SIZE`, the paper's core."""
        core = self.core(dim, kind) if size <= CORE_SIZE else None
        return [self.ours()] if core is None or core.label == self.label else [self.ours(), core]

    def is_stale(self, key: dict[str, str]) -> bool:
        """Whether a line of measurements belongs to former weights of a network, or to a former core."""
        label, _, mark = key.get("method", "").partition("@")
        label, _, _ = label.partition(",")  # "name, variant": a network used in another way
        marks = {found.mark for found in self._found.values() if found and found.label == label}
        if marks or not mark:
            return bool(marks) and mark not in marks
        card = list_models().get(label)  # a core that `networks.toml` no longer names is stale, too
        return card is not None and card.core["kind"] == "attention"

    def _load(self, name: str, *, single: bool) -> Contestant:
        found = self._found.get((name, single))
        if found is None:
            method, label = resolve(name).method, model_label(name)
            twin = self._found.get((name, not single))
            identity = twin.identity if twin else f"{label}@{fingerprint(method)}"
            if single and isinstance(method, torch.nn.Module):
                method = copy.deepcopy(method).to(torch.float32)
            found = self._found[name, single] = Contestant(label, identity, method)
        return found


def core_name(dim: int, kind: str = "core") -> str:
    """What the paper's core of a dimension is called in measurements.

    >>> core_name(7)
    'core-d7'
    """
    return network_name(kind, dim)


def network_name(kind: str, key: object) -> str:
    """What a network of `networks.toml` is called in measurements."""
    name = _listed(kind, key)
    return f"{kind}-d{key}" if name is None else model_label(name)  # the first name is a placeholder


def adaptation_rate(size: int) -> float:
    """Rate of test-time training of the paper's core for a sample of this size.

    >>> adaptation_rate(128) > 0
    True
    """
    return float(_RATES[max((n for n in _RATES if n <= size), default=min(_RATES))])


def is_core(label: str) -> bool:
    """Whether this is the paper's core in some dimension, or a variant of it.

    >>> is_core(core_name(2)), is_core("default")
    (True, False)
    """
    return label.partition("@")[0].partition(",")[0] in {
        model_label(n) for kind in _CORES for n in NETWORKS[kind].values()
    }


def _listed(kind: str, key: object) -> str | None:
    names = NETWORKS["core"] | NETWORKS[kind] if kind in _CORES else NETWORKS[kind]
    return names.get(str(key))


def model_label(name: str) -> str:
    """A short name for a model given by name or path; a run is named after its folder.

    >>> model_label("default"), model_label("runs/wide/weights.safetensors")
    ('default', 'wide')
    """
    path = Path(name)
    return path.stem if path.stem != "weights" else path.parent.name


def fingerprint(method: Method) -> str:
    """Eight digits that change with the weights, the constants beside them, and the code that uses them.

    They are made from the weights, the config of a mixture core, and mean log densities of fixed samples,
    rounded so that the order of summation does not matter.
    """
    digest = hashlib.sha256()
    if isinstance(method, Views):
        digest.update(repr(method.network.core.config).encode())
    if isinstance(method, torch.nn.Module):
        for name, tensor in method.state_dict().items():
            digest.update(name.encode() + tensor.detach().cpu().float().numpy().tobytes())
    for dim, size in ((1, 64), (2, 300), (5, 1100), (10, 64)):
        with contextlib.suppress(DataError), torch.no_grad():  # a network for one dimension only
            sample = torch.randn(size, dim, generator=torch.Generator().manual_seed(dim), dtype=torch.float64)
            log_density = fit_density(method, sample**3).log_density(sample)
            digest.update(f"{dim}:{float(log_density.mean()):.6f} ".encode())
    return digest.hexdigest()[:8]

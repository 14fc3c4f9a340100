"""Beginning a run from weights that are there already."""

from __future__ import annotations

import torch
from torch import nn

from discoformer.core.checks import DataError
from discoformer.models.network import Network
from discoformer.models.registry import load_model

__all__ = ["start_from"]


def start_from(network: Network, name: str) -> None:
    """Take over the weights of a model, by name or path.

    A unified core also takes over those of a mixture core: it has the same layers, with more to see and to
    decide at the end of every matrix, which stays as it is.
    """
    start = load_model(name, dtype=torch.float32)
    if not isinstance(start, Network):
        raise DataError(f"start: {name} is a stack, name one of its members")
    source = start.core.state_dict()
    try:
        if _kind(network) == "UnifiedCore" and _kind(start) == "MixtureCore":
            target = network.core.state_dict()
            for key, tensor in source.items():
                target[key][tuple(map(slice, tensor.shape))] = tensor
            source = target
        network.core.load_state_dict(source)
    except (RuntimeError, KeyError) as error:
        reason = str(error).splitlines()[-1].strip()
        raise DataError(f"start: {name} is of another core: {reason}") from None


def _kind(network: Network) -> str:
    core: nn.Module = network.core
    return type(core).__name__

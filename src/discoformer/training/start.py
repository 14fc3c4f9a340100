"""Where the weights of a new run come from."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.models.mixture.core import MixtureCore
from discoformer.models.mixture.unified import UnifiedCore
from discoformer.models.network import Network
from discoformer.models.registry import load_model

__all__ = ["start_from"]


def start_from(network: Network, name: str) -> None:
    """Copy the weights of a model, given by name or path, into a network with the same core.

    A unified core also takes those of a mixture core: it has the same layers, with more to see and to decide
    at the end of every matrix, which stays as it is.
    """
    start = load_model(name, dtype=torch.float32)
    if not isinstance(start, Network):
        raise DataError(f"start: {name} is a stack, name one of its members")
    weights: Mapping[str, Tensor] = start.core.state_dict()
    try:
        if isinstance(network.core, UnifiedCore) and isinstance(start.core, MixtureCore):
            weights = _padded(weights, network.core.state_dict())
        network.core.load_state_dict(weights)
    except (RuntimeError, KeyError) as error:
        reason = str(error).splitlines()[-1].strip()
        raise DataError(f"start: {name} has another core: {reason}") from None


def _padded(weights: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors ``like`` with weights, none of them larger, in their first corners."""
    padded = {key: tensor.clone() for key, tensor in like.items()}
    for key, tensor in weights.items():
        padded[key][tuple(map(slice, tensor.shape))] = tensor
    return padded

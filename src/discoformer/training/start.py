"""Where the weights of a new run come from."""

from __future__ import annotations

import torch

from discoformer.core.checks import DataError
from discoformer.models.network import Network
from discoformer.models.registry import load_network

__all__ = ["start_from"]


def start_from(network: Network, name: str) -> None:
    """Copy the weights of a model, given by name or path, into a network with the same core."""
    try:
        network.core.load_state_dict(load_network(name, dtype=torch.float32).core.state_dict())
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise DataError(f"start: {name} has another core: {reason}") from None

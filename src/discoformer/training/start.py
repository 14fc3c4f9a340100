"""Where the weights of a new run come from."""

from __future__ import annotations

from pathlib import Path

import torch

from discoformer.core.checks import DataError
from discoformer.models.network import Network
from discoformer.models.registry import is_shipped, load_network
from discoformer.training.recipes import list_recipes

__all__ = ["start_from"]


def start_from(network: Network, name: str, recipe: str = "") -> None:
    """Copy the weights of a model, given by name or path, into a network with the same core.

    ``recipe`` is the name of the recipe that asks for them.
    """
    if not is_shipped(name) and not Path(name).exists():
        raise DataError(f"start: no weights at {name}: {_instead(Path(name), recipe)}")
    try:
        network.core.load_state_dict(load_network(name, dtype=torch.float32).core.state_dict())
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise DataError(f"start: {name} has another core: {reason}") from None


def _instead(path: Path, recipe: str) -> str:
    """What to do where the weights at a path are missing."""
    former, shipped = path.parent.name, is_shipped(recipe)
    ways = [f"`discoformer train {former}` writes them"] if former in list_recipes() else []
    ways += [f"--set start={recipe} goes on from the shipped weights"] if shipped else []
    return ", ".join([*ways, "--set start=null begins at random"])

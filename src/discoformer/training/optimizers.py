"""The optimizers of a run: AdamW for everything, or Muon for the hidden matrices and AdamW for the rest."""

from __future__ import annotations

import torch
from torch import nn

from discoformer.training.config import Recipe

__all__ = ["build_optimizers"]

_SMALLEST_MATRIX = 32  # Muon makes all directions of a step equally long, which helps where there are many


def build_optimizers(network: nn.Module, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """One optimizer, or two if the recipe has a ``hidden_lr``; every group remembers its own rate.

    >>> network = nn.Sequential(nn.Linear(2, 64), nn.Linear(64, 64))
    >>> recipe = Recipe(name="x", core={}, frame="whiten", prior={}, hidden_lr=3e-3)
    >>> [type(optimizer).__name__ for optimizer in build_optimizers(network, recipe)]
    ['AdamW', 'Muon']
    """
    hidden = [p for p in network.parameters() if p.ndim == 2 and min(p.shape) >= _SMALLEST_MATRIX]
    if recipe.hidden_lr is None:
        hidden = []
    chosen = {id(p) for p in hidden}
    rest = [p for p in network.parameters() if id(p) not in chosen]
    decay = recipe.weight_decay
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(rest, lr=recipe.lr, betas=(0.9, 0.98), weight_decay=decay)
    ]
    if hidden and recipe.hidden_lr is not None:
        optimizers.append(
            torch.optim.Muon(hidden, lr=recipe.hidden_lr, weight_decay=decay, adjust_lr_fn="match_rms_adamw")
        )
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"]
    return optimizers

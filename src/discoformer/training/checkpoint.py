"""Checkpoints of a run: one safetensors file with weights, average, optimizer moments and counters.

Written beside the old one and moved into place, so a kill at any moment leaves a whole checkpoint.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from discoformer.core.tensor_files import read_metadata, read_tensors, write_tensors

__all__ = ["load_checkpoint", "save_checkpoint"]


def save_checkpoint(
    path: Path,
    network: nn.Module,
    average: nn.Module,
    optimizers: list[torch.optim.Optimizer],
    progress: dict[str, Any],
) -> None:
    """Write the whole state of a run; ``progress`` is JSON (step, seconds, running means)."""
    tensors: dict[str, Tensor] = {}
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    for name, tensor in network.state_dict().items():
        tensors[f"network.{name}"] = tensor
    for name, tensor in average.state_dict().items():
        tensors[f"average.{name}"] = tensor
    for optimizer in optimizers:
        for parameter, state in optimizer.state.items():
            for key, value in state.items():
                tensors[f"optimizer.{key}.{names[id(parameter)]}"] = torch.as_tensor(value)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tensors(path, tensors, {"progress": json.dumps(progress)})


def load_checkpoint(
    path: Path, network: nn.Module, average: nn.Module, optimizers: list[torch.optim.Optimizer]
) -> dict[str, Any]:
    """Restore what `save_checkpoint` wrote, in place, and return the progress."""
    progress: dict[str, Any] = json.loads(read_metadata(path)["progress"])
    tensors = read_tensors(path)
    for prefix, module in (("network.", network), ("average.", average)):
        module.load_state_dict(
            {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        )
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    for optimizer in optimizers:
        for parameter in (p for group in optimizer.param_groups for p in group["params"]):
            for key in ("step", "exp_avg", "exp_avg_sq", "momentum_buffer"):
                value = tensors.get(f"optimizer.{key}.{names[id(parameter)]}")
                if value is not None:
                    optimizer.state[parameter][key] = value if key == "step" else value.to(parameter.device)
    return progress

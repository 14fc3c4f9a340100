"""Checkpoints of a run: one safetensors file with weights, average, optimizer moments and counters.

Written beside the old one and moved into place, so a kill at any moment leaves a whole checkpoint.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from discoformer.core.checks import show_cell
from discoformer.core.tensor_files import read_metadata, read_tensors, write_tensors

__all__ = ["check_progress", "load_checkpoint", "save_checkpoint"]


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


def check_progress(progress: dict[str, Any]) -> None:
    """Raise TypeError or ValueError unless a run can go on from this."""
    step, seconds, running = progress["step"], progress["seconds"], progress["running"]
    if type(step) is not int or step < 0:
        raise ValueError(f"step {show_cell(step)} is not a number of steps")
    if not isinstance(running, dict):
        raise TypeError("running is not a dict")
    if not all(type(x) in (int, float) and math.isfinite(x) for x in (seconds, *running.values())):
        raise ValueError("seconds or running means are not numbers")
    for key in ("usual", "recipe"):  # older checkpoints have none
        if not isinstance(progress.get(key, {}), dict):
            raise TypeError(f"{key} is not a dict")

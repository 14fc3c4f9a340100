"""Checkpoints of a run: one npz file with everything the next step depends on.

A new one is written beside the old one and moved into place, so a kill never leaves a damaged checkpoint.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from discoformer.core.atomic_files import replacing
from discoformer.core.checks import DataError
from discoformer.particles.history import Recorder
from discoformer.particles.oracles import Oracle

__all__ = ["Progress", "load_checkpoint", "save_checkpoint"]


@dataclass
class Progress:
    """How far a run has come.

    Attributes
    ----------
    points : (..., n, d)
    step : number of steps of length dt that are done
    substep : length of the next adaptive step within dt
    seconds : wall time spent
    """

    points: Tensor
    step: int
    substep: float
    seconds: float


def save_checkpoint(
    path: str | Path, run: dict[str, Any], progress: Progress, recorder: Recorder, oracle: Oracle
) -> None:
    """Write the state of a run; ``run`` identifies it and must be JSON serializable."""
    arrays: dict[str, Any] = {f"history.{name}": value for name, value in recorder.arrays().items()}
    arrays |= {f"oracle.{name}": value.cpu().numpy() for name, value in oracle.state().items()}
    arrays |= {"points": progress.points.cpu().numpy(), "run": np.array(json.dumps(run))}
    arrays["progress"] = np.array([progress.step, progress.substep, progress.seconds])
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)


def load_checkpoint(path: str | Path, run: dict[str, Any], recorder: Recorder, oracle: Oracle) -> Progress:
    """Restore recorder and oracle in place, and return the progress; ``run`` must match the checkpoint."""
    path = Path(path)
    if not path.exists():
        raise DataError(f"{path}: no checkpoint there: start the run without resume")
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = dict(file)
        written = json.loads(str(arrays["run"]))
        step, substep, seconds = arrays["progress"].tolist()
        points = torch.from_numpy(arrays["points"])
    except (OSError, ValueError, KeyError, BadZipFile, EOFError) as error:
        raise DataError(f"{path}: not a checkpoint of a particle run, or damaged ({error})") from error
    for key, value in run.items():
        if written.get(key) != value:
            raise DataError(
                f"{path}: was written with {key} {written.get(key)!r}, this run has {value!r}: "
                "repeat the options of that run, or start a new one elsewhere"
            )
    recorder.restore(_under("history.", arrays))
    oracle.restore({name: torch.from_numpy(value) for name, value in _under("oracle.", arrays).items()})
    return Progress(points, int(step), substep, seconds)


def _under(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}

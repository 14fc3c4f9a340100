"""What a run leaves behind: moments, energy and entropy over time, the particles at a few times, checkpoints.

A checkpoint is one npz file with everything the next step depends on.  A new one is written beside the old
one and moved into place, so a kill never leaves a damaged checkpoint.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.core.atomic_files import replacing
from discoformer.core.checks import DataError
from discoformer.data.files import Table
from discoformer.particles.oracles import Answer, Oracle

__all__ = ["History", "Progress", "Recorder", "covariance", "load_checkpoint", "save_checkpoint"]


def covariance(points: Tensor) -> Tensor:
    """Covariance (..., d, d) of points (..., n, d), divided by n.

    >>> covariance(torch.tensor([[0.0], [2.0]])).item()
    1.0
    """
    centered = points - points.mean(-2, keepdim=True)
    return centered.mT @ centered / points.shape[-2]


@dataclass(frozen=True)
class History:
    """Tensors over the k recorded times; a batch of samples (..., n, d) keeps its dimensions.

    Attributes
    ----------
    times : (k,)
    mean : (k, ..., d)
    covariance : (k, ..., d, d), divided by n
    energy : (k, ...), per particle: what the equation calls its energy
    entropy : (k, ...), minus the mean log density at the particles; NaN if the oracle knows only scores
    production : (k, ...), -E[u.s], the rate at which transport with velocity u changes the entropy
    seconds : (k,), wall time of the run up to this row
    frame_times, frames : (f,) and (f, ..., n, d), the particles at the times asked for
    points : (..., n, d), the particles at the end
    """

    times: Tensor
    mean: Tensor
    covariance: Tensor
    energy: Tensor
    entropy: Tensor
    production: Tensor
    seconds: Tensor
    frame_times: Tensor
    frames: Tensor
    points: Tensor

    def table(self) -> Table:
        """One row per time, for a single sample: energy, entropy, moments, seconds."""
        if self.mean.ndim != 2:
            batch = tuple(self.mean.shape[1:-1])
            raise DataError(f"a table holds one sample's run, this is a batch {batch}: integrate one by one")
        dim = self.mean.shape[-1]
        columns = {"time": self.times, "energy": self.energy, "entropy": self.entropy}
        columns |= {"entropy_production": self.production, "seconds": self.seconds}
        columns |= {f"mean_{i + 1}": self.mean[:, i] for i in range(dim)}
        columns |= {
            f"sigma_{i + 1}_{j + 1}": self.covariance[:, i, j] for i in range(dim) for j in range(i, dim)
        }
        return Table(np.column_stack([c.cpu().numpy() for c in columns.values()]), tuple(columns))


class Recorder:
    """Collects the rows of a `History`; a checkpoint saves and restores it."""

    _columns = tuple(f.name for f in fields(History) if f.name != "points")

    def __init__(self) -> None:
        self._rows: dict[str, list[Tensor]] = {name: [] for name in self._columns}

    def add(
        self,
        time: float,
        points: Tensor,
        energy: Tensor,
        answer: Answer,
        velocity: Tensor,
        seconds: float,
    ) -> None:
        """Add the row of one time."""
        score, log_density = answer
        nothing = torch.full(points.shape[:-2], torch.nan, dtype=points.dtype, device=points.device)
        row = {
            "times": torch.tensor(time, dtype=torch.float64),
            "mean": points.mean(-2),
            "covariance": covariance(points),
            "energy": energy,
            "entropy": nothing if log_density is None else -log_density.mean(-1),
            "production": -(velocity * score).sum(-1).mean(-1),
            "seconds": torch.tensor(seconds, dtype=torch.float64),
        }
        for name, value in row.items():
            self._rows[name].append(value)

    def add_frame(self, time: float, points: Tensor) -> None:
        """Keep the particles themselves."""
        self._rows["frame_times"].append(torch.tensor(time, dtype=torch.float64))
        self._rows["frames"].append(points)

    def began_at(self, points: Tensor) -> bool:
        """Whether the first row is that of these particles, up to rounding."""
        return torch.allclose(self._rows["mean"][0].to(points.device), points.mean(-2))

    def history(self, points: Tensor) -> History:
        """All rows, and the particles at the end."""
        return History(**self._stacked(), points=points)

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """All rows, to be saved."""
        return {name: value.cpu().numpy() for name, value in self._stacked().items()}

    def restore(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        """Restore rows saved by `arrays`."""
        self._rows = {name: list(torch.from_numpy(arrays[name])) for name in self._columns}

    def _stacked(self) -> dict[str, Tensor]:
        empty = torch.zeros(0, dtype=torch.float64)
        return {name: torch.stack(rows) if rows else empty for name, rows in self._rows.items()}


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

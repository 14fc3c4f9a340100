"""What adapters take: a fitted estimator, or a density itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.core.fields import Density, as_density, as_field

__all__ = ["answer", "density_of", "draw"]


def density_of(fitted: Any) -> Density:
    """The density in full of a fitted `DiScoFormer`, or the density itself.

    >>> from discoformer import KDE
    >>> density_of(KDE().fit([[0.0], [1.0]])).dim
    1
    """
    return as_density(as_field(fitted))


def draw(density: Density, rows: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """New rows (rows, d) by a NumPy generator."""
    seed = int(rng.integers(2**63 - 1))
    with torch.no_grad():
        points = density.sample(rows, torch.Generator().manual_seed(seed))
    return points.double().cpu().numpy()


def answer(density: Density, points: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log density (...) and score (..., d) at points (..., d): -inf and zero where there is no finite answer.

    Samplers walk anywhere; they turn back from where there is no mass.
    """
    values = np.asarray(points, dtype=np.float64)
    flat = torch.from_numpy(values.reshape(-1, density.dim).copy())
    finite = flat.isfinite().all(-1)
    with torch.no_grad():
        found = density._estimate(torch.where(finite.unsqueeze(-1), flat, 0.0))
    lost = ~(finite & found.log_density.isfinite() & found.score.isfinite().all(-1))
    log_density = found.log_density.double().masked_fill(lost, -torch.inf)
    score = found.score.double().masked_fill(lost.unsqueeze(-1), 0.0)
    return log_density.numpy().reshape(values.shape[:-1]), score.numpy().reshape(values.shape)

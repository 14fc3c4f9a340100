"""What adapters take: a fitted estimator, or a density itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.columns.bounds import FREE, Bound
from discoformer.core.composed import PushedDensity
from discoformer.core.fields import Density, as_density, as_field
from discoformer.core.transforms import ColumnMaps, Frame, KeptColumns

__all__ = ["answer", "bounds_of", "constraints_of", "density_of", "draw"]


def density_of(fitted: Any) -> Density:
    """The density in full of a fitted `DiScoFormer`, or the density itself.

    >>> from discoformer import KDE
    >>> density_of(KDE().fit([[0.0], [1.0]])).dim
    1
    """
    return as_density(as_field(fitted))


def bounds_of(density: Density) -> list[Bound]:
    """Low and high of every column.

    >>> from discoformer import DiScoFormer
    >>> bounds_of(DiScoFormer(model="kde-scott", bounds=[(0, None), None]).fit(np.eye(2) + 1).field_)
    [(0.0, inf), (-inf, inf)]
    """
    found = [FREE] * density.dim
    columns = list(range(density.dim))
    for transform in density.transforms if isinstance(density, PushedDensity) else ():
        if isinstance(transform, KeptColumns):
            columns = [columns[j] for j in transform.kept]
        if isinstance(transform, ColumnMaps):
            low, high = (ends.tolist() for ends in transform.bounds)
            for j, column in enumerate(columns):
                found[column] = low[j], high[j]
        if isinstance(transform, ColumnMaps | Frame):  # behind it are other coordinates
            break
    return found


def constraints_of(density: Density, constraints: Any) -> list[Any] | None:
    """The constraint of every column, out of torch's or NumPyro's; None if no column has bounds."""

    def within(low: float, high: float) -> Any:
        if math.isinf(high):
            return constraints.real if math.isinf(low) else constraints.greater_than(low)
        return constraints.less_than(high) if math.isinf(low) else constraints.interval(low, high)

    bounds = bounds_of(density)
    return None if set(bounds) == {FREE} else [within(*pair) for pair in bounds]


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

"""Langevin sampling: points drift along the score, with noise added.

    x <- x + h M s(x) + sqrt(2 h) M^(1/2) noise

A preconditioner M, by default the covariance of the points, makes one step size suit all directions.  With a
log density the move is a proposal that is accepted or rejected (MALA): then the stationary law is exact for
any step, and the step is tuned to the optimal acceptance rate (Roberts and Rosenthal 1998).  `annealed`
starts with a tempered score and cools it, so that points find modes that are far apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate, Field, PointDensity
from discoformer.samplers.oracle import (
    Score,
    Source,
    check_start,
    refuse_bounds,
    score_function,
    source_of,
    whole,
)

__all__ = ["annealed", "langevin"]

_BEST_ACCEPTANCE = 0.574  # of MALA
_INFLATED = 0.02  # what steps that cannot be refused may add to a variance, about twice
_FLAT = 1e-6  # ratio of eigenvalues of a correlation: less is none
_TUNED = 0.5  # share of the steps in which the step size is still tuned


@torch.no_grad()
def langevin(
    score: Source,
    start: Any,
    *,
    steps: int = 1000,
    step_size: float | None = None,
    adjusted: bool | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Points (n, d) of the law with this score, from points (n, d) to start from.

    Parameters
    ----------
    score : a field, a fitted `DiScoFormer`, or any function from points (n, d) to scores (n, d)
    start : (n, d); their covariance sets the scale of the steps in every direction
    steps : how many; each asks for n scores
    step_size : h; tuned in the first half of the steps by default.  Where moves can be refused, to the best
        rate of acceptance.  Where they cannot, variances grow by h / 2 times the curvature of the log
        density: h is such that this is a hundredth, and no point drifts farther than a deviation of the start
    adjusted : whether moves are accepted or rejected; by default if the field knows a log density
    generator : of the noise

    Examples
    --------
    >>> from discoformer.priors import gaussian
    >>> law = gaussian(torch.tensor([3.0, 0.0]).double(), torch.eye(2).double())
    >>> start = torch.randn(500, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> points = langevin(law, start, steps=200, generator=torch.Generator().manual_seed(1))
    >>> bool((points.mean(0) - torch.tensor([3.0, 0.0])).abs().max() < 0.2)
    True
    """
    points = check_start(start)
    _check(steps, step_size)
    source = source_of(score, points.shape[-1])
    exact = isinstance(source, PointDensity) if adjusted is None else adjusted
    if exact and not isinstance(source, PointDensity):
        raise DataError("a score alone cannot refuse moves: give a density, or adjusted=False")
    root = _root_covariance(points)
    if not exact or not isinstance(source, PointDensity):
        refuse_bounds(source, "langevin without adjusted=True")
        return _unadjusted(score_function(source), points, root, step_size, steps, generator)
    size = points.shape[-1] ** (-1 / 3) if step_size is None else step_size
    return _adjusted(source, points, root, size, steps, step_size is None, generator)


@torch.no_grad()
def annealed(
    score: Source,
    start: Any,
    *,
    temperatures: Sequence[float] = (16.0, 8.0, 4.0, 2.0, 1.0),
    steps: int = 200,
    step_size: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Langevin steps with the score of f^(1/T), for temperatures T that fall to one.

    Parameters
    ----------
    score, start, generator : as for `langevin`
    temperatures : of the stages; the last one is 1
    steps : at every temperature
    step_size : as for `langevin`

    Examples
    --------
    >>> from discoformer import KDE
    >>> modes = KDE(1.0).fit([[-8.0], [-8.1], [8.0], [8.1]])
    >>> start = torch.full((400, 1), -8.0).double() + torch.randn(400, 1).double()
    >>> right = (annealed(modes, start, steps=100) > 0).double().mean()
    >>> bool(right > 0.1)
    True
    """
    points = check_start(start)
    _check(steps, step_size)
    source = source_of(score, points.shape[-1])
    levels = [float(temperature) for temperature in np.atleast_1d(temperatures)]
    if not levels or min(levels) <= 0 or levels[-1] != 1:
        raise DataError(f"temperatures {levels}: give positive numbers that end with 1")
    for temperature in levels:
        tempered = _tempered(source, temperature)
        points = langevin(tempered, points, steps=steps, step_size=step_size, generator=generator)
    return points


def _tempered(score: Field | Score, temperature: float) -> Field | Score:
    if isinstance(score, PointDensity):
        return _Tempered(score, temperature)
    ask = score_function(score)
    return lambda points: ask(points) / temperature


@dataclass(frozen=True, repr=False)
class _Tempered(PointDensity):
    """f^(1/T), but for its constant."""

    density: PointDensity
    temperature: float

    @property
    def dim(self) -> int:
        return self.density.dim

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        log_density, score = self.density._estimate(queries)
        return Estimate(log_density / self.temperature, score / self.temperature)


def _unadjusted(
    score: Score,
    points: Tensor,
    root: Tensor,
    step_size: float | None,
    steps: int,
    generator: torch.Generator | None,
) -> Tensor:
    """Moves by a score alone; while it is tuned, the step size follows the curvature along them."""
    inverse, size, before = torch.linalg.inv(root), 1.0 if step_size is None else step_size, None
    for step in range(steps):
        pull = score(points)
        if step_size is None and step <= _TUNED * steps:
            drift, place = pull @ root.mT, points @ inverse  # in units of the columns, as the step is
            if before is None:
                curvature = drift.square().mean()  # of points of the law this is its mean
            else:
                turned, way = before[0] - drift, place - before[1]
                secant = (turned * way).sum() / way.square().sum().clamp_min(torch.finfo(way.dtype).tiny)
                curvature = torch.lerp(curvature, secant, 0.5)
            before = drift, place
            longest = drift.square().sum(-1).amax().sqrt()
            size = float(1 / torch.maximum(curvature / _INFLATED, longest).clamp_min(1))
        points = _proposal(points, pull, root, size, generator)[0]
    return points


def _adjusted(
    density: PointDensity,
    points: Tensor,
    root: Tensor,
    size: float,
    steps: int,
    tune: bool,
    generator: torch.Generator | None,
) -> Tensor:
    """Moves that are accepted or rejected; while it is tuned, the step size follows the acceptance rate."""
    log_density, score = density.estimate(points)
    empty = log_density.isneginf()
    if bool(empty.any()):  # no move leads out of there
        raise DataError(
            f"start: no density at row {int(empty.nonzero()[0, -1])} ({int(empty.sum())} such in all): "
            "start inside the bounds"
        )
    inverse = torch.linalg.inv(root)
    for step in range(steps):
        moved, noise = _proposal(points, score, root, size, generator)
        new_log_density, new_score = density._estimate(moved)
        back = ((points - moved) @ inverse - size * new_score @ root.mT) / (2 * size) ** 0.5
        log_ratio = new_log_density - log_density + 0.5 * (noise.square() - back.square()).sum(-1)
        uniform = torch.rand(log_ratio.shape, dtype=points.dtype, device=points.device, generator=generator)
        accepted = (uniform.log() < log_ratio) & moved.isfinite().all(-1)  # a NaN is refused
        points = torch.where(accepted.unsqueeze(-1), moved, points)
        log_density = torch.where(accepted, new_log_density, log_density)
        score = torch.where(accepted.unsqueeze(-1), new_score, score)
        if tune and step < _TUNED * steps:
            size *= float(torch.exp(0.2 * (accepted.double().mean() - _BEST_ACCEPTANCE)))
    return points


def _proposal(
    points: Tensor, score: Tensor, root: Tensor, size: float, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Where points drift to and are shaken, and the noise; M = root' root."""
    noise = torch.randn(points.shape, dtype=points.dtype, device=points.device, generator=generator)
    drift = size * score @ root.mT
    return points + (drift + (2 * size) ** 0.5 * noise) @ root, noise


def _root_covariance(points: Tensor) -> Tensor:
    """A matrix R (d, d) with R' R the covariance of the points, or its diagonal where they lie in a plane."""
    unit = points.std(-2, keepdim=True)
    z = (points - points.mean(-2, keepdim=True)) / unit
    correlation = z.mT @ z / (points.shape[-2] - 1)
    eigenvalues = torch.linalg.eigvalsh(correlation)
    flat = eigenvalues[..., 0] <= _FLAT * eigenvalues[..., -1]  # as of fewer points than columns
    alone = torch.eye(points.shape[-1], dtype=points.dtype, device=points.device)
    root: Tensor = torch.linalg.cholesky(torch.where(flat[..., None, None], alone, correlation)).mT
    return root * unit


def _check(steps: int, step_size: float | None) -> None:
    if not whole(steps) or steps < 1 or (step_size is not None and not step_size > 0):
        raise DataError(f"steps={steps}, step_size={step_size}: give positive numbers, steps are whole")

"""The evidence of a model from samples of its posterior, and Bayes factors of nested models.

For a normalized density phi inside of the posterior's mass and the unnormalized posterior p = L pi = Z f,

    1 / Z = E_f [phi / p],

the harmonic mean made safe by a density that is learned (McEwen and others 2021): phi is fitted to one half
of the samples, cut to where it is densest, and averaged over the other half; then the halves change roles.
The cut keeps phi / p bounded; how much is cut is what gives the smallest variance on the half that phi was
fitted to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.api.fitting import fit_sample
from discoformer.core.checks import DataError, check_points, check_weights
from discoformer.core.fields import Density, as_density, as_point_density
from discoformer.functionals import Functional
from discoformer.functionals.splits import shuffled

__all__ = ["Evidence", "evidence", "savage_dickey"]

_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # shares of the fitted mass that may be kept
_DRAWS = 10_000  # to know how much of the fitted density a cut keeps
_FOLDS = 5


class Evidence(NamedTuple):
    """The logarithm of the evidence, with its standard error.

    Attributes
    ----------
    log_evidence, standard_error : in nats
    kept : share of the fitted mass that was averaged over, in both halves
    """

    log_evidence: float
    standard_error: float
    kept: tuple[float, float]


def evidence(
    samples: Any,
    log_posterior: Callable[[NDArray[np.float64]], Any] | Any,
    *,
    weights: Any = None,
    model: Any = "default",
    seed: int = 0,
) -> Evidence:
    """Log evidence of a model, from samples of its posterior.

    Parameters
    ----------
    samples : (n, d), independent draws of the posterior: thin chains first, or the error is too small
    log_posterior : log likelihood plus log prior, not normalized: its values (n,) at the samples, or a
        function from (n, d) to them
    weights : (n,), optional
    model : as for `discoformer.DiScoFormer`
    seed : of the split and of the draws

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> posterior = rng.normal(size=(2000, 2))
    >>> log_z, error, _ = evidence(posterior, lambda x: 5 - 0.5 * (x**2).sum(-1), model="default")
    >>> abs(log_z - 5 - math.log(2 * math.pi)) < 4 * error < 0.2
    True
    """
    points = check_points(samples, "samples", min_rows=20).detach().double()
    if points.ndim != 2:
        raise DataError(f"samples have shape {tuple(points.shape)}, expected (rows, columns)")
    log_p = _values(log_posterior, points)
    mass = check_weights(weights, points)
    share = torch.full_like(log_p, 1 / len(log_p)) if mass is None else mass
    order = torch.randperm(len(points), generator=torch.Generator().manual_seed(seed))
    halves = order[: len(points) // 2], order[len(points) // 2 :]
    parts = [
        _half(points, log_p, share, mass is not None, *pair, model, seed) for pair in (halves, halves[::-1])
    ]
    # the mean of two estimates of 1 / Z, in units of the larger
    logs, variances = (torch.stack(column) for column in list(zip(*parts, strict=True))[:2])
    top = logs.max()
    scaled = (logs - top).exp()
    mean = scaled.mean()
    # what one half says of the other's fluctuations is what that says of its own: errors do not average out
    error = (variances.sqrt() * scaled).mean() / mean
    kept = (float(parts[0][2]), float(parts[1][2]))
    return Evidence(float(-(top + mean.log())), float(error), kept)


def savage_dickey(
    samples: Any,
    columns: Any,
    value: Any,
    prior_log_density: float,
    *,
    weights: Any = None,
    model: Any = "default",
) -> Functional:
    """Log Bayes factor of the nested model in which ``columns`` have ``value``, against the full model.

    Its posterior density over its prior density there (Dickey 1971), with a jackknife error over folds.

    Parameters
    ----------
    samples : (n, d), draws of the posterior of the full model
    columns : numbers of the parameters that the nested model fixes
    value : what it fixes them to
    prior_log_density : of these parameters, at that value, in the full model
    weights : (n,), optional
    model : as for `discoformer.DiScoFormer`

    Examples
    --------
    >>> posterior = np.random.default_rng(0).normal(size=(1000, 2))
    >>> log_factor, error = savage_dickey(posterior, [0], [0.0], math.log(0.1), model="default")
    >>> abs(log_factor - math.log(0.3989 / 0.1)) < 0.2
    True
    """
    wanted = [int(c) for c in np.atleast_1d(columns)]
    points = check_points(samples, "samples", min_rows=2 * _FOLDS).detach().double()
    if points.ndim != 2 or not wanted or not set(wanted) <= set(range(points.shape[-1])):
        raise DataError(f"columns {wanted}: give numbers from 0 to {points.shape[-1] - 1}")
    place = torch.as_tensor(np.atleast_1d(np.asarray(value, dtype=np.float64))).reshape(1, -1)
    if place.shape[-1] != len(wanted):
        raise DataError(f"{place.shape[-1]} value(s) for {len(wanted)} column(s): give one each")
    mass = check_weights(weights, points)
    part = points[:, wanted]

    def log_density(rows: Tensor) -> Tensor:
        field = fit_sample(part[rows], model, weights=None if mass is None else mass[rows]).field
        return as_point_density(field).log_density(place)[0]

    with torch.no_grad():
        order = shuffled(part)
        whole = log_density(order)
        left_out = torch.stack(
            [
                log_density(torch.cat([order[j::_FOLDS] for j in range(_FOLDS) if j != k]))
                for k in range(_FOLDS)
            ]
        )
    variance = (_FOLDS - 1) / _FOLDS * (left_out - left_out.mean()).square().sum()
    return Functional(float(whole) - prior_log_density, float(variance.sqrt()))


@torch.no_grad()
def _half(
    points: Tensor,
    log_p: Tensor,
    share: Tensor,
    weighted: bool,
    fit: Tensor,
    ask: Tensor,
    model: Any,
    seed: int,
) -> tuple[Tensor, Tensor, float]:
    """log of 1 / Z by the rows ``ask``, phi by the rows ``fit``; its relative variance; what is kept."""
    density = as_density(fit_sample(points[fit], model, weights=share[fit] if weighted else None).field)
    draws = _log_density(density, density.sample(_DRAWS, torch.Generator().manual_seed(seed))).sort().values
    own, other = _log_density(density, points[fit]), _log_density(density, points[ask])
    found = []
    for level in _LEVELS:
        cut = draws[round((1 - level) * len(draws))]
        _, variance = _mean(own - log_p[fit], own >= cut, share[fit], math.log(level))
        found.append((float(variance), level, cut))
    _, level, cut = min(found)
    log_mean, variance = _mean(other - log_p[ask], other >= cut, share[ask], math.log(level))
    return log_mean, variance + (1 - level) / (level * len(draws)), level


def _mean(log_ratio: Tensor, inside: Tensor, share: Tensor, log_level: float) -> tuple[Tensor, Tensor]:
    """log of the mean of phi / p over rows with these shares, and its variance over its square."""
    mass = share / share.sum()
    top = log_ratio.max()
    terms = torch.where(inside, (log_ratio - top).exp(), 0.0)
    mean = (mass * terms).sum().clamp_min(torch.finfo(terms.dtype).tiny)
    variance = (mass * (terms - mean)).square().sum() / mean.square()
    return mean.log() + top - log_level, variance


def _log_density(density: Density, points: Tensor) -> Tensor:
    return density._estimate(points).log_density.nan_to_num(nan=-torch.inf)


def _values(log_posterior: Any, points: Tensor) -> Tensor:
    found = log_posterior(points.numpy()) if callable(log_posterior) else log_posterior
    values = torch.as_tensor(np.asarray(found, dtype=np.float64)).reshape(-1)
    if values.shape != points.shape[:1] or not bool(values.isfinite().all()):
        raise DataError(
            f"log_posterior gives {len(values)} values: give a finite one for each of {len(points)} rows"
        )
    return values

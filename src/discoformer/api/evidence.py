"""The evidence of a model from samples of its posterior, and Bayes factors of nested models.

For a normalized density phi within the posterior's mass and the unnormalized posterior p = L pi = Z f,

    1 / Z = E_f [phi / p],        Z = E_phi [p h] / E_f [phi h] for any function h.

The first, a harmonic mean made safe by a learned density (McEwen and others 2021), needs only the values of
p at the samples.  phi is fitted to one half of them, cut to where it is densest, and averaged over the other
half; then the halves change roles.  It fails where phi has mass and the posterior has none, and its error
bar does not show that.  In many columns, or along thin curves, give the posterior as a function.  Then p is
also evaluated at draws of phi, and both means are bridged by the best h (Meng and Wong 1996), whose terms
are bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.api.fitting import fit_sample
from discoformer.columns.bounds import Bound, check_inside, parse_bounds
from discoformer.core.checks import DataError, check_points, check_weights, column_names
from discoformer.core.fields import Density, as_density, as_point_density
from discoformer.functionals import Functional
from discoformer.functionals.splits import shuffled

__all__ = ["Evidence", "evidence", "savage_dickey"]

_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # shares of the fitted mass that may be kept
_DRAWS = 10_000  # to know how much of the fitted density a cut keeps
_FOLDS = 5
_NEAREST, _DENSE = 10, 0.3  # so many draws within so many deviations of a value are no tail
_ROUNDS, _SETTLED = 1000, 1e-10  # of the fixed point of bridge sampling


class Evidence(NamedTuple):
    """The logarithm of the evidence, with its standard error.

    Attributes
    ----------
    log_evidence, standard_error : in nats
    kept : share of the fitted mass that was averaged over, in both halves; 1 with a function
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
    log_posterior : log likelihood plus log prior, with the constants of both, as a density of these columns:
        a function from points (m, d) to values (m,), which is asked at n further points, or its values (n,)
        at the samples.  The ``lp`` of PyMC, NumPyro and Stan is a density of other coordinates
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
    points, mass, there = _posterior(samples, weights, least=20)
    if callable(log_posterior):
        log_p = _values(log_posterior(points.numpy()), len(points))
    else:
        log_p = _values(log_posterior, len(there), of=there)
    share = torch.full_like(log_p, 1 / len(log_p)) if mass is None else mass
    order = torch.randperm(len(points), generator=torch.Generator().manual_seed(seed))
    halves = order[: len(points) // 2], order[len(points) // 2 :]
    parts = []
    for fit, ask in (halves, halves[::-1]):
        field = fit_sample(points[fit], model, weights=None if mass is None else mass[fit]).field
        if len(field.support) < points.shape[-1]:
            missing = sorted(set(range(points.shape[-1])) - set(field.support))
            raise DataError(f"column(s) {missing} have no density of their own: leave them out")
        half = _Half(as_density(field), points, log_p, share, fit, ask, torch.Generator().manual_seed(seed))
        parts.append(half.bridge(log_posterior) if callable(log_posterior) else half.harmonic())
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
    bounds: Any = None,
    weights: Any = None,
    model: Any = "default",
) -> Functional:
    """Log Bayes factor of the nested model in which ``columns`` have ``value``, against the full model.

    Its posterior density over its prior density there (Dickey 1971), with a jackknife error over folds.

    Parameters
    ----------
    samples : (n, d), draws of the posterior of the full model
    columns : the parameters that the nested model fixes, by number or, of a frame, by name
    value : what it fixes them to
    prior_log_density : of these parameters, at that value, in the full model
    bounds : where the parameters end, as for `discoformer.DiScoFormer`; a variance that the nested model
        sets to zero needs them.  At a bound the draws are taken together with their mirror images, so the
        density has to be finite there
    weights : (n,), optional
    model : as for `discoformer.DiScoFormer`

    Examples
    --------
    >>> posterior = np.random.default_rng(0).normal(size=(1000, 2))
    >>> log_factor, error = savage_dickey(posterior, [0], [0.0], math.log(0.1), model="default")
    >>> abs(log_factor - math.log(0.3989 / 0.1)) < 0.2
    True
    """
    points, mass, _ = _posterior(samples, weights, least=2 * _FOLDS)
    names = [str(name) for name in samples.columns] if hasattr(samples, "columns") else []
    wanted = _numbers(columns, names, points.shape[-1])
    prior, place = (
        _plain(given, what) for given, what in ((prior_log_density, "prior_log_density"), (value, "value"))
    )
    if prior.ndim or not np.isfinite(prior):
        raise DataError(f"prior_log_density is {prior_log_density}: give one finite number")
    place = np.atleast_1d(place)
    if place.shape != (len(wanted),):
        raise DataError(f"{place.size} value(s) for {len(wanted)} column(s): give one each")
    every = parse_bounds(bounds, points.shape[-1], names or None)
    if not np.isfinite(place).all():
        raise DataError(f"value is {value}: give finite numbers")
    ends = [every[j] for j in wanted]
    part, at = points[:, wanted], torch.from_numpy(place)
    mirrored = _at_edges(part, at, ends, wanted)
    for j in mirrored:
        low, high = ends[j]
        ends[j] = (low, 2 * high - low) if place[j] == high else (2 * low - high, high)

    def log_density(rows: Tensor) -> Tensor:
        """At the value; at the end of a column the draws and their mirror images have half of it."""
        sample, share = part[rows], None if mass is None else mass[rows]
        for j in mirrored:
            image = sample.clone()
            image[:, j] = 2 * at[j] - image[:, j]
            sample, share = torch.cat([sample, image]), None if share is None else share.repeat(2)
        field = fit_sample(sample, model, weights=share, bounds=ends).field
        found = as_point_density(field).log_density(at.reshape(1, -1))[0]
        return found + len(mirrored) * math.log(2)

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
    return Functional(float(whole) - float(prior), float(variance.sqrt()))


def _numbers(columns: Any, names: list[str], dim: int) -> list[int]:
    """Columns by number or name as distinct numbers."""
    given = list(columns) if isinstance(columns, list | tuple | np.ndarray) else [columns]
    found = [names.index(column) if column in names else column for column in given]
    whole = all(isinstance(column, Integral) and not isinstance(column, bool) for column in found)
    if not found or not whole or len(set(found)) < len(found) or not set(found) <= set(range(dim)):
        told = f", or names: {', '.join(names[:20])}" if names else ""
        raise DataError(f"columns {given}: give distinct numbers from 0 to {dim - 1}{told}")
    return [int(column) for column in found]


def _plain(given: Any, what: str) -> NDArray[np.float64]:
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{what} is {given!r}: give numbers") from None


def _at_edges(part: Tensor, at: Tensor, ends: Sequence[Bound], columns: Sequence[int]) -> list[int]:
    """In which columns of draws (n, k) the value (k,) lies at a bound; refuses it at an end without one."""
    mirrored = []
    for j, (low, high) in enumerate(ends):
        value, which = float(at[j]), column_names([columns[j]])
        check_inside(part[:, j], which, low, high)
        if not low <= value <= high:
            raise DataError(f"value {value:g} of {which} is outside its bounds ({low:g}, {high:g})")
        if value in (low, high):
            mirrored.append(j)
            continue
        # a tail thins out; where draws are dense on one side and there are none on the other, they end
        gap = part[:, j] - value
        dense = float(gap.abs().sort().values[_NEAREST - 1]) < _DENSE * float(part[:, j].std())
        if dense and (bool((gap >= 0).all()) or bool((gap <= 0).all())):
            pair = f"({value:g}, None)" if bool((gap >= 0).all()) else f"(None, {value:g})"
            raise DataError(f"the draws of {which} end at {value:g}: give bounds={{{columns[j]}: {pair}}}")
    return mirrored


@dataclass(frozen=True)
class _Half:
    """A density fitted to the rows ``fit``, to be averaged over the rows ``ask``; log p and shares of all."""

    density: Density
    points: Tensor
    log_p: Tensor
    share: Tensor
    fit: Tensor
    ask: Tensor
    generator: torch.Generator

    @torch.no_grad()
    def harmonic(self) -> tuple[Tensor, Tensor, float]:
        """log of 1 / Z, its relative variance, and the share of the fitted mass that gave the least one."""
        draws = _log_density(self.density, self.density.sample(_DRAWS, self.generator)).sort().values
        own, other = (_log_density(self.density, self.points[rows]) for rows in (self.fit, self.ask))
        found = []
        for level in _LEVELS:
            cut = draws[round((1 - level) * len(draws))]
            ratio, inside = own - self.log_p[self.fit], own >= cut
            found.append((float(_mean(ratio, inside, self.share[self.fit], math.log(level))[1]), level, cut))
        _, level, cut = min(found)
        ratio, inside = other - self.log_p[self.ask], other >= cut
        log_mean, variance = _mean(ratio, inside, self.share[self.ask], math.log(level))
        return log_mean, variance + (1 - level) / (level * len(draws)), level

    @torch.no_grad()
    def bridge(self, log_posterior: Callable[[NDArray[np.float64]], Any]) -> tuple[Tensor, Tensor, float]:
        """log of 1 / Z and its relative variance, by as many draws as there are rows to ask."""
        draws = self.density.sample(len(self.ask), self.generator).double()
        log_p = _values(log_posterior(draws.numpy()), len(draws), finite=False)
        theirs = log_p - _log_density(self.density, draws)  # log p / phi at draws
        ours = self.log_p[self.ask] - _log_density(self.density, self.points[self.ask])
        mass = self.share[self.ask] / self.share[self.ask].sum()
        worth = float(1 / mass.square().sum())
        log_s, log_t = (math.log(count / (worth + len(draws))) for count in (worth, len(draws)))
        log_z = ours.median()
        for _ in range(_ROUNDS):  # h = 1 / (s p + t Z phi)
            above = theirs - torch.logaddexp(log_s + theirs, log_t + log_z)
            below = -torch.logaddexp(log_s + ours, log_t + log_z)
            before = log_z
            log_z = above.logsumexp(0) - math.log(len(draws)) - (below + mass.log()).logsumexp(0)
            if float((log_z - before).abs()) < _SETTLED:
                break
        if not bool(log_z.isfinite()):
            raise DataError("log_posterior is -inf at every draw of the fit: is it the law of the samples?")
        upper, lower = (above - above.max()).exp(), (below - below.max()).exp()
        mean = (mass * lower).sum()
        variance = upper.var() / upper.mean().square() / len(draws)
        variance = variance + (mass * (lower - mean)).square().sum() / mean.square()
        return -log_z, variance, 1.0


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


def _posterior(samples: Any, weights: Any, least: int) -> tuple[Tensor, Tensor | None, Tensor]:
    """Draws (n, d) that count, their shares, and which of all those given they are."""
    points = check_points(samples, "samples", min_rows=least).detach().double()
    if points.ndim != 2:
        raise DataError(f"samples have shape {tuple(points.shape)}, expected (rows, columns)")
    mass = check_weights(weights, points)
    there = torch.ones(len(points), dtype=torch.bool) if mass is None else mass > 0
    points = check_points(points[there], "samples with weight", min_rows=least)
    return points, None if mass is None else mass[there], there


def _values(found: Any, count: int, *, of: Tensor | None = None, finite: bool = True) -> Tensor:
    """Log posterior at so many points, or of some; where draws of a fit may fall, -inf is an answer."""
    values = torch.as_tensor(np.asarray(found, dtype=np.float64)).reshape(-1)
    fits = len(values) == count
    values = values[of] if fits and of is not None else values
    if not fits or not bool((values.isfinite() if finite else values < torch.inf).all()):
        raise DataError(
            f"log_posterior gives {len(values)} values: give a finite one for each of {count} rows"
        )
    return values

"""Slots: the Student-t components that the mixture core keeps, and what they have seen of the points."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.models.mixture.lift import Natural, moment_matrix, natural_parameters

__all__ = [
    "Keys",
    "Moments",
    "Slots",
    "balls",
    "degrees_of_freedom",
    "log_density_of",
    "make_slots",
    "mean_and_covariance",
    "moments_of",
    "start_slots",
    "student_log_density",
]

_TINY = 1e-8  # a smaller share is that of a slot without points
_LEAST, _MOST = 2.05, 1000.0  # a covariance exists; a normal law
_TINY = 1e-8  # share of a slot without points
_FLAT = 1e-10  # information that is none
_STRIDE = 0.02  # of 1 / nu, beside half of it: far from the maximum the information is no guide


class Keys(NamedTuple):
    """What points attend to: with w = 1 + <phi(x), theta>, the logit of x is offset - power log w.

    Attributes
    ----------
    theta : (..., M, F), <phi(x), theta> is the squared Mahalanobis distance over nu
    offset, power : (..., M, 1)
    """

    theta: Tensor
    offset: Tensor
    power: Tensor


class Slots(NamedTuple):
    """M Student-t components; a leading batch (...) everywhere.

    Attributes
    ----------
    log_weight : (..., M), log of the mixture weight, normalized
    mean : (..., M, d)
    scale : (..., M, d, d), the scale matrix (the covariance is nu / (nu - 2) times it)
    nu : (..., M), degrees of freedom, above two
    temperature : (..., M), sharpens or softens the responsibilities of the next layer
    natural : of N(mean, scale); this and what follows `make_slots` fills in
    peak : (..., M), log density at the mean
    keys : for the points to attend to
    brief : whether only the statistics for weights, means and scales are collected
    """

    log_weight: Tensor
    mean: Tensor
    scale: Tensor
    nu: Tensor
    temperature: Tensor
    natural: Natural
    peak: Tensor
    keys: Keys
    brief: bool = False


def make_slots(log_weight: Tensor, mean: Tensor, scale: Tensor, nu: Tensor, temperature: Tensor) -> Slots:
    """Slots with all that follows from their parameters, computed once for all chunks of points."""
    dim = mean.shape[-1]
    natural = natural_parameters(mean, scale)
    peak = _student_peak(natural.log_peak, nu, dim)
    offset = torch.addcmul(log_weight, temperature, peak)
    power = temperature * (0.5 * (nu + dim))
    keys = Keys(natural.distance / nu.unsqueeze(-1), offset.unsqueeze(-1), power.unsqueeze(-1))
    return Slots(log_weight, mean, scale, nu, temperature, natural, peak, keys)


class Moments(NamedTuple):
    """What a slot knows of its points, per slot.

    Attributes
    ----------
    share : (..., M), part of the sample's weight
    lifted : (..., M, F), tail-weighted mean of phi(x), in the precision of the sums
    tail : (..., M), mean Student-t weight u; one for Gaussian points
    log_mixture : (..., M), mean over the slot's points, divided by d
    mean : (..., M, d)
    covariance : (..., M, d, d)
    details : (..., M, 3), for `log_density_of`; of brief slots (..., M, 0)
    """

    share: Tensor
    lifted: Tensor
    tail: Tensor
    log_mixture: Tensor
    mean: Tensor
    covariance: Tensor
    details: Tensor


def student_log_density(distance: Tensor, log_peak: Tensor, nu: Tensor, dim: int | Tensor) -> Tensor:
    """Log Student-t density from the squared Mahalanobis distance and the Gaussian's log peak.

    log t = log_peak + lgamma((nu + d)/2) - lgamma(nu/2) - d/2 log(nu/2) - (nu + d)/2 log(1 + distance/nu)
    """
    return _student_peak(log_peak, nu, dim) - 0.5 * (nu + dim) * torch.log1p(distance / nu)


def _student_peak(log_peak: Tensor, nu: Tensor, dim: int | Tensor) -> Tensor:
    half = 0.5 * nu.double()  # lgamma of thousands: in single precision their difference loses three digits
    gain = torch.lgamma(half + 0.5 * dim) - torch.lgamma(half) - 0.5 * dim * half.log()
    return log_peak + gain.to(log_peak.dtype)


def moments_of(statistics: Tensor, slots: Slots) -> Moments:
    """What the sums of `slot_statistics` (B, M, F + 5 or F + 2) over a sample say of its slots.

    The Student-t weight of a point is u = (1 + d/nu) / w.
    """
    dim = slots.mean.shape[-1]
    features = slots.keys.theta.shape[-1]
    weighted = statistics[..., :features] * (1 + dim / slots.nu).unsqueeze(-1)
    rest = statistics[..., features:].to(slots.nu.dtype)
    share = rest[..., 0]
    mass = weighted[..., 0]
    lifted = weighted / mass.clamp_min(_TINY).unsqueeze(-1)
    per_share = 1 / share.clamp_min(_TINY)
    tail = mass.to(share.dtype) * per_share
    mean, covariance = mean_and_covariance(lifted, tail, dim)
    log_mixture = rest[..., 1] * (per_share / dim)
    details = rest[..., 2:]
    return Moments(share, lifted, tail, log_mixture, mean, covariance, details)


def mean_and_covariance(lifted: Tensor, tail: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Mean and covariance from a normalized lifted moment; the tail weight makes it the M-step's.

    The difference is taken in the precision of the moment, the answers are in that of the tail weight.
    """
    matrix = moment_matrix(lifted, dim)
    mean = matrix[..., 0, 1:]
    covariance = matrix[..., 1:, 1:] - mean.unsqueeze(-1) * mean.unsqueeze(-2)
    return mean.to(tail.dtype), covariance.to(tail.dtype) * tail[..., None, None]


def log_density_of(moments: Moments, slots: Slots) -> tuple[Tensor, Tensor, Tensor]:
    """Over the points of every slot: mean entropy, and mean and variance of the log density, each (..., M).

    The log density of a point is peak - (nu + d)/2 log w.
    """
    half = 0.5 * (slots.nu + slots.mean.shape[-1])
    per_share = 1 / moments.share.clamp_min(_TINY)
    entropy, first, second = (moments.details * per_share.unsqueeze(-1)).unbind(-1)
    drop = half * first
    mean = slots.peak * (moments.share * per_share) - drop
    square = slots.peak * (mean - drop) + half.square() * second
    return entropy, mean, (square - mean.square()).clamp_min(0)


def balls(spread: Tensor, count: int, dim: int) -> Tensor:
    """Isotropic scale matrices (B, count, d, d) with standard deviation ``spread`` (B,)."""
    eye = torch.eye(dim, dtype=spread.dtype, device=spread.device)
    variance = spread.square() + 1e-5
    return (variance[:, None, None, None] * eye).expand(len(spread), count, dim, dim)


def start_slots(mean: Tensor, scale: Tensor, nu: float) -> Slots:
    """Slots of equal weight at landmarks (B, M, d), with scale matrices (B, M, d, d)."""
    flat = torch.ones_like(mean[..., 0])
    return make_slots(-math.log(mean.shape[1]) * flat, mean, scale, nu * flat, flat)


def degrees_of_freedom(moments: Moments, nu: Tensor) -> Tensor:
    """Degrees of freedom (..., M) after a step from ``nu``, at which the moments were taken, in detail.

    With w = 1 + distance / nu, the derivative of a component's mean log density by nu is

        g = (psi((nu + d) / 2) - psi(nu / 2) - d / nu - E log w + (nu + d) / nu (1 - E 1 / w)) / 2,

    and its Fisher information (Lange, Little and Taylor 1989)

        I = (psi'(nu / 2) - psi'((nu + d) / 2)) / 4 - d (nu + d + 4) / (2 nu (nu + d) (nu + d + 2)).

    Expectation-maximization of nu is slow.  A step of Fisher scoring takes a few rounds; it is taken in
    1 / nu, which is zero for a normal law and has a finite information there.

    >>> from discoformer.models.mixture.sample import InMemory
    >>> from discoformer.models.mixture.slots import make_slots, moments_of
    >>> draws = torch.randn(4000, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> points = draws[:, :1] / (draws[:, 1:].square().sum(-1, keepdim=True) / 4).sqrt()  # nu = 4
    >>> one = torch.ones(1, 1, dtype=torch.float64)
    >>> nu = 100 * one
    >>> for _ in range(8):
    ...     slots = make_slots(0 * one, 0 * one[..., None], one[..., None, None], nu, one)
    ...     nu = degrees_of_freedom(moments_of(InMemory(points[None]).statistics(slots), slots), nu)
    >>> 3.5 < float(nu) < 4.5
    True
    """
    dim = moments.mean.shape[-1]
    kind, nu = nu.dtype, nu.double()  # differences of functions that are nearly the same
    per_share = 1 / moments.share.clamp_min(_TINY).double()
    log_w = moments.details[..., 1] * per_share
    inverse_w = moments.tail / (1 + dim / nu)
    half, more = nu / 2, (nu + dim) / 2
    slope = torch.digamma(more) - torch.digamma(half) - dim / nu - log_w + (nu + dim) / nu * (1 - inverse_w)
    information = torch.polygamma(1, half) - torch.polygamma(1, more)
    information = information / 2 - dim * (nu + dim + 4) / (nu * (nu + dim) * (nu + dim + 2))
    step = -slope / (nu.square() * information).clamp_min(_FLAT)  # of 1 / nu
    most = 0.5 / nu + _STRIDE
    step = torch.minimum(torch.maximum(step, -most), most)
    return (1 / (1 / nu + step).clamp(1 / _MOST, 1 / _LEAST)).to(kind)

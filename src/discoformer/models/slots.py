"""Slots and the one pass over the points that a layer needs.

A slot is a Student-t component.  `slot_statistics` attends from points to slots and returns sums
over points: responsibilities, lifted moments, and a few log-likelihood statistics.  Sums add up over
chunks, files and machines, which is what makes the mixture core linear, streamable and distributable.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from discoformer.models.lift import Natural, natural_parameters, unvec

__all__ = [
    "Moments",
    "Slots",
    "make_slots",
    "mean_and_covariance",
    "moments_of",
    "slot_statistics",
    "start_slots",
    "student_log_density",
]

_EXTRA = 5  # sums kept beside the lifted moments: share, log mixture, entropy, log density, its square


class Slots(NamedTuple):
    """M Student-t components; a leading batch (...) everywhere.

    Attributes
    ----------
    log_weight : (..., M), log of the mixture weight, normalized
    mean : (..., M, d)
    scale : (..., M, d, d), the scale matrix (the covariance is nu / (nu - 2) times it)
    nu : (..., M), degrees of freedom, above two
    temperature : (..., M), sharpens or softens the responsibilities of the next layer
    natural : of N(mean, scale); `make_slots` fills it in
    """

    log_weight: Tensor
    mean: Tensor
    scale: Tensor
    nu: Tensor
    temperature: Tensor
    natural: Natural


def make_slots(log_weight: Tensor, mean: Tensor, scale: Tensor, nu: Tensor, temperature: Tensor) -> Slots:
    """Slots with their natural parameters, computed once for all that need them."""
    return Slots(log_weight, mean, scale, nu, temperature, natural_parameters(mean, scale))


class Moments(NamedTuple):
    """What a slot knows of its points, per slot.

    Attributes
    ----------
    share : (..., M), part of the sample's weight
    lifted : (..., M, F), tail-weighted mean of phi(x)
    tail : (..., M), mean Student-t weight u; one for Gaussian points
    log_mixture, entropy, log_density, log_density_spread : (..., M), means over the slot's points
    mean : (..., M, d)
    covariance : (..., M, d, d)
    """

    share: Tensor
    lifted: Tensor
    tail: Tensor
    log_mixture: Tensor
    entropy: Tensor
    log_density: Tensor
    log_density_spread: Tensor
    mean: Tensor
    covariance: Tensor


def student_log_density(distance: Tensor, log_peak: Tensor, nu: Tensor, dim: int) -> Tensor:
    """Log Student-t density from the squared Mahalanobis distance and the Gaussian's log peak.

    log t = log_peak + lgamma((nu + d)/2) - lgamma(nu/2) - d/2 log(nu/2) - (nu + d)/2 log(1 + distance/nu)
    """
    half = nu / 2
    constant = torch.lgamma(half + dim / 2) - torch.lgamma(half) - 0.5 * dim * half.log()
    return (log_peak + constant) - (half + dim / 2) * torch.log1p(distance / nu)


def slot_statistics(lifted: Tensor, share: Tensor | float, slots: Slots) -> Tensor:
    """Attend from points to slots and sum over the points.

    Parameters
    ----------
    lifted : (B, n, F), `lift` of the points
    share : (B, n), or one number for all: the points' shares of the whole sample
    slots : batch B, M slots

    Returns
    -------
    (B, M, 5 + F): [share, log mixture, entropy, log density, its square, tail-weighted phi], each
    multiplied by responsibility and weight and summed over the points.  Partial sums add.
    """
    dim = slots.mean.shape[-1]
    if isinstance(share, Tensor):
        column = share.unsqueeze(-1)
    else:
        column = lifted.new_full((*lifted.shape[:-1], 1), share)
    natural = slots.natural
    peak = student_log_density(torch.zeros_like(slots.nu), natural.log_peak, slots.nu, dim)
    result: Tensor = _Attend.apply(  # type: ignore[no-untyped-call]
        lifted, column, natural.theta, natural.log_peak, peak, slots.nu, slots.temperature, slots.log_weight
    )
    return result


def moments_of(statistics: Tensor, dim: int) -> Moments:
    """Normalize the sums of `slot_statistics` (B, M, 5 + F) per slot."""
    tiny = 1e-8
    share = statistics[..., 0]
    per_share = statistics[..., 1:_EXTRA] / (share + tiny).unsqueeze(-1)
    mass = statistics[..., _EXTRA]
    lifted = statistics[..., _EXTRA:] / (mass + tiny).unsqueeze(-1)
    tail = mass / (share + tiny)
    spread = (per_share[..., 3] - per_share[..., 2].square()).clamp_min(0)
    mean, covariance = mean_and_covariance(lifted, tail, dim)
    return Moments(
        share, lifted, tail, per_share[..., 0], per_share[..., 1], per_share[..., 2], spread, mean, covariance
    )


def mean_and_covariance(lifted: Tensor, tail: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Mean and covariance from a normalized lifted moment; the tail weight makes it the M-step's."""
    mean = lifted[..., 1 : 1 + dim]
    second = unvec(lifted[..., 1 + dim :], dim)
    covariance = second - mean.unsqueeze(-1) * mean.unsqueeze(-2)
    return mean, covariance * tail[..., None, None]


class _Attend(torch.autograd.Function):
    """The pass over the points, with its derivative by hand.

    Written out because it is all the time there is: a dozen in-place sweeps over (B, n, M) instead of
    the forty that autograd keeps.  In the notation of the code, per point j and slot m,

        delta = 2 (log_peak - <phi, theta>),  u = (nu + d)/(nu + delta),  h = (nu + d)/2,
        l = peak - h log(1 + delta/nu),  r = softmax_m(tau l + log_weight),  L = logsumexp, E = entropy
        sums over j of share * r * [1, L/d, E, l, l^2, u phi].
    """

    @staticmethod
    def forward(
        ctx: Any,
        lifted: Tensor,
        share: Tensor,
        theta: Tensor,
        log_peak: Tensor,
        peak: Tensor,
        nu: Tensor,
        temperature: Tensor,
        log_weight: Tensor,
    ) -> Tensor:
        dim = _dim_of(lifted.shape[-1])
        row = [t.unsqueeze(-2) for t in (log_peak, peak, nu, temperature, log_weight)]  # (B, 1, M)
        log_peak_row, peak_row, nu_row, tau, weight_row = row
        delta = (lifted @ theta.mT).mul_(-2).add_(2 * log_peak_row).clamp_min_(0)
        tail = (nu_row + dim) / (delta + nu_row)
        log_density = delta.div_(nu_row).log1p_().mul_(-(nu_row + dim) / 2).add_(peak_row)
        responsibility = (log_density * tau).add_(weight_row)
        log_mixture = torch.logsumexp(responsibility, -1, keepdim=True)
        responsibility.sub_(log_mixture).exp_()
        weighted = responsibility * log_density
        expected = weighted @ temperature.unsqueeze(-1) + responsibility @ log_weight.unsqueeze(-1)
        point = torch.cat([torch.ones_like(log_mixture), log_mixture / dim, log_mixture - expected], -1)
        sums = responsibility.mT @ (point * share)
        first = weighted.mT @ share
        second = weighted.mul_(log_density).mT @ share
        moments = torch.mul(responsibility, tail, out=weighted).mT @ (lifted * share)
        ctx.save_for_backward(lifted, share, theta, peak, nu, temperature, log_weight)
        ctx.sweep = (tail, log_density, responsibility, point)
        return torch.cat([sums, first, second, moments], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        lifted, share, theta, peak, nu, temperature, log_weight = ctx.saved_tensors
        tail, log_density, responsibility, point = ctx.sweep
        dim = _dim_of(lifted.shape[-1])
        half = (nu + dim) / 2
        gradient = gradients[0]
        g_point, g_first, g_second = gradient[..., :3], gradient[..., 3], gradient[..., 4]
        g_moments = gradient[..., _EXTRA:]
        tau = temperature.unsqueeze(-2)

        seen = responsibility @ g_point  # (B, n, 3)
        g_entropy, g_log_mixture = seen[..., 2:], seen[..., 1:2] / dim
        pull = lifted @ g_moments.mT  # (B, n, M), the gradient of r u
        inner = torch.addcmul(g_first.unsqueeze(-2), g_entropy, tau, value=-1)
        inner.addcmul_(log_density, g_second.unsqueeze(-2)).mul_(log_density)
        inner.addcmul_(tail, pull)
        inner += torch.cat([point, -g_entropy], -1) @ torch.cat([g_point, log_weight.unsqueeze(-1)], -1).mT
        inner -= (responsibility * inner).sum(-1, keepdim=True) - g_log_mixture
        g_logits = inner.mul_(responsibility)
        g_temperature = _column_sums(g_logits * log_density, share)
        g_log_weight = _column_sums(g_logits, share)

        g_log_density = torch.addcmul(g_first.unsqueeze(-2), log_density, g_second.unsqueeze(-2), value=2)
        g_log_density.mul_(responsibility).addcmul_(g_logits, tau)
        g_tail = pull.mul_(responsibility)
        g_peak = _column_sums(g_log_density, share)
        by_log_density = _column_sums(g_log_density * log_density, share)
        by_tail = _column_sums(g_log_density * tail, share)
        g_tail.mul_(tail)
        tail_first, tail_second = _column_sums(g_tail, share), _column_sums(g_tail * tail, share)
        slope = half / nu - peak / (2 * half)  # d l / d nu = slope + l/(2h) - u/2, at fixed peak
        g_nu = slope * g_peak + by_log_density / (2 * half) - by_tail / 2
        g_nu = g_nu + (tail_first - tail_second) / (2 * half)
        g_inner = g_log_density.addcdiv_(g_tail, half.unsqueeze(-2)).mul_(tail)

        g_theta = g_inner.mT @ (lifted * share)
        g_lifted = None
        if ctx.needs_input_grad[0]:
            g_lifted = (g_inner @ theta + (responsibility * tail) @ g_moments) * share
        g_log_peak = -_column_sums(g_inner, share)
        return g_lifted, None, g_theta, g_log_peak, g_peak, g_nu, g_temperature, g_log_weight


def _column_sums(matrix: Tensor, share: Tensor) -> Tensor:
    return (matrix.mT @ share).squeeze(-1)


def _dim_of(features: int) -> int:
    """The d with 1 + d + d(d+1)/2 features."""
    return (math.isqrt(8 * features + 1) - 3) // 2


def start_slots(mean: Tensor, spread: Tensor, nu: float) -> Slots:
    """Equal isotropic slots at landmarks (B, M, d) with standard deviation ``spread`` (B,)."""
    batch, count, dim = mean.shape
    eye = torch.eye(dim, dtype=mean.dtype, device=mean.device)
    variance = spread.square() + 1e-5
    scale = (variance[:, None, None, None] * eye).expand(batch, count, dim, dim)
    flat = torch.ones_like(mean[..., 0])
    return make_slots(-math.log(count) * flat, mean, scale, nu * flat, flat)

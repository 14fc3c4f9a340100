"""Degrees of freedom of Student-t components: a step towards the likeliest, from moments alone.

With w = 1 + distance / nu, the derivative of a component's mean log density by nu is

    g = (psi((nu + d) / 2) - psi(nu / 2) - d / nu - E log w + (nu + d) / nu (1 - E 1 / w)) / 2,

and its Fisher information (Lange, Little and Taylor 1989)

    I = (psi'(nu / 2) - psi'((nu + d) / 2)) / 4 - d (nu + d + 4) / (2 nu (nu + d) (nu + d + 2)).

Expectation-maximization of nu is slow.  A step of Fisher scoring takes a few rounds; it is taken in 1 / nu,
which is zero for a normal law and has a finite information there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from discoformer.models.mixture.slots import Moments

__all__ = ["degrees_of_freedom"]

_LEAST, _MOST = 2.05, 1000.0  # a covariance exists; a normal law
_EMPTY = 1e-8  # share of a slot without points
_FLAT = 1e-10  # information that is none
_STRIDE = 0.02  # of 1 / nu, beside half of it: far from the maximum the information is no guide


def degrees_of_freedom(moments: Moments, nu: Tensor) -> Tensor:
    """Degrees of freedom (..., M) after a step from ``nu``, at which the moments were taken, in detail.

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
    per_share = 1 / moments.share.clamp_min(_EMPTY).double()
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

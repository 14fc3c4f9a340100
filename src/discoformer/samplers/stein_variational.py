"""Stein's method: particles that flow towards a law by its score, and the distance of points from a law.

With a kernel k and the score s of the law f,

    phi(x)  = mean_j [k(x_j, x) s(x_j) + grad_{x_j} k(x_j, x)]               (SVGD; Liu and Wang 2016)
    KSD^2   = mean_ij [s_i'k s_j + s_i' grad_j k + s_j' grad_i k + tr grad_i grad_j k]

The second vanishes in the limit if and only if the points come from the law, for the inverse multiquadric
kernel k = (1 + |x - y|^2 / h^2)^(-1/2) (Gorham and Mackey 2017).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from discoformer.core.checks import DataError, check_context, check_weights
from discoformer.samplers.oracle import (
    Source,
    check_start,
    refuse_bounds,
    score_function,
    source_of,
    whole,
)

__all__ = ["kernel_stein_discrepancy", "svgd"]

_PAIRS = 2**22  # pairs of points at a time
_MEDIAN_ROWS = 2048  # enough to tell the median distance


@torch.no_grad()
def svgd(
    score: Source, start: Any, *, steps: int = 500, step_size: float = 0.1, decay: float = 0.9
) -> Tensor:
    """Particles (n, d) of the law with this score by Stein variational gradient descent.

    The kernel is Gaussian, its squared width the median squared distance over log n.  Steps are divided by
    a running root mean square of the direction in every column, as in the paper.

    Parameters
    ----------
    score : a field, a fitted `DiScoFormer`, or any function from points (n, d) to scores (n, d)
    start : (n, d)
    steps, step_size : how many, and how far in units of the columns' standard deviations at the start
    decay : of the running mean

    Examples
    --------
    >>> from discoformer.priors import gaussian
    >>> law = gaussian(torch.tensor([3.0]).double(), torch.eye(1).double())
    >>> points = svgd(law, torch.linspace(-1, 1, 50).double().unsqueeze(-1))
    >>> bool(abs(points.mean() - 3) < 0.1)
    True
    """
    points = check_start(start)
    if not whole(steps) or steps < 1 or not step_size > 0 or not 0 <= decay < 1:
        raise DataError(
            f"steps={steps}, step_size={step_size}, decay={decay}: give positive numbers, steps are whole"
        )
    source = source_of(score, points.shape[-1])
    refuse_bounds(source, "svgd")
    ask, count = score_function(source), points.shape[-2]
    unit = points.std(-2, keepdim=True)
    squares = torch.zeros_like(points)
    for step in range(steps):
        distance = torch.cdist(points, points).square()
        apart = distance.flatten(-2)
        width = apart.median(-1).values / math.log(count + 1)
        width = torch.where(width > 0, width, apart.mean(-1))[..., None, None]
        kernel = (-distance / width).exp()
        repulsion = 2 / width * (kernel.sum(-1, keepdim=True) * points - kernel @ points)
        flow = unit * (kernel @ ask(points) + repulsion) / count  # in units of the columns
        squares = flow.square() if step == 0 else decay * squares + (1 - decay) * flow.square()
        points = points + step_size * unit * flow / (squares.mean(-2, keepdim=True).sqrt() + 1e-6)
        if step > steps // 2:  # then ever smaller, so that it comes to rest
            step_size *= 0.99
    return points


@torch.no_grad()
def kernel_stein_discrepancy(
    points: Any, score: Source, *, weights: Any = None, bandwidth: float | None = None
) -> float:
    """How far points (n, d) are from the law with this score; zero in the limit if they come from it.

    Parameters
    ----------
    points : (n, d)
    score : a field, a fitted `DiScoFormer`, or any function from points (n, d) to scores (n, d)
    weights : (n,), optional
    bandwidth : h; the median distance of the points by default.  Give the same one to compare.

    Examples
    --------
    >>> from discoformer.priors import gaussian
    >>> law = gaussian(torch.zeros(2).double(), torch.eye(2).double())
    >>> x = law.sample(500, torch.Generator().manual_seed(0))
    >>> kernel_stein_discrepancy(x, law) < 0.1 < kernel_stein_discrepancy(x + 1, law)
    True
    """
    x = check_context(points, name="points").detach().double()
    if x.ndim != 2:
        raise DataError(f"points have shape {tuple(x.shape)}, expected (rows, columns)")
    source = source_of(score, x.shape[-1])
    refuse_bounds(source, "kernel_stein_discrepancy")
    mass = check_weights(weights, x)
    share = torch.full_like(x[:, 0], 1 / len(x)) if mass is None else mass
    some = x[:: math.ceil(len(x) / _MEDIAN_ROWS)]  # evenly: chains drift, files are sorted
    width = float(torch.pdist(some).median()) if bandwidth is None else bandwidth
    if not width > 0:
        raise DataError(
            f"bandwidth {width}: give a positive number; most points are the same if you gave none"
        )
    s = score_function(source)(x)
    x, s = x / width, s * width  # in these units the kernel has width one
    total = x.new_zeros(())
    rows = max(1, _PAIRS // len(x))
    for own, own_score, own_share in zip(x.split(rows), s.split(rows), share.split(rows), strict=True):
        offset_score = own_score @ x.mT - (own_score * own).sum(-1, keepdim=True)  # s_i.(x_j - x_i)
        other = (x * s).sum(-1) - own @ s.mT  # s_j.(x_j - x_i)
        square = torch.cdist(own, x).square()
        base = 1 + square
        inner = own_score @ s.mT * base**-0.5
        cross = (other - offset_score) * base**-1.5
        trace = x.shape[-1] * base**-1.5 - 3 * square * base**-2.5
        total = total + own_share @ (inner + cross + trace) @ share
    return float(total.clamp_min(0).sqrt()) / width

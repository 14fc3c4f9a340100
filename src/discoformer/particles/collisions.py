"""Sums over pairs of colliding particles: the right-hand side of the homogeneous Landau equation.

With the collision kernel A(z) = C |z|^g (|z|^2 I - z z') and scores s_i at velocities v_i,

    dv_i/dt = -(1/n) sum_j A(v_i - v_j) (s_i - s_j).

A is even and A(z) z = 0, so momentum is conserved and the energy does not change to first order in
time, whatever the scores are.  For Maxwell molecules (g = 0) the term of a pair is a polynomial,
whose sum over j needs only moments; other powers need all pairs, in blocks that fit the cache.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["STRENGTH", "maxwell_velocity", "pair_velocity"]

STRENGTH = 1 / 24  # C in the paper
GUARD = 1e-14  # added to |z|^2, in units of the mean variance: keeps powers finite at coinciding particles
_BLOCK = 256  # four buffers of 0.5 MB: larger ones leave the cache, smaller ones are all overhead


def maxwell_velocity(points: Tensor, scores: Tensor, strength: float) -> Tensor:
    """Velocity of Maxwell molecules (..., n, d) by moments, in O(n d^2).

    With v and s centered, S = E[vv'], G = E[sv'], and E the mean over particles, the sum over j is

        -C [(|v|^2 + tr S) s - (v.s) v - S s + (2G - G' - tr G) v - E[|v|^2 s] + E[(v.s) v]].

    Parameters
    ----------
    points, scores : (..., n, d)
    strength : C

    >>> v = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    >>> maxwell_velocity(v, torch.tensor([[0.0, 1.0], [0.0, -1.0]]), 1.0)[:, 1].tolist()
    [-4.0, 4.0]
    """
    v = points - points.mean(-2, keepdim=True)
    s = scores - scores.mean(-2, keepdim=True)
    n = v.shape[-2]
    squares = v.square().sum(-1, keepdim=True)  # (..., n, 1)
    inner = (v * s).sum(-1, keepdim=True)
    covariance = v.mT @ v / n  # (..., d, d)
    cross = v.mT @ s / n  # G'
    trace = cross.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    total = (squares + squares.mean(-2, keepdim=True)) * s - (inner + trace) * v
    total = total - s @ covariance + v @ (2 * cross - cross.mT)
    constant = (inner * v - squares * s).mean(-2, keepdim=True)
    return -strength * (total + constant)


def pair_velocity(points: Tensor, scores: Tensor, gamma: float, strength: float) -> Tensor:
    """Velocity (..., n, d) for any power of the distance, by pairs in blocks; time O(n^2 d), memory O(n d).

    With c_ij = (v_i - v_j).(s_i - s_j), W = |z|^(g+2) and K = |z|^g c, both symmetric, the sum is

        s_i sum_j W_ij - sum_j W_ij s_j - v_i sum_j K_ij + sum_j K_ij v_j,

    four thin matrix products per block, and a block (I, J) also serves (J, I).  Not differentiable.

    Parameters
    ----------
    points, scores : (..., n, d)
    gamma : g, -3 for Coulomb
    strength : C

    Notes
    -----
    Distances come from products, with an absolute error of |z|^2 of about 1e-15 times the variance.
    A pair enters the sum only through |z|^g c z, so at distance r its term has a relative error of about
    1e-15 / r^2: negligible at any distance that occurs.

    >>> v = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    >>> pair_velocity(v, torch.tensor([[0.0, 1.0], [0.0, -1.0]]), -3.0, 1.0)[:, 1].tolist()
    [-0.5, 0.5]
    """
    n, dim = points.shape[-2:]
    v = (points - points.mean(-2, keepdim=True)).detach().reshape(-1, n, dim)
    s = (scores - scores.mean(-2, keepdim=True)).detach().reshape(-1, n, dim)
    result = torch.stack([_pair_sum(v[b], s[b], gamma) for b in range(len(v))])
    return (result * (-strength / n)).reshape(points.shape)


def _pair_sum(v: Tensor, s: Tensor, gamma: float) -> Tensor:
    """Sum over j of |z|^g (|z|^2 (s_i - s_j) - z z.(s_i - s_j)) for one sample (n, d)."""
    n, dim = v.shape
    ones = torch.ones_like(v[:, :1])
    squares = v.square().sum(-1, keepdim=True)
    inner = (v * s).sum(-1, keepdim=True)
    guard = GUARD * float(squares.mean()) / dim + torch.finfo(v.dtype).tiny
    # lifted so that |z|^2 and c are one product each
    left_squares, right_squares = torch.cat([-2 * v, squares, ones], -1), torch.cat([v, ones, squares], -1)
    left_inner, right_inner = torch.cat([-s, -v, inner, ones], -1), torch.cat([v, s, ones, inner], -1)
    values = torch.cat([s, ones], -1), torch.cat([v, ones], -1)
    by_weight, by_inner = (torch.zeros_like(value) for value in values)  # (n, d + 1): sums, then totals
    buffers = v.new_empty(4, min(_BLOCK, n) ** 2)
    for start in range(0, n, _BLOCK):
        rows = slice(start, min(start + _BLOCK, n))
        for other in range(start, n, _BLOCK):
            columns = slice(other, min(other + _BLOCK, n))
            shape = (rows.stop - start, columns.stop - other)
            r2, c, power, spare = (buffer[: shape[0] * shape[1]].view(shape) for buffer in buffers)
            torch.mm(left_squares[rows], right_squares[columns].T, out=r2).clamp_(min=0)
            torch.mm(left_inner[rows], right_inner[columns].T, out=c)
            _power(r2, gamma, guard, power, spare)
            if other == start:
                power.fill_diagonal_(0)  # a particle does not collide with itself, not even by rounding
            sums = (r2.mul_(power), values[0], by_weight), (c.mul_(power), values[1], by_inner)
            for kernel, value, total in sums:
                total[rows].addmm_(kernel, value[columns])
                if other > start:
                    total[columns].addmm_(kernel.T, value[rows])
    weight, pull = by_weight[:, -1:], by_inner[:, -1:]
    return s * weight - by_weight[:, :-1] - v * pull + by_inner[:, :-1]


def _power(r2: Tensor, gamma: float, guard: float, out: Tensor, spare: Tensor) -> None:
    """(r2 + guard)^(gamma / 2) into ``out``; Coulomb's power by a square root, several times faster."""
    torch.add(r2, guard, out=out)
    if gamma == -3:
        torch.sqrt(out, out=spare)
        out.mul_(spare).reciprocal_()
    else:
        out.pow_(gamma / 2)

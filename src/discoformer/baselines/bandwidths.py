"""Bandwidth rules for kernel density estimates, each under its own name.

A bandwidth is a covariance matrix H: the kernel at a sample point x_j is N(x_j, H).  A rule returns
the `Frame` in which H is the identity, so that estimates are made with a standard kernel and
carried back by the frame's change of variables.  With n points in d columns, weights w that sum to
one and the effective sample size n_eff = 1 / sum w^2 (n without weights):

=============  ======================================================================================
``scott``      per column, h_l = std_l n_eff^(-1/(d+4)); what the paper compares with
``scott-full`` H = n_eff^(-2/(d+4)) S with S the covariance; scipy's default
``silverman``  H = (n_eff (d+2)/4)^(-2/(d+4)) S; scipy's ``silverman``
``loo``        per column, h_l = c std_l, c by the largest leave-one-out likelihood
``loo-full``   H = c^2 S, c by the largest leave-one-out likelihood; affine equivariant
number         the same h for every column
vector (d,)    one h per column
matrix (d, d)  H itself
=============  ======================================================================================

Standard deviations and covariances are unbiased (ddof = 1), with weights as in `numpy.cov` (aweights).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.frames import FrameKind, Standardize, Whiten
from discoformer.core.kernel_sums import kernel_sums, log_weights
from discoformer.core.transforms import Frame

__all__ = ["RULES", "bandwidth_frame", "effective_size", "scaled_frame"]

Rule = Callable[[Tensor, Tensor | None], Frame]
_LOO_ROWS, _LOO_PAIRS = 1024, 2**24
_GOLDEN = (math.sqrt(5) - 1) / 2


def bandwidth_frame(bandwidth: Any, context: Tensor, weights: Tensor | None = None) -> Frame:
    """Frame in which the kernel of a rule, a number, a vector or a matrix is standard.

    Parameters
    ----------
    bandwidth : str, number, (d,) or (..., d, d)
    context : (..., n, d)
    weights : (..., n), optional
        Non-negative, with sum one.

    >>> x = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64)
    >>> round(bandwidth_frame("scott", x).inverse.item(), 6) == round(3 ** -0.2, 6)
    True
    """
    if isinstance(bandwidth, str):
        if bandwidth not in RULES:
            raise DataError(
                f"bandwidth rule {bandwidth!r} is unknown: use one of {', '.join(RULES)}, or a number"
            )
        return RULES[bandwidth](context, weights)
    return _given(bandwidth, context)


def effective_size(context: Tensor, weights: Tensor | None) -> Tensor:
    """Effective sample size (sum w)^2 / sum w^2, shape (...).

    >>> effective_size(torch.zeros(2, 1), torch.tensor([0.5, 0.5])).item()
    2.0
    """
    if weights is None:
        return torch.full(
            context.shape[:-2], float(context.shape[-2]), dtype=context.dtype, device=context.device
        )
    return 1 / weights.square().sum(-1)


def scaled_frame(frame: Frame, factor: Tensor | float) -> Frame:
    """Frame of a bandwidth that is ``factor`` (...) times as wide.

    >>> x = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64)
    >>> scaled_frame(bandwidth_frame(0.5, x), 3.0).inverse.item()
    1.5
    """
    scale = torch.as_tensor(factor, dtype=frame.matrix.dtype, device=frame.matrix.device)
    dim = frame.matrix.shape[-1]
    wide = scale[..., None, None]
    return Frame(frame.center, frame.matrix / wide, frame.inverse * wide, frame.log_det - dim * scale.log())


def _rule(kind: FrameKind, factor: Callable[[Tensor, int], Tensor]) -> Rule:
    def fit(context: Tensor, weights: Tensor | None) -> Frame:
        frame, size = _unbiased(kind, context, weights)
        return scaled_frame(frame, factor(size, context.shape[-1]))

    return fit


def _loo_rule(kind: FrameKind) -> Rule:
    def fit(context: Tensor, weights: Tensor | None) -> Frame:
        frame, size = _unbiased(kind, context, weights)
        start = _scott_factor(size, context.shape[-1])
        with torch.no_grad():
            points = frame.normalize(context).reshape(-1, *context.shape[-2:])
            w = None if weights is None else weights.reshape(-1, context.shape[-2])
            best = [
                _loo_multiple(points[b], None if w is None else w[b], float(c))
                for b, c in enumerate(start.reshape(-1))
            ]
        return scaled_frame(
            frame, torch.tensor(best, dtype=context.dtype).to(context.device).reshape(start.shape)
        )

    return fit


def _loo_multiple(points: Tensor, weights: Tensor | None, start: float) -> float:
    """Scalar bandwidth with the largest leave-one-out likelihood, for standardized points (n, d).

    Copies of a point are left out together with it: otherwise the likelihood of rounded data grows
    without bound as h goes to zero.  Of more than 4096 distinct points only some are left out in turn: as
    many as make `_LOO_PAIRS` pairs, but at least `_LOO_ROWS`.  They are evenly spaced in lexicographic
    order, so the result does not depend on the order of the rows.  The estimate always uses all points.
    """
    distinct, group = torch.unique(points, dim=0, return_inverse=True)
    if weights is None:
        weights = torch.full_like(points[:, 0], 1 / len(points))
    mass = torch.zeros_like(distinct[:, 0]).index_add_(0, group, weights)
    count = len(distinct)
    rows = min(count, max(_LOO_ROWS, _LOO_PAIRS // count))
    left_out = torch.arange(rows, device=points.device) * count // rows
    share = mass[left_out]
    log_mass = log_weights(distinct, mass)

    def likelihood(log_h: float) -> float:
        scaled = distinct * math.exp(-log_h)
        log_sum, _ = kernel_sums(scaled[left_out], scaled, log_mass, exclude=left_out)
        log_density = log_sum - torch.log1p(-share) - points.shape[-1] * log_h
        return float((share * log_density).sum())

    return math.exp(_maximize(likelihood, math.log(start)))


def _maximize(function: Callable[[float], float], start: float) -> float:
    """Argument of the maximum: a grid of octaves about ``start``, widened as needed, then golden section."""
    step = math.log(2)
    values = {k: function(start + k * step) for k in range(-4, 3)}
    best = max(values, key=values.__getitem__)
    while best in (min(values), max(values)):
        k = best + (1 if best == max(values) else -1)
        values[k] = function(start + k * step)
        best = max(values, key=values.__getitem__)
    low, high = start + (best - 1) * step, start + (best + 1) * step
    inner = [high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)]
    heights = [function(v) for v in inner]
    while high - low > 1e-3:
        if heights[0] >= heights[1]:
            high, inner[1], heights[1] = inner[1], inner[0], heights[0]
            inner[0] = high - _GOLDEN * (high - low)
            heights[0] = function(inner[0])
        else:
            low, inner[0], heights[0] = inner[0], inner[1], heights[1]
            inner[1] = low + _GOLDEN * (high - low)
            heights[1] = function(inner[1])
    return (low + high) / 2


def _unbiased(kind: FrameKind, context: Tensor, weights: Tensor | None) -> tuple[Frame, Tensor]:
    """Frame of the unbiased standard deviations or covariance, and the effective sample size."""
    size = effective_size(context, weights)
    if weights is not None:
        # rows of weight zero must not hide that the others are constant
        heaviest = torch.take_along_dim(context, weights.argmax(-1)[..., None, None], -2)
        context = torch.where(weights.unsqueeze(-1) > 0, context, heaviest)
        if bool((size - 1 <= 1e-9).any()):
            raise DataError(
                "all sample weight is on one row: a bandwidth rule needs at least two, or give a number"
            )
    return scaled_frame(kind.fit(context, weights), (1 - 1 / size).rsqrt()), size


def _scott_factor(size: Tensor, dim: int) -> Tensor:
    return size ** (-1 / (dim + 4))


def _silverman_factor(size: Tensor, dim: int) -> Tensor:
    return (size * (dim + 2) / 4) ** (-1 / (dim + 4))


RULES: dict[str, Rule] = {
    "scott": _rule(Standardize(), _scott_factor),
    "scott-full": _rule(Whiten(), _scott_factor),
    "silverman": _rule(Whiten(), _silverman_factor),
    "loo": _loo_rule(Standardize()),
    "loo-full": _loo_rule(Whiten()),
}


def _given(bandwidth: Any, context: Tensor) -> Frame:
    """Frame of a bandwidth given as a number, a vector (d,) or a covariance matrix (..., d, d)."""
    dim = context.shape[-1]
    try:
        value = torch.as_tensor(bandwidth, dtype=context.dtype, device=context.device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"bandwidth is not a number, vector or matrix: {error}") from error
    if not bool(torch.isfinite(value).all()):
        raise DataError("bandwidth must be finite")
    if value.ndim < 2:
        if value.ndim == 1 and len(value) != dim:
            raise DataError(f"bandwidth has {len(value)} value(s), but the context has {dim} column(s)")
        if bool((value <= 0).any()):
            raise DataError("bandwidth must be positive")
        root = torch.diag_embed(value.expand(dim))  # H = root' root
    else:
        if value.shape[-2:] != (dim, dim):
            raise DataError(
                f"bandwidth has shape {tuple(value.shape)}, expected ({dim}, {dim}) for this context"
            )
        if not torch.allclose(value, value.mT, rtol=1e-6, atol=0):
            raise DataError("the bandwidth matrix must be symmetric")
        lower, failed = torch.linalg.cholesky_ex(value)
        if bool(failed.any()):
            raise DataError("the bandwidth matrix must be positive definite")
        root = lower.mT
    eye = torch.eye(dim, dtype=context.dtype, device=context.device)
    matrix = torch.linalg.solve_triangular(root, eye, upper=True)
    log_det = -root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return Frame(context.mean(-2, keepdim=True), matrix, root, log_det)

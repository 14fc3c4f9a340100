"""Sums of standard Gaussian kernels over a sample, exact and in bounded memory.

For queries y and context x with log weights a, in coordinates where the kernel is standard,

    log_sum(y) = log sum_j exp(a_j - |y - x_j|^2 / 2)
    mean(y)    = sum_j p_j x_j,   p = softmax_j(a_j - |y - x_j|^2 / 2)

are all a kernel density estimate needs: mean(y) - y is the gradient of log_sum.  The pairs are
visited in blocks about the size of the cache, with a running maximum, so that neither memory nor
exponents grow with the sample.  One block is two matrix products, [y, 1] [x, a - |x|^2/2]' for the
exponents (the lift of the paper's Proposition 3.5) and p [x, 1] for both sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

__all__ = ["MEMORY", "kernel_sums", "log_weights"]

MEMORY = 256 * 2**20
_BLOCK = 2**21  # pairs, 16 MB in float64: larger blocks leave the cache, smaller ones keep threads waiting
_BLOCK_COLUMNS = 2048


def log_weights(context: Tensor, weights: Tensor | None) -> Tensor:
    """Log weights (..., n) of a sample: uniform if None, very low but finite for weight zero.

    A weight of zero cannot be minus infinity here: a block of such points has no maximum.

    >>> log_weights(torch.zeros(4, 1), None).exp().tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    if weights is None:
        count = torch.tensor(context.shape[-2], dtype=context.dtype, device=context.device)
        return -count.log().expand(context.shape[:-1])
    positive = weights > 0
    # The inner `where` keeps the infinite slope of log 0 out of the gradient.
    return torch.where(positive, torch.where(positive, weights, 1).log(), _lowest(context.dtype))


def kernel_sums(
    queries: Tensor,
    context: Tensor,
    log_weight: Tensor,
    *,
    exclude: Tensor | None = None,
    memory: int = MEMORY,
) -> tuple[Tensor, Tensor]:
    """Log kernel sum and kernel-weighted mean at every query, in whitened and centered coordinates.

    Parameters
    ----------
    queries : (..., m, d)
    context : (..., n, d)
    log_weight : (..., n)
    exclude : (m,), optional
        Row of the context that each query leaves out, for leave-one-out estimates.
    memory : int
        Bytes that blocks of pairs may take; the answer does not depend on it.

    Returns
    -------
    log_sum : (..., m)
    mean : (..., m, d)

    Notes
    -----
    Products compute |y - x|^2 with an absolute error of about eps |y|^2.  Where a query is so far from
    the center that this would show, plain differences are taken instead, at several times the cost.

    >>> x = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    >>> log_sum, mean = kernel_sums(torch.zeros(1, 1, dtype=torch.float64), x, log_weights(x, None))
    >>> round(log_sum.item(), 6), mean.item()
    (-0.5, 0.0)
    """
    batch = torch.broadcast_shapes(queries.shape[:-2], context.shape[:-2])
    rows, dim = queries.shape[-2:]
    if context.ndim == 2 and exclude is None:  # one context for all: no need to repeat it
        y, x, a = queries.reshape(1, -1, dim), context[None], log_weight[None]
    else:
        y = queries.expand(*batch, *queries.shape[-2:]).reshape(-1, rows, dim)
        x = context.expand(*batch, *context.shape[-2:]).reshape(-1, *context.shape[-2:])
        a = log_weight.expand(*batch, log_weight.shape[-1]).reshape(-1, log_weight.shape[-1])
    near = y.detach().square().sum(-1) <= _near_limit(y.dtype)  # (b, m)
    if bool(near.all()):
        log_sum, mean = _all_blocks(y, x, a, exclude, memory, by_products=True)
    else:
        log_sum, mean = _mixed_blocks(y, x, a, exclude, memory, near)
    return log_sum.reshape(*batch, rows), mean.reshape(*batch, rows, dim)


def _mixed_blocks(
    y: Tensor, x: Tensor, a: Tensor, exclude: Tensor | None, memory: int, near: Tensor
) -> tuple[Tensor, Tensor]:
    """Sum near queries by products and the far ones, sample by sample, by differences."""
    log_sums, means = [], []
    for b, is_near in enumerate(near):
        log_sum, mean = torch.zeros_like(y[b, :, 0]), torch.zeros_like(y[b])
        for by_products in (True, False):
            index = (is_near == by_products).nonzero().squeeze(-1)
            if len(index) == 0:
                continue
            left_out = None if exclude is None else exclude[index]
            sums = _all_blocks(y[b : b + 1, index], x[b : b + 1], a[b : b + 1], left_out, memory, by_products)
            log_sum = log_sum.index_copy(0, index, sums[0][0])
            mean = mean.index_copy(0, index, sums[1][0])
        log_sums.append(log_sum)
        means.append(mean)
    return torch.stack(log_sums), torch.stack(means)


def _all_blocks(
    y: Tensor, x: Tensor, a: Tensor, exclude: Tensor | None, memory: int, by_products: bool
) -> tuple[Tensor, Tensor]:
    """Loop over blocks of samples and queries; y (b, m, d), x (b, n, d), a (b, n)."""
    tracked = torch.is_grad_enabled() and (y.requires_grad or x.requires_grad or a.requires_grad)
    pairs = max(1, memory // y.element_size())
    if tracked:  # the backward pass holds about four numbers per pair, for the whole context
        columns = x.shape[1]
        pairs //= 4
    else:
        pairs = min(pairs, _BLOCK)
        columns = min(x.shape[1], _BLOCK_COLUMNS, pairs)
    query_rows = max(1, min(y.shape[1], pairs // columns))
    samples = max(1, min(y.shape[0], pairs // (columns * query_rows)))
    whole = samples == y.shape[0] and query_rows == y.shape[1]
    # one buffer for all blocks: fresh memory costs more time than the products that fill it
    buffer = None if tracked else y.new_empty(samples * query_rows * columns)
    parts = []
    for batch in _slices(y.shape[0], samples):
        rows_parts = []
        for rows in _slices(y.shape[1], query_rows):
            left_out = None if exclude is None else exclude[rows]
            block = (y[batch, rows], x[batch], a[batch], left_out, columns, by_products, buffer)
            if tracked and not whole:  # recompute in the backward pass instead of storing all blocks
                sums = checkpoint(_one_block, *block, use_reentrant=False, preserve_rng_state=False)
            else:
                sums = _one_block(*block)
            rows_parts.append(sums)
        parts.append([torch.cat(part, 1) for part in zip(*rows_parts, strict=True)])
    log_sum, mean = (torch.cat(part) for part in zip(*parts, strict=True))
    return log_sum, mean


def _one_block(
    y: Tensor,
    x: Tensor,
    a: Tensor,
    exclude: Tensor | None,
    columns: int,
    by_products: bool,
    buffer: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Stream the context past a block of queries with a running maximum of the exponents."""
    lowest = _lowest(y.dtype)
    peak = y.new_full((*y.shape[:-1], 1), lowest)  # (b, m, 1)
    sums = y.new_zeros(*y.shape[:-1], y.shape[-1] + 1)  # (b, m, d + 1): moments, then total
    values = torch.cat([x, torch.ones_like(x[..., :1])], -1)
    half_norms = 0.5 * y.square().sum(-1, keepdim=True)
    if by_products:
        lifted_queries = torch.cat([y, torch.ones_like(half_norms)], -1)
        keys = torch.cat([x, (a - 0.5 * x.square().sum(-1)).unsqueeze(-1)], -1)
    for part in _slices(x.shape[1], columns):
        if by_products:
            shape = (*y.shape[:-1], part.stop - part.start)  # (b, m, k)
            out = None if buffer is None else buffer[: math.prod(shape)].view(shape)
            exponents = torch.matmul(lifted_queries, keys[:, part].mT, out=out)
        else:
            squares = _squared_distances(y, x[:, part], tracked=buffer is None)
            exponents = squares.mul_(-0.5).add_(a[:, None, part])
        if exclude is not None:
            inside = ((exclude >= part.start) & (exclude < part.stop)).nonzero().squeeze(-1)
            exponents[:, inside, exclude[inside] - part.start] = lowest
        new_peak = torch.maximum(peak, exponents.detach().amax(-1, keepdim=True))
        kernel = exponents.sub_(new_peak).exp_()
        sums = sums * (peak - new_peak).exp() + kernel @ values[:, part]
        peak = new_peak
    total = sums[..., -1:]
    log_sum = total.log() + peak - (half_norms if by_products else 0)
    return log_sum.squeeze(-1), sums[..., :-1] / total


def _squared_distances(y: Tensor, x: Tensor, tracked: bool) -> Tensor:
    """|y - x|^2 (b, m, k) by differences, without an array (b, m, k, d)."""
    if tracked:  # torch.cdist has no second derivative
        total = y.new_zeros(y.shape[0], y.shape[1], x.shape[1])
        for column in range(y.shape[-1]):
            difference = y[..., column].unsqueeze(-1) - x[..., column].unsqueeze(-2)
            total.addcmul_(difference, difference)
    else:
        total = torch.cdist(y, x, compute_mode="donot_use_mm_for_euclid_dist").square_()
    return total.clamp_(max=-_lowest(y.dtype))  # a square that overflows must stay comparable


def _slices(length: int, step: int) -> Iterator[slice]:
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))


def _lowest(dtype: torch.dtype) -> float:
    """Stands for log 0: sums and differences of a few such numbers are still finite."""
    return torch.finfo(dtype).min / 16


def _near_limit(dtype: torch.dtype) -> float:
    """Largest squared norm for products: they then err by about 2e-11 in float64 and 1e-4 in float32."""
    return 2e5 if dtype == torch.float64 else 1e3

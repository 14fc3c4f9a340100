"""Columns made normal by the network itself, in one dimension and with many slots.

A column is sorted first and, if it is long, summarized in groups of equal size: in one dimension a few
hundred means hold all the detail that the slots can resolve, and the cost no longer depends on the number of
rows.  Loops of the last layer gain nothing here.
"""

from __future__ import annotations

import torch
from torch import Tensor

from discoformer.columns.normal_scores import NormalScores
from discoformer.core.checks import DataError
from discoformer.core.composed import push
from discoformer.core.frames import refuse_constant
from discoformer.core.transforms import ColumnMaps, Frame
from discoformer.models.mixture.sample import InMemory
from discoformer.models.mixture.student import StudentMixture
from discoformer.models.mixture.unified_network import UnifiedNetwork

__all__ = ["fit_margins", "in_groups"]


def fit_margins(network: UnifiedNetwork, context: Tensor, weights: Tensor | None) -> ColumnMaps:
    """Maps of every column of a context (..., n, d) to its normal scores, all in one pass."""
    config = network.core.config
    columns = context.mT.unsqueeze(-1)  # (..., d, n, 1)
    share = None if weights is None else weights.unsqueeze(-2).expand(columns.shape[:-1])
    try:
        frame, axes = network.place(columns, share)
    except DataError:  # one column at a time: say which it is
        refuse_constant(context, weights)
        raise
    flat = frame.normalize(columns).reshape(-1, *columns.shape[-2:])
    share = None if share is None else share.reshape(flat.shape[:-1])
    sample = in_groups(flat, share, config.margin_groups)
    mixture: StudentMixture = network.core.digest(
        sample, axes=axes, slots=config.margin_slots, loops=0, evidence=True
    )
    batch = columns.shape[:-2]
    mixture = mixture.map(lambda tensor: tensor.reshape((*batch, *tensor.shape[1:])))
    return ColumnMaps(
        {j: _scores(mixture, frame, len(batch) - 1, j) for j in range(context.shape[-1])}, context.shape[-1]
    )


def in_groups(columns: Tensor, weights: Tensor | None, groups: int) -> InMemory:
    """Columns (B, n, 1), sorted and summarized in at most ``groups`` groups of neighbours, as a sample.

    With weights its size is such that no row counts for more than one point: a heavy row is not a heap.

    >>> sample = in_groups(torch.tensor([[[3.0], [1.0], [2.0], [4.0]]]), None, 2)
    >>> sample.points.flatten().tolist(), sample.total.tolist()
    ([1.5, 3.5], [[4.0]])
    """
    batch, size, _ = columns.shape
    total = None if weights is None else 1 / weights.amax(-1, keepdim=True)
    whole = InMemory(columns, weights, total=total)
    if size <= groups:
        return whole
    values, order = columns.squeeze(-1).sort(-1)
    share = torch.full_like(values, 1 / size)
    group = ((torch.arange(size, device=columns.device) * groups) // size).expand(batch, size)
    if weights is not None:  # groups of equal weight, up to rounding
        share = weights.gather(-1, order)
        before = (share.cumsum(-1) - share) * groups
        group = (before + 1e-6).long().clamp_max(groups - 1)
    mass = values.new_zeros(batch, groups).scatter_add(1, group, share)
    mean = values.new_zeros(batch, groups).scatter_add(1, group, share * values)
    mean = mean / mass.clamp_min(torch.finfo(mass.dtype).tiny)
    return InMemory(mean.unsqueeze(-1), mass, total=whole.total)


def _scores(mixture: StudentMixture, frame: Frame, axis: int, column: int) -> NormalScores:
    """The map of one column, which stands at its place along an axis of the batch."""
    own = mixture.map(lambda tensor: tensor.select(axis, column))
    outside = frame.map(lambda tensor: tensor.select(axis, column))  # center (..., 1, 1)
    mean = (own.mean * outside.inverse + outside.center).squeeze(-1)  # (..., M)
    scale = own.scale.squeeze(-1).squeeze(-1).sqrt() * outside.inverse.abs().squeeze(-1)
    log_weight, mean, scale, nu = (
        part.unsqueeze(-2) if part.ndim > 1 else part for part in (own.log_weight, mean, scale, own.nu)
    )
    free = mean.new_tensor(torch.inf)
    return NormalScores(-free, free, log_weight, mean, scale, nu, push(own, [outside]))

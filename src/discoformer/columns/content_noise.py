"""Noise that depends on the content of a row, not on its place: permuting rows permutes the noise."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["content_noise", "spread_in_bins"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def content_noise(rows: Tensor, columns: int, weights: Tensor | None = None) -> Tensor:
    """Numbers (n, columns) between 0 and 1, as if drawn at random, from the content of rows (n, d).

    Equal rows get different numbers, in the order of their ``weights`` (n,).  The weights themselves do not
    enter: they are rounded by a sum, which the order of the rows changes.

    >>> rows = torch.tensor([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]], dtype=torch.float64)
    >>> noise = content_noise(rows, 2)
    >>> bool((content_noise(rows.flip(0), 2).sort(0).values == noise.sort(0).values).all())
    True
    """
    values = np.ascontiguousarray(rows.detach().cpu().double().numpy()) + 0.0  # no negative zeros
    values[np.isnan(values)] = np.nan  # one kind of gap
    state = np.zeros(len(values), dtype=np.uint64)
    for column in values.view(np.uint64).T:
        state = _mix(state ^ column)
    order = np.argsort(state, kind="stable")
    if weights is not None:
        order = np.lexsort((weights.detach().cpu().numpy(), state))
    starts = np.flatnonzero(np.diff(state[order], prepend=~state[order[:1]]))
    run = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    occurrence = np.empty(len(order), dtype=np.uint64)
    occurrence[order] = run
    state = _mix(state ^ _mix(occurrence))
    salts = _mix(np.arange(1, columns + 1, dtype=np.uint64))
    bits = _mix(state[:, None] ^ salts) >> np.uint64(11)
    return torch.from_numpy((bits.astype(np.float64) + 0.5) / 2.0**53).to(rows.device)


def spread_in_bins(values: Tensor, noise: Tensor) -> Tensor:
    """Numbers (n,) between 0 and 1, evenly spread over the rows with the same value, in the order of noise.

    >>> spread_in_bins(torch.tensor([7.0, 7.0, 9.0]), torch.tensor([0.9, 0.1, 0.4])).tolist()
    [0.75, 0.25, 0.5]
    """
    _, bins, counts = torch.unique(values, return_inverse=True, return_counts=True)
    order = noise.argsort(stable=True)
    order = order[bins[order].argsort(stable=True)]
    rank = torch.empty_like(order)
    starts = counts.cumsum(0) - counts
    rank[order] = torch.arange(len(order), device=order.device) - starts[bins[order]]
    place: Tensor = (rank + 0.5) / counts[bins]
    return place


def _mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A step of the splitmix64 generator, on every number by itself."""
    with np.errstate(over="ignore"):
        state = state + _GOLDEN
        state = (state ^ (state >> np.uint64(30))) * _FIRST
        state = (state ^ (state >> np.uint64(27))) * _SECOND
        return state ^ (state >> np.uint64(31))

"""Fields and networks in operations that a graph can hold, for `discoformer.export.programs`.

What is traced must not look at values, nor count chunks, nor factor matrices: runtimes such as ONNX's know
products, sums and elementary functions.  So all that depends on the sample alone is computed here, once,
and the rest is written as one expression in the queries.  Checks and warnings are left out.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from discoformer.columns.bounds import BoundedField, ColumnMap, HalfLine, Interval, to_line
from discoformer.columns.support import SupportedField, support_of
from discoformer.core.checks import DataError
from discoformer.core.fields import Field
from discoformer.core.frames import Frame, Identity, scaling_frame
from discoformer.models.attention.core import AttentionCore
from discoformer.models.mixture.field import MixtureField
from discoformer.models.mixture.lift import natural_parameters
from discoformer.models.mixture.slots import student_log_density
from discoformer.models.network import Network, NetworkField

__all__ = ["NetworkReadout", "Readout", "make_readout"]


class Readout(nn.Module):
    """Queries (m, d) to log density (m,) and score (m, d)."""

    def forward(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError


def make_readout(field: Field, dtype: torch.dtype) -> Readout:
    """The read-out of a network's field, with or without bounds and left-out columns.

    >>> from discoformer import KDE
    >>> make_readout(KDE().fit([[0.0], [1.0]]), torch.float64)
    Traceback (most recent call last):
        ...
    discoformer.DataError: KDEField cannot be exported: fit a network, such as 'default'
    """
    if isinstance(field, BoundedField):
        return _BoundedReadout(field, dtype)
    if isinstance(field, SupportedField):
        return _SupportedReadout(field, dtype)
    if isinstance(field, NetworkField):
        if field.frame.matrix.ndim > 2:
            raise DataError("a batch of samples cannot be exported: fit one sample")
        if isinstance(field, MixtureField):
            return _MixtureReadout(field, dtype)
        if isinstance(field.core, AttentionCore):
            return _AttentionReadout(field, dtype)
    raise DataError(f"{type(field).__name__} cannot be exported: fit a network, such as 'default'")


class _MixtureReadout(Readout):
    """A Student-t mixture in data coordinates, by differences.

    With W W' the precision of a component in the units of the data and z = (y - mean) W,

        distance = |z|^2,  T = logsumexp_m,  S = -sum_m r_m u_m z W'

    Differences take memory, (M, m, d) numbers, that products of lifted points do not, and keep the digits
    that those lose in single precision.
    """

    def __init__(self, field: MixtureField, dtype: torch.dtype) -> None:
        super().__init__()
        frame, mixture = field.frame, field.state
        natural = natural_parameters(mixture.mean, mixture.scale)
        peak = student_log_density(torch.zeros_like(mixture.nu), natural.log_peak, mixture.nu, field.dim)
        center = frame.center.to(dtype)  # what rounding takes here goes to the means
        constants = (
            center,  # (1, d)
            (mixture.mean @ frame.inverse + (frame.center - center)).unsqueeze(-2),  # (M, 1, d)
            frame.matrix @ torch.linalg.cholesky(natural.precision),  # (M, d, d)
            (peak + mixture.log_weight + frame.log_det).unsqueeze(-1),  # (M, 1)
            mixture.nu.unsqueeze(-1),
        )
        self.center, self.mean, self.factor, self.peak, self.nu = (_own(t, dtype) for t in constants)

    def forward(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        whitened = (queries - self.center - self.mean) @ self.factor  # (M, m, d)
        distance = whitened.square().sum(-1)  # (M, m)
        heavy = self.nu + queries.shape[-1]
        logits = self.peak - 0.5 * heavy * (1 + distance / self.nu).log()
        log_density = logits.logsumexp(0)
        pull = (logits - log_density).exp() * (heavy / (self.nu + distance))
        return log_density, -((pull.unsqueeze(-1) * whitened) @ self.factor.mT).sum(0)


class _AttentionReadout(Readout):
    """An encoded context of the attention core."""

    def __init__(self, field: NetworkField, dtype: torch.dtype) -> None:
        super().__init__()
        frame, state = field.frame, field.state
        parts = (frame.center, frame.matrix, frame.inverse, frame.log_det)
        self.frame = Frame(*(_own(part, dtype) for part in parts))
        self.core = copy.deepcopy(cast(AttentionCore, field.core)).to(dtype).requires_grad_(False)
        self.state = replace(
            state,
            memory=tuple(tuple(_own(part, dtype) for part in layer) for layer in state.memory),
            log_weights=None if state.log_weights is None else _own(state.log_weights, dtype),
        )

    def forward(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        inside = self.core._stream(self.state, self.frame.normalize(queries))
        log_density, score = self.frame.denormalize_estimate(self.core._heads(inside))
        return cast(Tensor, log_density), score


class _SupportedReadout(Readout):
    """The kept columns answer, the score of the others is zero."""

    def __init__(self, field: SupportedField, dtype: torch.dtype) -> None:
        super().__init__()
        self.inner, self.kept = make_readout(field.inner, dtype), field.kept
        self.place = torch.eye(field.dim, dtype=dtype)[field.kept]  # (k, d)

    def forward(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        log_density, score = self.inner(queries[..., self.kept])
        return log_density, score @ self.place


class _BoundedReadout(Readout):
    """A sample with bounds; in double precision, whatever the queries come in.

    Columns are first moved and scaled so that their bounds are 0 and 1.  Bounds then enter as tensors: a
    number in the code would be kept in single precision by ONNX.  A bound that is rounded in the precision
    of the queries is still within.
    """

    def __init__(self, field: BoundedField, dtype: torch.dtype) -> None:
        super().__init__()
        self.inner = make_readout(field.inner, torch.float64)
        low, high = torch.tensor(field.bounds, dtype=torch.float64).unbind(-1)
        self.low = torch.minimum(low, low.to(dtype).to(torch.float64))
        self.high = torch.maximum(high, high.to(dtype).to(torch.float64))
        finite = torch.where(low.isfinite(), low, high)
        self.anchor = torch.where(finite.isfinite(), finite, 0.0)
        self.unit = torch.where((high - low).isfinite(), high - low, 1.0)
        self.maps = {column: _to_unit(column_map) for column, column_map in field.maps.items()}
        self.counts = torch.zeros(field.dim, dtype=torch.float64)
        self.counts[support_of(field)] = 1.0  # columns that the inner field left out have no say
        self.inside = field._from_line(torch.zeros(1, field.dim, dtype=torch.float64))

    def forward(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        points = queries.to(torch.float64)
        beyond = (points < self.low) | (points > self.high)
        outside = (beyond.to(torch.float64) @ self.counts) > 0
        points = (torch.where(beyond, self.inside, points) - self.anchor) / self.unit
        line, log_slope, bend = to_line(points, self.maps)
        log_density, score = self.inner(line)
        score = (score * log_slope.exp() + bend * self.counts) / self.unit
        log_density = log_density + (log_slope - self.unit.log()) @ self.counts
        log_density = torch.where(outside, -math.inf, log_density)
        score = torch.where(outside.unsqueeze(-1), 0.0, score)
        return log_density.to(queries.dtype), score.to(queries.dtype)


def _to_unit(column_map: ColumnMap) -> Interval | HalfLine:
    """The map of a column whose bounds have been moved to 0, or to 0 and 1."""
    if isinstance(column_map, Interval):
        width = column_map.high - column_map.low
        nudges = column_map.nudge_low / width, column_map.nudge_high / width
        return Interval(0.0, 1.0, *(_own(nudge, torch.float64) for nudge in nudges))
    assert isinstance(column_map, HalfLine)
    if math.isinf(column_map.high):
        return replace(column_map, low=0.0)
    return replace(column_map, high=0.0)


class NetworkReadout(nn.Module):
    """An attention network in its frame: context (n, d) and queries (m, d) to log density and score."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.core, self.frame_name = copy.deepcopy(network.core).requires_grad_(False), network.frame_name

    def forward(self, context: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
        frame = _fit_frame(self.frame_name, context)
        # With weights the size of the context enters as a tensor; without, as a number that tracing freezes.
        state = self.core.encode(frame.normalize(context), torch.ones_like(context[..., 0]))
        inside = self.core._stream(state, frame.normalize(queries))
        log_density, score = frame.denormalize_estimate(self.core._heads(inside))
        return cast(Tensor, log_density), score


def _own(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """A constant with memory of its own: files do not store views."""
    return tensor.detach().to(dtype).clone(memory_format=torch.contiguous_format)


def _fit_frame(name: str, context: Tensor) -> Frame:
    """The frame of a context (n, d), without eigenvalues."""
    if name == "identity":
        return Identity().fit(context)
    center = context.mean(-2, keepdim=True)
    scale = (context - center).square().mean(-2).sqrt()
    if name == "standardize":
        return scaling_frame(center, scale)
    standard = (context - center) / scale
    correlation = (standard.unsqueeze(-1) * standard.unsqueeze(-2)).mean(-3)
    root, inverse_root = _square_roots(correlation)
    log_det = -0.5 * torch.linalg.det(correlation).log() - scale.log().sum(-1)
    return Frame(center, inverse_root / scale.unsqueeze(-1), root * scale, log_det)


def _square_roots(correlation: Tensor, rounds: int = 30) -> tuple[Tensor, Tensor]:
    """Square root of a correlation matrix (d, d), and its inverse, by the coupled Newton-Schulz iteration.

    A small eigenvalue grows by 9/4 a round, so 30 reach whatever single precision can invert.

    >>> matrix = torch.tensor([[1.0, 0.6], [0.6, 1.0]], dtype=torch.float64)
    >>> root, inverse = _square_roots(matrix)
    >>> torch.allclose(root @ root, matrix), torch.allclose(inverse @ matrix @ inverse, torch.eye(2).double())
    (True, True)
    """
    dim = correlation.shape[-1]
    eye = torch.eye(dim, dtype=correlation.dtype, device=correlation.device)
    root, inverse = correlation / dim, eye  # no eigenvalue of a correlation matrix is above d
    for _ in range(rounds):
        step = 1.5 * eye - 0.5 * inverse @ root
        root, inverse = root @ step, step @ inverse
    return root * math.sqrt(dim), inverse / math.sqrt(dim)

"""Densities and networks in operations that a graph can hold, for `discoformer.export`.

Traced code must not look at values, count chunks, or factor matrices: runtimes such as ONNX's have products,
sums, look-ups and elementary functions.  So everything that depends only on the sample is computed here,
once.  The rest is one expression in the queries.  Checks and warnings are left out.

A margin, `NormalScores`, becomes a table of its values at knots with quintic polynomials between them, which
match value and first two derivatives at both ends: log densities and scores stay continuous.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor, nn

from discoformer.columns.normal_scores import NormalScores
from discoformer.core.checks import DataError
from discoformer.core.composed import Blend, PushedDensity, push
from discoformer.core.fields import Estimate, Field
from discoformer.core.frames import Identity, Scatter, turn_to_kurtosis
from discoformer.core.transforms import At, ColumnMap, ColumnMaps, Frame, Transform, scaling_frame
from discoformer.models.attention.core import AttentionCore
from discoformer.models.attention.network import AttentionDensity
from discoformer.models.mixture.lift import natural_parameters
from discoformer.models.mixture.slots import student_log_density
from discoformer.models.mixture.student import StudentMixture
from discoformer.models.network import Network

__all__ = ["MarginTable", "NetworkReadout", "Readout", "make_readout", "tabulate"]

_STEP = 0.1  # from knot to knot, in units of the length over which the map changes there
_WIDTH = 3.0  # distance from a component, in its scales, at which that length has grown by sqrt(2)
_REACH = 1e6  # how far the table reaches beyond the means, in units of their range plus the largest scale


def make_readout(field: Field, dtype: torch.dtype) -> Readout:
    """The read-out of a network's density, with or without bounds and left-out columns.

    >>> from discoformer import KDE
    >>> make_readout(KDE().fit([[0.0], [1.0]]), torch.float64)
    Traceback (most recent call last):
        ...
    discoformer.DataError: KDEField cannot be exported: fit a network, such as 'default'
    """
    if isinstance(field, Blend):
        return Readout(_BlendReadout(field), (), dtype, torch.float64)
    if isinstance(field, PushedDensity) and isinstance(field.base, Blend):
        blend, outer = field.base, field.transforms
        if isinstance(outer[-1], Frame):  # give each part the frame
            blend = Blend(tuple(push(part, outer[-1:]) for part in blend.parts), blend.log_weight)
            outer = outer[:-1]
        return Readout(_BlendReadout(blend), outer, dtype, torch.float64)
    frame = field.transforms[-1] if isinstance(field, PushedDensity) else None
    if not isinstance(field, PushedDensity) or not isinstance(frame, Frame):
        raise DataError(f"{type(field).__name__} cannot be exported: fit a network, such as 'default'")
    outer = field.transforms[:-1]
    if frame.matrix.ndim > 2:
        raise DataError("a batch of samples cannot be exported: fit one sample")
    precision = torch.float64 if any(isinstance(t, ColumnMaps) for t in outer) else dtype
    if isinstance(field.base, StudentMixture):
        base: nn.Module = _MixtureReadout(field.base, frame, precision)
    elif isinstance(field.base, AttentionDensity):
        _check_heads(field.base.core)
        base = _AttentionReadout(field.base, frame, precision)
    else:
        raise DataError(f"{field.base!r} cannot be exported: fit a network, such as 'default'")
    return Readout(base, outer, dtype, precision)


class Readout(nn.Module):
    """Queries (m, d) to log density (m,) and score (m, d): the base in its frame, seen through transforms.

    With bounds, everything is in double precision, whatever that of the queries.  A query on a bound counts
    as inside even if the precision of the queries rounds the bound outwards.
    """

    def __init__(
        self, base: nn.Module, transforms: Sequence[Transform], dtype: torch.dtype, precision: torch.dtype
    ) -> None:
        super().__init__()
        self.base, self.dtype, self.precision = base, dtype, precision
        self.transforms = [_own_transform(transform) for transform in transforms]

    def forward(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        places = [queries.to(self.precision)]
        for transform in self.transforms:
            if isinstance(transform, ColumnMaps):
                places[-1] = self._within(places[-1], transform)
            places.append(transform.normalize(places[-1]))
        answer = Estimate(*self.base(places[-1]))
        counts = torch.ones_like(places[-1][0], dtype=torch.bool)
        for k in reversed(range(len(self.transforms))):
            at = At(places[k], places[k + 1], counts)
            answer = self.transforms[k].estimate_outside(at, answer)
            first = At(places[k][:1], places[k + 1][:1], counts)
            counts = self.transforms[k].score_outside(first, counts.to(queries).unsqueeze(0))[0] > 0
        return answer.log_density.to(queries.dtype), answer.score.to(queries.dtype)

    def _within(self, points: Tensor, maps: ColumnMaps) -> Tensor:
        """Move points on a bound, as rounded in the queries' precision, onto the bound itself."""
        low, high = maps.bounds
        least, most = (end.to(self.dtype).to(end.dtype) for end in (low, high))
        inside = torch.minimum(torch.maximum(points, low), high)
        near = (points >= torch.minimum(low, least)) & (points <= torch.maximum(high, most))
        return torch.where(near, inside, points)


def _own_transform(transform: Transform) -> Transform:
    """The transform with tensors of its own: files do not store views."""
    if not isinstance(transform, ColumnMaps):
        return transform

    def own(column_map: ColumnMap) -> ColumnMap:
        if isinstance(column_map, NormalScores):
            column_map = tabulate(column_map)
        tensors = {item.name: getattr(column_map, item.name) for item in fields(column_map)}
        moved = {k: _own(v, torch.float64) for k, v in tensors.items() if isinstance(v, Tensor)}
        return replace(column_map, **moved)

    return replace(transform, maps={j: own(column_map) for j, column_map in transform.maps.items()})


class _MixtureReadout(nn.Module):
    """A Student-t mixture in data coordinates, by differences.

    With W W' the precision matrix of a component in the units of the data and z = (y - mean) W, the log
    density T and the score S are

        T = logsumexp_k l_k,  S = -sum_k exp(l_k - T) u_k z_k W_k',  u = (nu + d) / (nu + |z|^2)

    where l_k is the weighted log density of component k.  Differences take memory, (M, m, d) numbers, that
    products of lifted points do not.  They keep the digits that those lose in single precision.
    """

    def __init__(self, mixture: StudentMixture, frame: Frame, dtype: torch.dtype) -> None:
        super().__init__()
        natural = natural_parameters(mixture.mean, mixture.scale)
        peak = student_log_density(torch.zeros_like(mixture.nu), natural.log_peak, mixture.nu, mixture.dim)
        center = frame.center.to(dtype)  # what rounding loses here is added to the means
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


class _BlendReadout(nn.Module):
    """A mixture of several densities, each with its own read-out, in double precision."""

    def __init__(self, blend: Blend) -> None:
        super().__init__()
        if blend.log_weight.ndim > 1:
            raise DataError("a batch of samples cannot be exported: fit one sample")
        self.parts = nn.ModuleList(make_readout(part, torch.float64) for part in blend.parts)
        self.log_weight = _own(blend.log_weight, torch.float64)

    def forward(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        answers = [part(queries) for part in self.parts]
        terms = torch.stack([log_density for log_density, _ in answers], -1) + self.log_weight  # (m, K)
        log_density = terms.logsumexp(-1)
        share = (terms - log_density.unsqueeze(-1)).exp()
        scores = torch.stack([score for _, score in answers], -2)  # (m, K, d)
        return log_density, (share.unsqueeze(-1) * scores).sum(-2)


class _AttentionReadout(nn.Module):
    """An encoded context of the attention core."""

    def __init__(self, field: AttentionDensity, frame: Frame, dtype: torch.dtype) -> None:
        super().__init__()
        state = field.state
        parts = (frame.center, frame.matrix, frame.inverse, frame.log_det)
        self.frame = Frame(*(_own(part, dtype) for part in parts))
        self.core = copy.deepcopy(field.core).to(dtype).requires_grad_(False)
        self.state = replace(
            state,
            memory=tuple((_own(keys, dtype), _own(values, dtype)) for keys, values in state.memory),
            log_weights=None if state.log_weights is None else _own(state.log_weights, dtype),
        )

    def forward(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        inside = self.core._stream(self.state, self.frame.normalize(queries))
        log_density, score = self.frame.denormalize_estimate(self.core._heads(inside))
        return log_density, score


class NetworkReadout(nn.Module):
    """An attention network in its frame: context (n, d) and queries (m, d) to log density and score."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        _check_heads(network.core)
        self.core, self.frame_name = copy.deepcopy(network.core).requires_grad_(False), network.frame_name

    def forward(self, context: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
        frame = _fit_frame(self.frame_name, context)
        # With weights, the size of the context enters as a tensor; without, as a number that tracing freezes.
        state = self.core.encode(frame.normalize(context), torch.ones_like(context[..., 0]))
        inside = self.core._stream(state, frame.normalize(queries))
        log_density, score = frame.denormalize_estimate(self.core._heads(inside))
        return log_density, score


def _check_heads(core: AttentionCore) -> None:
    if core.config.estimates != "both":
        raise DataError(
            f"a network for the {core.config.estimates} alone cannot be exported: it needs both heads"
        )


def _own(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """A constant with memory of its own: files do not store views."""
    return tensor.detach().to(dtype).clone(memory_format=torch.contiguous_format)


def _fit_frame(name: str, context: Tensor) -> Frame:
    """The frame of a context (n, d); only the canonical one needs eigenvectors."""
    if name == "identity":
        return Identity().fit(context)
    center = context.mean(-2, keepdim=True)
    if name == "scatter":
        from_center = context - center
        scatter = (from_center.unsqueeze(-1) * from_center.unsqueeze(-2)).sum(-3)
        scatter = scatter + Scatter().eps * torch.eye(scatter.shape[-1]).to(scatter)
        root, inverse_root = _square_roots(scatter)
        return Frame(center, inverse_root, root, -0.5 * torch.linalg.det(scatter).log())
    scale = (context - center).square().mean(-2).sqrt()
    if name == "standardize":
        return scaling_frame(center, scale)
    standard = (context - center) / scale
    correlation = (standard.unsqueeze(-1) * standard.unsqueeze(-2)).mean(-3)
    root, inverse_root = _square_roots(correlation)
    log_det = -0.5 * torch.linalg.det(correlation).log() - scale.log().sum(-1)
    white = Frame(center, inverse_root / scale.unsqueeze(-1), root * scale, log_det)
    return turn_to_kurtosis(white, context) if name == "canonical" else white


def _square_roots(positive: Tensor, rounds: int = 30) -> tuple[Tensor, Tensor]:
    """Square root of a positive matrix (d, d), and its inverse, by the coupled Newton-Schulz iteration.

    A small eigenvalue grows by 9/4 a round, so 30 reach whatever single precision can invert.

    >>> matrix = torch.tensor([[1.0, 0.6], [0.6, 1.0]], dtype=torch.float64)
    >>> root, inverse = _square_roots(matrix)
    >>> torch.allclose(root @ root, matrix), torch.allclose(inverse @ matrix @ inverse, torch.eye(2).double())
    (True, True)
    """
    eye = torch.eye(positive.shape[-1], dtype=positive.dtype, device=positive.device)
    trace = (positive * eye).sum()
    root, inverse = positive / trace, eye  # no eigenvalue is above the trace
    for _ in range(rounds):
        step = 1.5 * eye - 0.5 * inverse @ root
        root, inverse = root @ step, step @ inverse
    return root * trace.sqrt(), inverse / trace.sqrt()


@dataclass(frozen=True)
class MarginTable(ColumnMap):
    """An increasing map, given by its knots.

    Attributes
    ----------
    knots : (K,), increasing
    polynomials : (K - 1, 6), coefficients; the variable runs from 0 at a knot to 1 at the next
    """

    knots: Tensor
    polynomials: Tensor

    def forward(self, x: Tensor) -> Tensor:
        share, _, c = self._place(x)
        return c[0] + share * (c[1] + share * (c[2] + share * (c[3] + share * (c[4] + share * c[5]))))

    def inverse(self, u: Tensor) -> Tensor:
        raise DataError("a margin as a table cannot be turned around: it is for reading only")

    def log_derivative(self, x: Tensor, u: Tensor | None = None) -> tuple[Tensor, Tensor]:
        share, width, c = self._place(x)
        slope = c[1] + share * (2 * c[2] + share * (3 * c[3] + share * (4 * c[4] + share * 5 * c[5])))
        bend = 2 * c[2] + share * (6 * c[3] + share * (12 * c[4] + share * 20 * c[5]))
        return (slope / width).log(), bend / (slope * width)

    def _place(self, x: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """How far along its interval x is, from 0 to 1, the width of the interval, and its coefficients."""
        last = self.knots.shape[0] - 2
        index = (x.unsqueeze(-1) >= self.knots[1:-1]).long().sum(-1).clamp(0, last)
        low, high = self.knots[index], self.knots[index + 1]
        share = ((x - low) / (high - low)).clamp(0, 1)
        return share, high - low, [self.polynomials[:, k][index] for k in range(6)]


def tabulate(margin: NormalScores) -> MarginTable:
    """The table of a margin.

    >>> one = torch.ones(1, dtype=torch.float64)
    >>> margin = NormalScores(-torch.inf * one[0], torch.inf * one[0], 0 * one, 3 * one, 2 * one, 5 * one)
    >>> x = torch.linspace(-9, 12, 50, dtype=torch.float64)
    >>> bool(torch.allclose(tabulate(margin).forward(x), margin.forward(x), rtol=0, atol=1e-8))
    True
    """
    knots = _knots(margin)
    u = margin.forward(knots)
    log_slope, bend = margin.log_derivative(knots, u)
    width = knots.diff()
    slope, curve = log_slope.exp(), bend * log_slope.exp()
    first, second = slope[:-1] * width, 0.5 * curve[:-1] * width**2
    rise = u.diff() - first - second
    tilt = slope[1:] * width - first - 2 * second
    turn = curve[1:] * width**2 - 2 * second
    third = 10 * rise - 4 * tilt + 0.5 * turn
    fourth = -15 * rise + 7 * tilt - turn
    fifth = 6 * rise - 3 * tilt + 0.5 * turn
    polynomials = torch.stack([u[:-1], first, second, third, fourth, fifth], -1)
    return MarginTable(margin.low, margin.high, knots, polynomials)


def _knots(margin: NormalScores) -> Tensor:
    """From end to end in steps that suit the narrowest component nearby."""
    mean, scale = margin.mean.flatten().double(), margin.scale.flatten().double()
    spread = float((mean.max() - mean.min()) + scale.max())
    at, end = float(mean.min()) - _REACH * spread, float(mean.max()) + _REACH * spread
    knots = [at]
    while at < end:
        unit = (scale.square() + ((at - mean) / _WIDTH).square()).sqrt().min()
        at += _STEP * float(unit)
        knots.append(at)
    return torch.tensor(knots, dtype=torch.float64)

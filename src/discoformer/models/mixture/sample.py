"""What the mixture core needs of a sample: its size, two parts of it, and sums over its points.

The core never sees the points themselves, so the same core works on a tensor, on files larger than memory
and on arrays on a cluster.  The sums, `slot_statistics`, are one pass of attention from points to slots.
They add up over chunks, files and machines, which makes the core linear, streamable and distributable.
Features and slots are rows in this pass and points are columns: every operation then runs along memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, Self, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from discoformer.core.threads import ordered_map
from discoformer.core.transforms import Frame
from discoformer.models.mixture.landmarks import POOL, evenly_by_radius, gather_rows, pool_of
from discoformer.models.mixture.lift import least_logit, lift, weight_and_log
from discoformer.models.mixture.slots import Slots
from discoformer.scale.stream import Stream

__all__ = ["InMemory", "Sample", "StreamedSample", "slot_scatter", "slot_statistics", "too_many"]

_TIMES = 4  # as many points as are to decide: below, a part of them would save nothing
_CHUNK = 5 * 2**19  # bytes of temporaries in one chunk: what stays in cache is fastest
_BESIDE = 96  # numbers per point beside its lift: three times the usual number of slots
_LEAST = 256  # points in a chunk: with fewer, products of matrices are slow
_SPREAD = 8  # chunks from which on all threads share them: fewer are not worth the handing over
_KEEP = 128 * 2**20  # bytes of lifted points that are kept from one pass to the next


def too_many(size: int, rows: int) -> bool:
    """Whether a sample is so large that ``rows`` of its points decide, and the rest only refine the result.

    >>> too_many(40_000, 8192), too_many(20_000, 8192)
    (True, False)
    """
    return size > _TIMES * rows


class Sample(Protocol):
    """A batch of B samples of n points in d dimensions, in normalized coordinates."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """B, n, d."""
        ...

    @property
    def total(self) -> Tensor:
        """Number of points (B, 1), or with weights the size of the equally weighted sample they equal."""
        ...

    def few(self, rows: int) -> InMemory | Self:
        """Itself, or for `too_many` points ``rows`` of them, evenly spaced in the order of their radius."""
        ...

    def pool(self) -> Tensor:
        """Points (B, k, d) that landmarks are sought among: all, or `POOL` evenly spaced as above."""
        ...

    def statistics(self, slots: Slots) -> Tensor:
        """`slot_statistics` of all points (B, M, F + 5 or F + 2)."""
        ...

    def scatter(self, slots: Slots, mean: Tensor) -> Tensor:
        """`slot_scatter` of all points (B, M, d, d) about means (B, M, d)."""
        ...


class InMemory:
    """Points (B, n, d) with weights (B, n) that sum to one, or None.

    ``total`` (B, 1) overrides the number of points they stand for.  ``once`` says that there will be one pass
    only, as over a chunk of a stream: no lifted points are kept.  ``precise`` sums are in double precision
    also where gradients are wanted: in single, scales on repeated rows would have no root.
    """

    def __init__(
        self,
        points: Tensor,
        weights: Tensor | None = None,
        *,
        total: Tensor | None = None,
        once: bool = False,
        precise: bool = False,
    ) -> None:
        self.points, self.weights, self.once, self.precise = points, weights, once, precise
        if total is not None:
            self.total = total
        elif weights is None:
            self.total = torch.full_like(points[:, :1, 0], points.shape[1])
        else:
            self.total = 1 / weights.square().sum(-1, keepdim=True)
        self._lifted: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def shape(self) -> tuple[int, int, int]:
        batch, size, dim = self.points.shape
        return batch, size, dim

    def few(self, rows: int) -> InMemory:
        if not too_many(self.points.shape[1], rows):
            return self
        which = evenly_by_radius(self.points.detach(), self.weights, rows)
        return InMemory(gather_rows(self.points, which), precise=self.precise)

    def some(self, members: Tensor) -> InMemory:
        """Some samples of the batch, by their numbers (k,)."""
        weights = None if self.weights is None else self.weights[members]
        return InMemory(self.points[members], weights, total=self.total[members], precise=self.precise)

    def pool(self) -> Tensor:
        return pool_of(self.points)

    def statistics(self, slots: Slots) -> Tensor:
        batch, size, dim = self.shape
        features = (dim + 1) * (dim + 2) // 2
        column = size * batch * self.points.element_size()  # bytes of one number per point
        parts = max(1, min(size // _LEAST, column * (features + _BESIDE) // _CHUNK))
        rows = math.ceil(size / parts)
        graph = torch.is_grad_enabled() or not self.points.requires_grad  # what is kept must have one
        tracked = torch.is_grad_enabled() and any(t.requires_grad for t in (self.points, *slots.keys))
        # Training stands rounding: there, sums in double precision are not worth a twentieth of the time.
        precise = self.points.dtype if tracked and not self.precise else torch.float64
        copies = 1 if precise == self.points.dtype else 3
        keep = graph and not self.once and copies * column * features <= _KEEP

        def part(start: int) -> Tensor:
            chunk = slice(start, start + rows)
            lifts = self._lifted.get(start)
            if lifts is None:
                exact = lift(self.points[:, chunk].to(precise))
                lifts = exact.to(self.points.dtype), exact.detach()
                if keep:
                    self._lifted[start] = lifts
            lifted, exact = lifts
            share = 1 / size if self.weights is None else self.weights[:, chunk]
            return slot_statistics(lifted, share, slots, exact)

        alone = parts < _SPREAD or tracked
        return cast(Tensor, sum((map if alone else ordered_map)(part, range(0, size, rows))))

    def scatter(self, slots: Slots, mean: Tensor) -> Tensor:
        _, size, dim = self.shape
        rows = max(1, _CHUNK // (slots.nu.numel() * dim * self.points.element_size()))
        total = torch.zeros_like(slots.scale)
        for start in range(0, size, rows):
            points = self.points[:, start : start + rows]
            share = 1 / size if self.weights is None else self.weights[:, start : start + rows]
            total = total + slot_scatter(lift(points), points, share, slots, mean)
        return total


def slot_statistics(
    lifted: Tensor, share: Tensor | float, slots: Slots, exact: Tensor | None = None
) -> Tensor:
    """Attend from points to slots and sum over the points.

    Parameters
    ----------
    lifted : (B, F, n), `lift` of the points
    share : (B, n), or one number for all: the points' shares of the whole sample
    slots : batch B, M slots
    exact : (B, F, n), the same lift in double precision if the first is in single: what is summed up, for
        covariances are small differences of moments

    Returns
    -------
    (B, M, F + 5): [phi / w, 1, log mixture, entropy, log w, (log w)^2] with w = 1 + distance / nu, each
    multiplied by responsibility and share and summed over the points; of brief slots the first F + 2.
    Partial sums add, and `moments_of` says what they mean.
    """
    row = share.unsqueeze(-2) if isinstance(share, Tensor) else None
    inputs = lifted, lifted if exact is None else exact, row, *slots.keys, slots.brief
    if torch.is_grad_enabled():
        sums: Tensor = _Attend.apply(*inputs)  # type: ignore[no-untyped-call]
    else:
        sums = _attend(*inputs, keep=not slots.brief)[0]
    return sums.mT if isinstance(share, Tensor) else sums.mT * share


def slot_scatter(lifted: Tensor, points: Tensor, share: Tensor | float, slots: Slots, mean: Tensor) -> Tensor:
    """Sums over the points of share * r / w * (x - mean) (x - mean)', (B, M, d, d); partial sums add.

    `slot_statistics` has the same but for rounding: a second moment less a squared mean, which leaves noise
    of what is narrow and far from the center.  Here nothing cancels, but it takes d / 2 times the memory.

    Parameters
    ----------
    lifted, share, slots : as for `slot_statistics`
    points : (B, n, d)
    mean : (B, M, d)
    """
    w, g = weight_and_log(slots.keys.theta, lifted)
    seen = (slots.keys.offset - slots.keys.power * g).softmax(-2) / w  # (B, M, n)
    seen = seen * (share.unsqueeze(-2) if isinstance(share, Tensor) else share)
    apart = points.unsqueeze(1) - mean.unsqueeze(2)  # (B, M, n, d)
    return (apart * seen.unsqueeze(-1)).mT @ apart


def _attend(
    lifted: Tensor,
    exact: Tensor,
    share: Tensor | None,
    theta: Tensor,
    offset: Tensor,
    power: Tensor,
    brief: bool,
    *,
    keep: bool = True,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The sums (B, F + 5 or F + 2, M), and with ``keep`` what their derivative needs; see `_Attend`."""
    w, g = weight_and_log(theta, lifted)
    r = (g * -power if keep else g.mul_(-power)).add_(offset)
    top = r.amax(-2, keepdim=True)
    total = r.sub_(top).clamp_min_(least_logit(r.dtype)).exp_().sum(-2, keepdim=True)
    r.mul_(total.reciprocal())
    log_mixture = total.log_().add_(top)
    seen = r if share is None else r * share
    moments = torch.bmm(exact, torch.div(seen, w, out=w).mT.to(exact.dtype))
    rows, rest = [torch.ones_like(top), log_mixture], []
    if not brief:
        r_g = torch.mul(r, g, out=w)
        rows.append(torch.baddbmm(log_mixture, offset.mT, r, alpha=-1).baddbmm_(power.mT, r_g))
        if share is not None:
            r_g.mul_(share)
        rest = [r_g.sum(-1).unsqueeze(-2), r_g.mul_(g).sum(-1).unsqueeze(-2)]
    point = torch.cat(rows, -2)  # (B, 3 or 2, n)
    return torch.cat([moments, torch.bmm(point, seen.mT), *rest], -2), g, r, point


class _Attend(torch.autograd.Function):
    """The pass, with its derivative by hand.

    Written by hand because nearly all the time is spent here: a dozen in-place sweeps over (B, M, n) instead
    of the forty that autograd would make.  In the notation of the code, per point j and slot m,

        w = 1 + <phi, theta>,  g = log w,  z = offset - power g,  r = softmax_m z,
        L = logsumexp_m z,  E = L - sum_m r z, the entropy,
        sums over j of share * r * [phi / w, 1, L, E, g, g^2].

    With c the gradients of the sums, the derivatives by r, by z and by <phi, theta> are, but for the share,

        R  = c_1 + c_L L + <c_phi, phi> / w + c_E E - (sum_m r c_E) z + c_g g + c_gg g^2,
        dz = r (R - sum_m r R + sum_m r c_L),
        dt = (r (c_g + 2 c_gg g - <c_phi, phi> / w) - power dz) / w.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        """Inputs as of `_attend`."""
        lifted, _, share, theta, offset, power, brief = inputs
        sums, g, r, point = _attend(*inputs)
        ctx.save_for_backward(lifted, share, theta, offset, power, g, r, point)
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        lifted, share, theta, offset, power, g, r, point = ctx.saved_tensors
        features, rows = lifted.shape[-2], point.shape[-2]
        gradient = gradients[0].to(lifted.dtype)
        c_phi, c_point = gradient[:, :features], gradient[:, features : features + rows]
        inverse = g.neg().exp_()  # 1 / w
        pull = torch.bmm(c_phi.mT, lifted).mul_(inverse)  # <c_phi, phi> / w, (B, M, n)
        seen = torch.bmm(c_point[:, 1:], r)  # sum_m r c_L and sum_m r c_E, (B, 2 or 1, n)
        if rows == 2:  # brief
            change = torch.baddbmm(pull, c_point.mT, point)
            d_t = pull.neg_()
        else:
            c_g, c_gg = gradient[:, features + rows :].unsqueeze(-1).unbind(-3)  # (B, M, 1)
            coefficients = torch.cat([c_point.mT, offset], -1)
            change = torch.baddbmm(pull, coefficients, torch.cat([point, -seen[:, 1:]], -2))
            bend = g * c_gg
            slope = bend + c_g
            d_t = (slope + bend).sub_(pull)
            change.addcmul_(slope.baddbmm_(power, seen[:, 1:]), g)
        change.sub_((change * r).sum(-2, keepdim=True).sub_(seen[:, :1]))
        if share is not None:
            r = r * share
        d_z = change.mul_(r)
        d_offset = d_z.sum(-1, keepdim=True)
        d_power = (d_z * g).sum(-1, keepdim=True).neg_()
        d_t.mul_(r).sub_(d_z.mul_(power)).mul_(inverse)
        d_theta = torch.bmm(lifted, d_t.mT).mT
        d_lifted = None
        if ctx.needs_input_grad[0]:
            d_lifted = torch.bmm(theta.mT, d_t).baddbmm_(c_phi, inverse.mul_(r))
        return d_lifted, None, None, d_theta, d_offset, d_power, None


class StreamedSample:
    """A stream in a frame: the `discoformer.models.mixture.sample.Sample` that is not in memory."""

    def __init__(self, stream: Stream, name: str, dtype: torch.dtype) -> None:
        self.stream, self.name, self.dtype = stream, name, dtype
        self.frame = stream.frame(name)

    @property
    def shape(self) -> tuple[int, int, int]:
        return 1, self.stream.rows, self.stream.source.dim

    @property
    def total(self) -> Tensor:
        return torch.tensor([[self.stream.rows]], dtype=self.dtype)

    def few(self, rows: int) -> InMemory | StreamedSample:
        if not too_many(self.stream.rows, rows):
            return self
        points = self.frame.normalize(self.stream.evenly(self.name, rows)).to(self.dtype)
        return InMemory(points.unsqueeze(0))

    def pool(self) -> Tensor:
        return self.frame.normalize(self.stream.evenly(self.name, POOL)).to(self.dtype).unsqueeze(0)

    def statistics(self, slots: Slots) -> Tensor:
        sums = self.stream.source.reduce(_Statistics(self.frame, slots), "attending")
        return sums / self.stream.rows

    def scatter(self, slots: Slots, mean: Tensor) -> Tensor:
        sums = self.stream.source.reduce(_CenteredScatter(self.frame, slots, mean), "settling")
        return sums / self.stream.rows


@dataclass(frozen=True)
class _Statistics:
    """`slot_statistics` of a chunk, in rows instead of shares of the sample."""

    frame: Frame
    slots: Slots

    def __call__(self, chunk: Tensor) -> Tensor:
        return len(chunk) * _rows(self.frame, chunk, self.slots).statistics(self.slots)


@dataclass(frozen=True)
class _CenteredScatter:
    """`slot_scatter` of a chunk, in rows."""

    frame: Frame
    slots: Slots
    mean: Tensor

    def __call__(self, chunk: Tensor) -> Tensor:
        return len(chunk) * _rows(self.frame, chunk, self.slots).scatter(self.slots, self.mean)


def _rows(frame: Frame, chunk: Tensor, slots: Slots) -> InMemory:
    """A chunk as a sample; without rows it is one that counts for nothing."""
    points = frame.normalize(chunk).to(slots.mean.dtype)
    if not len(chunk):
        points = points.new_zeros(1, points.shape[-1])
    return InMemory(points.unsqueeze(0), once=True)

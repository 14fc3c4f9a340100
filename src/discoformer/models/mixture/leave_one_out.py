"""The log density of every row of a sample under the fit without it, in closed form.

A slot's scale is S = a (A(X) + rest) / (c + kappa): X = sum_i w_i d_i d_i' is the scatter of its c points,
w = r u (responsibility times Student weight), kappa the pseudo-counts, a the inflation.  Of X a part g enters
whole, a part k along the axes only, and a part l as a ball.  Without point i

    the mean moves:      x_i - mean' = d / f,           f = 1 - w / sum w
    the scatter loses:   X' = X - (w / f) d d'
    the counts lose:     c' = c - r

With b = a (w / f) / (c + kappa), P = S^-1 and D = d' P d, what enters along the axes is a diagonal downdate,
e_j = b k u_j^2 in the columns' own coordinates u, and what enters whole is one of rank one:

    h_j = 1 - e_j P_jj,   D_1 = D + sum_j e_j (P u)_j^2 / h_j       (exact if S is diagonal)
    q = 1 - g b D_1,      D' = D_1 / (f^2 q) (c' + kappa) / (c + kappa)
    log det S' = log det S + sum_j log h_j + log q + d log((c + kappa) / (c' + kappa))

and a ball likewise.  What this does not see is that slots would stand elsewhere: responsibilities and
decisions stay as they are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from discoformer.models.mixture.axes import Axes
from discoformer.models.mixture.slots import student_log_density
from discoformer.models.mixture.student import StudentMixture

__all__ = ["Evidence", "leave_one_out"]

_LEAST = 1e-6  # what is left of a slot, at least, without one of its points
_CHUNK = 2**21  # numbers in an intermediate (B, M, k, d)


class Evidence(NamedTuple):
    """What the scales of a fitted mixture rest on, each (B, M).

    Attributes
    ----------
    pseudo : pseudo-counts of all targets
    inflation : factor of the scale
    whole : part of the scatter that enters with its off-diagonals
    along : part that enters along the axes
    ball : part that enters as a ball
    """

    pseudo: Tensor
    inflation: Tensor
    whole: Tensor
    along: Tensor
    ball: Tensor


def leave_one_out(
    mixture: StudentMixture, evidence: Evidence, points: Tensor, weights: Tensor | None, axes: Axes | None
) -> Tensor:
    """Log density (B, n) at points (B, n, d) of the mixtures (B) fitted without them, one at a time.

    ``weights`` (B, n) sum to one.  All is in the coordinates of the mixture; without ``axes`` those count.
    """
    batch, _, dim = points.shape
    often = torch.ones_like(points[..., 0])
    if weights is not None:
        often = weights / weights.square().sum(-1, keepdim=True)
    slots = _Slots.of(mixture, axes)
    rows = max(1, _CHUNK // (batch * mixture.nu.shape[-1] * dim))
    chunks = list(zip(points.split(rows, -2), often.split(rows, -1), strict=True))
    count = mass = torch.zeros_like(mixture.nu)
    for chunk, share in chunks:
        seen = slots.look(chunk, share)
        count = count + seen.responsibility.sum(-1)
        mass = mass + (seen.responsibility * seen.heavy).sum(-1)
    parts = [slots.without(slots.look(chunk, share), evidence, count, mass) for chunk, share in chunks]
    return torch.cat(parts, -1)


class _Seen(NamedTuple):
    """Points (k) as slots (M) see them: responsibilities, Student weights and squared distances (B, M, k),
    offsets from the means along the axes and precisions times these (B, M, k, d).
    """

    responsibility: Tensor
    heavy: Tensor
    distance: Tensor
    offset: Tensor
    pull: Tensor


class _Slots(NamedTuple):
    """A mixture with its precisions (B, M, d, d) along the axes, and their mean diagonal before (B, M)."""

    mixture: StudentMixture
    axes: Axes | None
    precision: Tensor
    log_det: Tensor
    inverse_variance: Tensor

    @classmethod
    def of(cls, mixture: StudentMixture, axes: Axes | None) -> _Slots:
        precision = torch.linalg.inv(mixture.scale)
        mean = precision.diagonal(dim1=-2, dim2=-1).mean(-1)
        if axes is not None:
            back = axes.inverse.unsqueeze(-3)
            precision = back @ precision @ back.mT
        return cls(mixture, axes, precision, torch.linalg.slogdet(mixture.scale)[1], mean)

    def look(self, points: Tensor, often: Tensor) -> _Seen:
        """What the slots see of points (B, k, d) that count ``often`` (B, k)."""
        nu, dim = self.mixture.nu.unsqueeze(-1), points.shape[-1]
        offset = points.unsqueeze(-3) - self.mixture.mean.unsqueeze(-2)
        if self.axes is not None:
            offset = offset @ self.axes.matrix.unsqueeze(-3)
        pull = offset @ self.precision
        distance = (offset * pull).sum(-1)
        logits = self.mixture.log_weight.unsqueeze(-1) + self._log_density(
            distance, self.log_det.unsqueeze(-1)
        )
        responsibility = logits.softmax(-2) * often.unsqueeze(-2)
        return _Seen(responsibility, (nu + dim) / (nu + distance), distance, offset, pull)

    def without(self, seen: _Seen, evidence: Evidence, count: Tensor, mass: Tensor) -> Tensor:
        """Log densities (B, k) of points under the fit without them; ``count``, ``mass`` (B, M) of all."""
        dim = seen.offset.shape[-1]
        pseudo, inflation, whole, along, ball = (part.unsqueeze(-1) for part in evidence)  # (B, M, 1)
        count, mass = count.unsqueeze(-1).clamp_min(_LEAST), mass.unsqueeze(-1).clamp_min(_LEAST)
        weight = seen.responsibility * seen.heavy
        left = _positive(1 - weight / mass)  # f
        step = inflation * weight / left / (count + pseudo)  # b
        lost = (step * along).unsqueeze(-1) * seen.offset.square()  # e
        kept = _positive(1 - lost * self.precision.diagonal(dim1=-2, dim2=-1).unsqueeze(-2))  # h
        distance = seen.distance + (lost * seen.pull.square() / kept).sum(-1)
        round_kept = _positive(1 - step * ball * distance / dim)
        distance = distance / round_kept
        rank_one = _positive(1 - whole * step * distance)  # q
        fewer = (count - seen.responsibility).clamp_min(0)
        ratio = (count + pseudo) / (fewer + pseudo).clamp_min(_LEAST)
        distance = distance / (left.square() * rank_one * ratio)
        log_det = self.log_det.unsqueeze(-1) + kept.log().sum(-1) + rank_one.log()
        log_det = log_det + dim * (round_kept.log() + ratio.log())
        log_weight = self.mixture.log_weight.unsqueeze(-1) + (fewer / count).log()
        log_weight = log_weight - log_weight.logsumexp(-2, keepdim=True)
        return (log_weight + self._log_density(distance, log_det)).logsumexp(-2)

    def _log_density(self, distance: Tensor, log_det: Tensor) -> Tensor:
        dim = self.mixture.dim
        log_peak = -0.5 * (dim * math.log(2 * math.pi) + log_det)
        return student_log_density(distance, log_peak, self.mixture.nu.unsqueeze(-1), dim)


def _positive(tensor: Tensor) -> Tensor:
    return tensor.clamp_min(_LEAST)

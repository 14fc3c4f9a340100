"""The one pass over the points that a layer needs: attention from points to slots, and sums back.

Sums over points add up over chunks, files and machines, which is what makes the mixture core linear,
streamable and distributable.  Features and slots are rows here and points are columns: every operation
then runs along memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from discoformer.models.mixture.lift import least_logit, weight_and_log
from discoformer.models.mixture.slots import Slots

__all__ = ["slot_scatter", "slot_statistics"]


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

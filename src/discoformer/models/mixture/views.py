"""Two views of a sample: as it is, and with its margins made normal, weighed by leave-one-out likelihood.

Real columns are skewed, heaped and rounded; the network itself, in one dimension and with many slots, makes
each of them normal (`columns.margins`), and the same network then sees the dependence alone.  Where clusters
are clear or rows are few the sample is better left as it is.  Which view is right tells the likelihood of
every row under the fits without it, in closed form: the density is the mixture of both views with the weights
that maximize it.  No folds, no cuts: one row changes the weights by about 1/n.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from discoformer.columns.margins import NormalScores
from discoformer.core.blend import Blend
from discoformer.core.checks import check_untracked
from discoformer.core.fields import Density
from discoformer.core.pushforward import Pushforward, push
from discoformer.core.transforms import ColumnMap, ColumnMaps, Frame
from discoformer.models.mixture.student import StudentMixture
from discoformer.models.mixture.unified_network import UnifiedNetwork
from discoformer.models.network import TorchMethod

__all__ = ["Views", "fit_margins", "view_weights"]

_LOG_ROOT = 0.5 * math.log(2 * math.pi)


class Views(TorchMethod):
    """A unified network that looks at a sample as it is, and with its margins made normal.

    Parameters
    ----------
    network : looks both times
    margin_slots : slots at most in one dimension, where margins are heaped
    """

    def __init__(self, network: UnifiedNetwork, margin_slots: int = 64) -> None:
        super().__init__()
        self.network = network
        self.margin_slots = margin_slots

    def for_few_rows(self) -> Views:
        """Itself: the network sees how many rows there are."""
        return self

    def pads_from(self, dim: int) -> int:
        """As the network; margins have more slots."""
        return max(2 * self.margin_slots, self.network.pads_from(dim))

    def _fit(self, context: Tensor, weights: Tensor | None) -> Density:
        check_untracked(weights)
        if torch.is_grad_enabled() and context.requires_grad:
            return self.network._fit(context, weights)
        return self.fit_and_leave_out(context, weights)[0]

    @torch.no_grad()
    def fit_and_leave_out(self, context: Tensor, weights: Tensor | None = None) -> tuple[Density, Tensor]:
        """The density of a context (..., n, d), and the log density (..., n) of each row without that row."""
        context = context.to(self.dtype)
        plain, plain_left_out = self.network.fit_and_leave_out(context, weights)
        maps, margin_left_out = fit_margins(self.network, context, weights, self.margin_slots)
        scores = maps.normalize(context)
        inner, inner_left_out = self.network.fit_and_leave_out(scores, weights)
        gained = margin_left_out + 0.5 * scores.square() + _LOG_ROOT  # of log u' without the row
        left_out = torch.stack([plain_left_out, inner_left_out + gained.sum(-1)], -1)  # (..., n, 2)
        log_weight = view_weights(left_out, weights).log()
        mixed = (left_out + log_weight.unsqueeze(-2)).logsumexp(-1)
        return Blend((plain, push(inner, [maps])), log_weight), mixed


def fit_margins(
    network: UnifiedNetwork, context: Tensor, weights: Tensor | None, slots: int
) -> tuple[ColumnMaps, Tensor]:
    """Maps of every column of (..., n, d) to its normal scores, and the margins' log densities (..., n, d)
    of each row without that row; all columns in one pass.
    """
    columns = context.mT.unsqueeze(-1)  # (..., d, n, 1)
    share = None if weights is None else weights.unsqueeze(-2).expand(columns.shape[:-1])
    density, left_out = network.fit_and_leave_out(columns, share, slots=slots)
    assert isinstance(density, Pushforward)
    mixture, frame = density.base, density.transforms[-1]
    assert isinstance(mixture, StudentMixture)
    assert isinstance(frame, Frame)
    mean = frame.denormalize(mixture.mean).mT  # (..., d, 1, M)
    scale = (mixture.scale.squeeze(-1).mT.sqrt() * frame.inverse.abs()).expand_as(mean)
    free = mean.new_tensor(torch.inf)
    maps: dict[int, ColumnMap] = {}
    for j in range(context.shape[-1]):
        parts = (mixture.log_weight.unsqueeze(-2), mean, scale, mixture.nu.unsqueeze(-2))
        own = [part[..., j, :, :] if context.ndim > 2 else part[j, 0] for part in parts]
        maps[j] = NormalScores(-free, free, *own)
    return ColumnMaps(maps, context.shape[-1]), left_out.mT


def view_weights(left_out: Tensor, weights: Tensor | None, rounds: int = 100) -> Tensor:
    """Weights (..., K) that maximize the mean of log sum_k w_k exp(left_out (..., n, K)).

    >>> left_out = torch.tensor([[0.0, -9.0], [0.0, -9.0], [-9.0, 0.0]], dtype=torch.float64)
    >>> view_weights(left_out, None).round(decimals=2).tolist()
    [0.67, 0.33]
    """
    density = (left_out - left_out.amax(-1, keepdim=True)).exp()
    size, views = density.shape[-2:]
    share = torch.full_like(density[..., 0], 1 / size) if weights is None else weights.to(density)
    found = density.new_full((*density.shape[:-2], views), 1 / views)
    for _ in range(rounds):  # expectation-maximization: the problem is concave
        joint = density * found.unsqueeze(-2)
        found = (share.unsqueeze(-1) * joint / joint.sum(-1, keepdim=True)).sum(-2)
    return found / found.sum(-1, keepdim=True)

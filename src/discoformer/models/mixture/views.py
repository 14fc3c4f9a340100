"""Views of a sample: as it is, with its margins made normal, and without its axes.

Real columns are skewed, heaped and rounded.  The network itself, in one dimension and with many slots, makes
each of them normal (`models.mixture.margins`), and the same network then sees only the dependence.  Where
clusters are clear or rows are few, the sample is better left alone.  And where columns are nearly copies of
each other, as lengths of one animal are, their axes mislead: the third view does not know them.
Leave-one-out likelihood, in closed form, tells which view is right: the density is a mixture of the views,
each weighted by the chance that it is the best one.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import torch
from torch import Tensor

from discoformer.columns.kinds import Layout, MixedMethod
from discoformer.columns.support import rows_suffice
from discoformer.core.composed import Blend, less_unseen, push
from discoformer.core.fields import Density
from discoformer.core.frames import FRAMES
from discoformer.core.moving import untracked
from discoformer.core.threads import team
from discoformer.core.transforms import At, Frame
from discoformer.models.mixture.landmarks import evenly_by_radius
from discoformer.models.mixture.margins import fit_margins
from discoformer.models.mixture.mixed_views import fit_mixed
from discoformer.models.mixture.sample import too_many
from discoformer.models.mixture.unified_network import Seen, UnifiedNetwork, each_part
from discoformer.models.mixture.weigh import SILENT, chances, log_weights
from discoformer.models.network import TorchMethod
from discoformer.scale.stream import Stream, StreamingMethod

__all__ = ["Views"]

_NO_ANSWER = -1e6  # a log density that leaves a view without a chance


class Views(TorchMethod, StreamingMethod, MixedMethod):
    """A unified network that looks at a sample as it is, with its margins made normal, and without its axes.

    Of very many rows a part decides the weights of the views and all but the first of them, which is settled
    by all rows.

    Parameters
    ----------
    network : looks every time; its config says how many slots margins have

    Examples
    --------
    >>> from discoformer.models.mixture.unified import UnifiedConfig, UnifiedCore
    >>> core = UnifiedCore(UnifiedConfig(layers=1, width=8, heads=2, slots=4)).requires_grad_(False)
    >>> views = Views(UnifiedNetwork(core).double())
    >>> x = torch.randn(50, 2, dtype=torch.float64).exp()
    >>> density = views.fit(x)
    >>> density.left_out(x).shape, round(float(density.log_weight.exp().sum()), 9)
    (torch.Size([50]), 1.0)
    """

    def __init__(self, network: UnifiedNetwork) -> None:
        super().__init__()
        self.network = network

    def for_few_rows(self) -> Views:
        """Itself: the network sees how many rows there are."""
        return self

    def pads(self, rows: int, size: int, dim: int) -> bool:
        """As the network, in all columns and in each; and margins are grouped in both cases, or in none."""
        config = self.network.core.config
        alike = size <= config.margin_groups or rows > config.margin_groups
        enough = rows >= 2 * config.margin_slots
        return rows == size or (alike and enough and self.network.pads(rows, size, dim))

    def without_axes(self) -> UnifiedNetwork:
        """The network alone, without axes: margins are axes, too."""
        return self.network.without_axes()

    @untracked
    @team()
    def _fit(self, context: Tensor, weights: Tensor | None) -> Density:
        context = context.to(self.dtype)
        weights = None if weights is None else weights.to(self.dtype)
        if too_many(context.shape[-2], self.network.core.deciding):
            few = _few(context, weights, self.network.core.deciding)
            return self._few_decide(self.network._fit(context, weights), few)
        maps = fit_margins(self.network, context, weights)
        both = torch.stack([context, maps.normalize(context)], -3)  # (..., 2, n, d)
        sights = [_look(self.network, both, weights)]
        if _has_third(context):
            sights.append(_look(self.without_axes(), context.unsqueeze(-3), weights))
        stretch = maps.log_det_left_out(At(context, both[..., 1, :, :], _all(context)), weights)
        slope = torch.cat([frames.log_det for _, frames in sights], -1).unsqueeze(-1)  # (..., K, 1)
        slope = slope + _at_margins(stretch, slope.shape[-2])  # (..., K, n)
        # A view without a chance has no weight and is not worth merging: most samples have one.
        raw = torch.cat([seen.unfold(seen.left_out) for seen, _ in sights], -2)
        heard = self._chances(raw + slope, weights).detach() > SILENT  # (..., K)
        views: list[Density] = []
        left_out: list[Tensor] = []
        for (seen, frames), own in zip(sights, heard.split([2, 1][: len(sights)], -1), strict=True):
            found, without = self._believe(seen, own)
            views += [_one_of(found, frames, context.ndim - 2, k) for k in range(own.shape[-1])]
            left_out.append(without)
        views[1] = push(views[1], [maps])
        return self._weighed(views, torch.cat(left_out, -2) + slope, context, weights, heard)

    @property
    def _unseen(self) -> float:
        return float(self.network.core.config.unseen)

    def _chances(self, left_out: Tensor, weights: Tensor | None, heard: Tensor | None = None) -> Tensor:
        """The chances (..., K) of the views that are heard, by left-out log densities (..., K, n).

        The first two are set against each other, and the third against both together, so that it changes
        nothing between them.  The network may ignore axes that it is told of: the view without them must be
        better by some standard errors (``axes_lead``), to be as likely as the others.
        """
        # in single precision rounding may leave a view of rows that repeat without an answer
        left_out = left_out.nan_to_num(_NO_ANSWER, torch.inf, -torch.inf)
        both = chances(left_out[..., :2, :], weights)
        if left_out.shape[-2] == 2:
            return both
        logs = both.clamp_min(torch.finfo(both.dtype).tiny).log()
        together = (left_out[..., :2, :] + logs.unsqueeze(-1)).logsumexp(-2)
        pair = torch.stack([together, left_out[..., 2, :]], -2)
        rest, third = chances(pair, weights, self.network.core.config.axes_lead).split(1, -1)
        if heard is not None:
            rest, third = torch.where(heard[..., 2:], rest, 1.0), torch.where(heard[..., 2:], third, 0.0)
        return torch.cat([rest * both, third], -1)

    def _believe(self, seen: Seen, heard: Tensor) -> tuple[Blend, Tensor]:
        """`UnifiedNetwork.believe` where a view is heard (..., K); the others stay as the core gives them."""
        flat = heard.flatten()
        if bool(flat.all()):
            return self.network.believe(seen)
        if not bool(flat.any()):
            alone = Blend((seen.mixture,), seen.left_out.new_zeros(len(flat), 1))
            return each_part(alone, seen.unfold), seen.unfold(seen.left_out)
        some, found = self.network.believe(seen.some(flat.nonzero().squeeze(-1)))
        place = (flat.cumsum(0) - 1).clamp_min(0)  # the others borrow a merged mixture, to have none of it
        merged = each_part(some, itemgetter(place)).parts[1]
        unmerged = some.log_weight.new_tensor([0.0, -torch.inf])
        log_weight = torch.where(flat.unsqueeze(-1), some.log_weight[place], unmerged)
        left_out = torch.where(flat.unsqueeze(-1), found[place], seen.left_out)
        return each_part(Blend((seen.mixture, merged), log_weight), seen.unfold), seen.unfold(left_out)

    @untracked
    @team()
    def fit_mixed(self, points: Tensor, weights: Tensor | None, layout: Layout) -> Density:
        """Fit to rows with categories, circles or gaps; of very many, a part decides."""
        return fit_mixed(self.network, points, weights, layout, margins=True)

    @team()
    @torch.no_grad()
    def fit_stream(self, stream: Stream) -> Density:
        """Fit to a sample that is not in memory; what fits into it easily is loaded."""
        deciding = self.network.core.deciding
        if not too_many(stream.rows, deciding):
            return self._fit(stream.load().to(self.dtype), None)
        rows = stream.evenly("whiten", deciding).to(self.dtype)
        return self._few_decide(self.network.fit_stream(stream), rows)

    def _few_decide(self, plain: Density, rows: Tensor) -> Density:
        maps = fit_margins(self.network, rows, None)
        at = At(rows, maps.normalize(rows), _all(rows))
        inner = self.network._fit(at.inside, None)
        normal = inner.left_out(at.inside) + maps.log_det_left_out(at, None)
        views, left_out = [plain, push(inner, [maps])], [plain.left_out(rows), normal]
        if _has_third(rows):
            views.append(self.without_axes()._fit(rows, None))
            left_out.append(views[-1].left_out(rows))
        return self._weighed(views, torch.stack(left_out, -2), rows, None)

    def _weighed(
        self,
        views: Sequence[Density],
        left_out: Tensor,
        rows: Tensor,
        weights: Tensor | None,
        heard: Tensor | None = None,
    ) -> Blend:
        """The views with their chances to be the best one, by left-out log densities (..., K, n).

        The view that follows the sample more closely also has more optimism that leaving out does not see.
        """
        if heard is not None and bool((heard.sum(-1) == 1).all()):
            return Blend(tuple(views), heard.to(left_out).log(), self._unseen)
        inside = torch.stack([view._estimate(rows).log_density for view in views], -2)
        chance = self._chances(less_unseen(left_out, inside, self._unseen), weights, heard)
        heard = chance.detach() > SILENT if heard is None else heard
        return Blend(tuple(views), log_weights(chance, heard), self._unseen)


def _has_third(context: Tensor) -> bool:
    """Whether there is a view without axes: one column has none, and few rows have no covariance to go by."""
    rows, dim = context.shape[-2:]
    return dim > 1 and rows_suffice(rows, dim)


def _look(network: UnifiedNetwork, contexts: Tensor, weights: Tensor | None) -> tuple[Seen, Frame]:
    """What a network makes of several contexts (..., K, n, d) of the same rows, and their frames."""
    share = None if weights is None else weights.unsqueeze(-2).expand(contexts.shape[:-1])
    return network.look(contexts, share)


def _at_margins(stretch: Tensor, views: int) -> Tensor:
    """What only the view with normal margins has (..., n), beside zeros of the others: (..., K, n)."""
    none = torch.zeros_like(stretch)
    return torch.stack([none, stretch, none][:views], -2)


def _one_of(found: Blend, frames: Frame, axis: int, view: int) -> Density:
    def select(tensor: Tensor) -> Tensor:
        return tensor.select(axis, view)

    return push(each_part(found, select), [frames.map(select)])


def _few(context: Tensor, weights: Tensor | None, rows: int) -> Tensor:
    """So many rows of a context, evenly by radius, that stand for equal parts of it."""
    inside = FRAMES["whiten"].fit(context, weights).normalize(context.detach())
    index = evenly_by_radius(inside, weights, rows)
    return context.take_along_dim(index.unsqueeze(-1), -2)


def _all(points: Tensor) -> Tensor:
    """Every column counts: (d,)."""
    return torch.ones(points.shape[-1], dtype=torch.bool, device=points.device)

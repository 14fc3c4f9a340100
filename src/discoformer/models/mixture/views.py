"""Two views of a sample: as it is, and with its margins made normal, weighed by leave-one-out likelihood.

Real columns are skewed, heaped and rounded.  The network itself, in one dimension and with many slots, makes
each of them normal (`models.mixture.margins`), and the same network then sees only the dependence.  Where
clusters are clear or rows are few, the sample is better left alone.  Leave-one-out likelihood, in closed
form, tells which view is right: the density is a mixture of both views, each weighted by the chance that it
is the better one.
"""

from __future__ import annotations

from operator import itemgetter

import torch
from torch import Tensor

from discoformer.columns.layout import Layout, MixedMethod
from discoformer.core.blend import Blend
from discoformer.core.fields import Density
from discoformer.core.frames import FRAMES
from discoformer.core.moving import untracked
from discoformer.core.pushforward import push
from discoformer.core.threads import team
from discoformer.core.transforms import At, ColumnMaps, Frame
from discoformer.models.mixture.landmarks import evenly_by_radius
from discoformer.models.mixture.margins import fit_margins
from discoformer.models.mixture.mixed_views import fit_mixed
from discoformer.models.mixture.sample import too_many
from discoformer.models.mixture.unified_network import Seen, UnifiedNetwork, each_part
from discoformer.models.mixture.weigh import SILENT, chances, log_weights
from discoformer.models.network import TorchMethod
from discoformer.scale.stream import Stream, StreamingMethod

__all__ = ["Views"]


class Views(TorchMethod, StreamingMethod, MixedMethod):
    """A unified network that looks at a sample as it is, and with its margins made normal.

    Of very many rows a part decides the margins, their dependence and the weights of the views; the
    sample as it is is settled by all rows.

    Parameters
    ----------
    network : looks both times; its config says how many slots margins have

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
            return self._few_decide(self.network._fit(context, weights), few, None)
        maps = fit_margins(self.network, context, weights)
        both = torch.stack([context, maps.normalize(context)], -3)  # (..., 2, n, d)
        share = None if weights is None else weights.unsqueeze(-2).expand(both.shape[:-1])
        seen, frames = self.network.look(both, share)
        at = At(context, both[..., 1, :, :], _all(context))
        slope = frames.log_det.unsqueeze(-1)  # (..., 2, 1)
        stretch = maps.log_det_left_out(at, weights)
        slope = slope + torch.stack([torch.zeros_like(stretch), stretch], -2)  # (..., 2, n)
        # A view without a chance has no weight and is not worth merging: most samples have one.
        heard = chances(seen.unfold(seen.left_out) + slope, weights).detach() > SILENT  # (..., 2)
        if context.ndim == 2 and not bool(heard.all()):
            return self._one_of_two(seen, frames, maps, heard)
        found, left_out = self._believe(seen, heard)
        plain, inner = (_one_of(found, frames, context.ndim - 2, view) for view in range(2))
        return self._weighed((plain, push(inner, [maps])), left_out + slope, context, weights, heard)

    @property
    def _unseen(self) -> float:
        return float(self.network.core.config.unseen)

    def _believe(self, seen: Seen, heard: Tensor) -> tuple[Blend, Tensor]:
        """`UnifiedNetwork.believe` where a view is heard (..., 2); the others stay as the core gives them."""
        flat = heard.flatten()
        if bool(flat.all()):
            return self.network.believe(seen)
        some, found = self.network.believe(seen.some(flat.nonzero().squeeze(-1)))
        place = (flat.cumsum(0) - 1).clamp_min(0)  # the others borrow a merged mixture, to have none of it
        merged = each_part(some, itemgetter(place)).parts[1]
        alone = some.log_weight.new_tensor([0.0, -torch.inf])
        log_weight = torch.where(flat.unsqueeze(-1), some.log_weight[place], alone)
        left_out = torch.where(flat.unsqueeze(-1), found[place], seen.left_out)
        return each_part(Blend((seen.mixture, merged), log_weight), seen.unfold), seen.unfold(left_out)

    def _one_of_two(self, seen: Seen, frames: Frame, maps: ColumnMaps, heard: Tensor) -> Blend:
        """Both views of one sample, the one without a weight as the core gives it."""
        views: list[Density] = []
        for view in range(2):
            own = seen.some(torch.tensor([view]))._replace(batch=torch.Size())
            raw = own.mixture.map(own.unfold)
            found = self.network.believe(own)[0] if heard[view] else raw
            views.append(push(found, [frames.map(itemgetter(view))]))
        return Blend((views[0], push(views[1], [maps])), heard.to(seen.left_out).log(), self._unseen)

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
        return self._few_decide(self.network.fit_stream(stream), rows, None)

    def _few_decide(self, plain: Density, rows: Tensor, weights: Tensor | None) -> Density:
        maps = fit_margins(self.network, rows, weights)
        at = At(rows, maps.normalize(rows), _all(rows))
        inner = self.network._fit(at.inside, weights)
        normal = inner.left_out(at.inside, weights) + maps.log_det_left_out(at, weights)
        left_out = torch.stack([plain.left_out(rows, weights), normal], -2)
        return self._weighed((plain, push(inner, [maps])), left_out, rows, weights)

    def _weighed(
        self,
        views: tuple[Density, Density],
        left_out: Tensor,
        rows: Tensor,
        weights: Tensor | None,
        heard: Tensor | None = None,
    ) -> Blend:
        """Both views with their chances to be the better one, by left-out log densities (..., 2, n).

        The view that follows the sample more closely also has more optimism that leaving out does not see.
        """
        inside = torch.stack([view._estimate(rows).log_density for view in views], -2)
        chance = chances(left_out - self._unseen * (inside - left_out), weights)
        heard = chance.detach() > SILENT if heard is None else heard
        return Blend(views, log_weights(chance, heard), self._unseen)


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

"""A network's views of a table with categories, circles and gaps: each a mixed mixture.

The network needs complete rows of numbers.  Gaps are filled by draws, at first from one normal law, then
from the mixture found so far.  Closed-form E- and M-steps over all observed values then refine what the
network returns, both unmerged and merged.  Each filling is one of many possible ones, so the results of all
are kept and weighed by leave-one-out likelihood, as elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from discoformer.columns.bounds import Scaling, fit_scaling
from discoformer.columns.content_noise import content_noise
from discoformer.columns.kinds import Layout
from discoformer.core.composed import push
from discoformer.core.fields import Density
from discoformer.core.transforms import ColumnMap, ColumnMaps
from discoformer.models.mixture.categories import category_scores
from discoformer.models.mixture.gaps import fill
from discoformer.models.mixture.margins import fit_margins
from discoformer.models.mixture.merge import Rule, merge
from discoformer.models.mixture.mixed import MixedMixture, columns_of, to_codes
from discoformer.models.mixture.mixed_em import MixedRows, e_step, first_guess, settle
from discoformer.models.mixture.sample import InMemory, too_many
from discoformer.models.mixture.student import StudentMixture
from discoformer.models.mixture.unified_network import UnifiedNetwork
from discoformer.models.mixture.weigh import blend, without_silent

__all__ = ["fit_mixed"]

_LOOKS = 3  # at a table with gaps: what one finds, the next sees filled in
_BLUR = 0.3  # spread of the noise on scores of categories, which have unit variance: clouds, not points


@torch.no_grad()
def fit_mixed(
    network: UnifiedNetwork, points: Tensor, weights: Tensor | None, layout: Layout, *, margins: bool
) -> Density:
    """The mixture of the views of rows (n, d + c), NaN where there is a gap; see `MixedMethod.fit_mixed`.

    With ``margins`` the table is seen as it is and with its margins made normal.
    """
    points = points.to(network.dtype)
    weights = None if weights is None else weights.to(points)
    if too_many(len(points), network.core.deciding):
        points, weights = _few(points, weights, network.core.deciding), None
    scaling = fit_scaling(points, weights, layout.periods)
    inside = scaling.normalize(points)
    scales = [own.scale for own in scaling.maps.values() if isinstance(own, Scaling)]
    periods = tuple(p / float(s) for p, s in zip(layout.periods, scales, strict=True))
    look = _Looking(network, weights, layout.levels, periods)
    views = [push(found, [scaling]) for found in look(inside)]
    if margins and any(not period for period in periods):
        maps = _normal_margins(network, inside, weights, periods)
        views += [push(found, [scaling, maps]) for found in look(maps.normalize(inside))]
    found = blend(views, [view.left_out(points, weights) for view in views], weights)
    return replace(without_silent(found), unseen=network.core.config.unseen)


def _few(points: Tensor, weights: Tensor | None, rows: int) -> Tensor:
    """A few rows that stand for equal parts of a table, evenly spaced in an order given by their content."""
    order = content_noise(points, 1, weights).squeeze(-1).argsort()
    share = torch.full_like(points[:, 0], 1 / len(points)) if weights is None else weights
    middles = (torch.arange(rows, device=points.device) + 0.5).to(share) / rows
    chosen = torch.searchsorted(share[order].cumsum(0).contiguous(), middles).clamp_max(len(points) - 1)
    return points[order[chosen]]


def _normal_margins(
    network: UnifiedNetwork, points: Tensor, weights: Tensor | None, periods: tuple[float, ...]
) -> ColumnMaps:
    """Maps of continuous columns to their normal scores, each by the rows that have it; circles stay."""
    maps: dict[int, ColumnMap] = {}
    straight = [j for j, period in enumerate(periods) if not period]
    whole = [j for j in straight if not bool(points[:, j].isnan().any())]
    if whole:
        found = fit_margins(network, points[:, whole], weights)
        maps |= {j: found.maps[k] for k, j in enumerate(whole)}
    for j in set(straight) - set(whole):
        there = ~points[:, j].isnan()
        share = None if weights is None else weights[there] / weights[there].sum()
        maps[j] = fit_margins(network, points[there][:, [j]], share).maps[0]
    return ColumnMaps(maps, points.shape[-1])


@dataclass(frozen=True)
class _Looking:
    """How a network looks at rows: the numbers alone, and with the categories beside them."""

    network: UnifiedNetwork
    weights: Tensor | None
    levels: tuple[int, ...]
    periods: tuple[float, ...]

    def __call__(self, inside: Tensor) -> list[MixedMixture]:
        """The mixed mixtures of one view (n, d + c)."""
        numbers = len(self.periods)
        points, config = inside[:, :numbers], self.network.core.config
        size = len(points) if self.weights is None else 1 / float(self.weights.square().sum())
        multiplicity = torch.ones_like(inside[:, 0]) if self.weights is None else self.weights * size
        rows = MixedRows(points, to_codes(inside[:, numbers:]), self.levels, multiplicity)
        part = float((~inside.isnan()).double().mean())  # filled rows count less
        coarse = inside.float()  # what a permutation of the sums changes must not change the noise
        looks = _LOOKS if bool(inside.isnan().any()) else 1
        count = looks * (1 + inside.shape[-1] + config.category_columns)
        noises = content_noise(coarse, count, self.weights).to(inside)
        sights = [None] * bool(numbers) + [config.category_columns] * any(n > 1 for n in self.levels)
        student, tables = first_guess(rows)
        found: list[MixedMixture] = []
        for noise in noises.chunk(looks, -1):
            complete, codes = fill(student, tables, points, rows.codes, noise)
            for columns in sights:
                seen = complete
                if columns is not None:
                    scores = category_scores(codes, self.levels, multiplicity, columns)
                    blur = torch.special.ndtri(noise[:, noise.shape[-1] - scores.shape[-1] :])
                    seen = torch.cat([complete, scores + _BLUR * blur], -1)
                for start in self._encode(seen, part * size):
                    held = e_step(start, (), rows.complete(seen)).held
                    start = replace(columns_of(start, range(numbers)), evidence=start.evidence)
                    found.append(settle(start, held, complete, rows, self.periods, config.mixed_rounds))
            student, tables = found[-1].student, found[-1].tables
        return found

    def _encode(self, points: Tensor, total: float) -> Iterator[StudentMixture]:
        """What the network makes of complete points (n, e), which count as ``total`` rows; and merged."""
        frame, axes = self.network.place(points, self.weights)
        sample = InMemory(
            frame.normalize(points).unsqueeze(0),
            None if self.weights is None else self.weights.unsqueeze(0),
            total=points.new_tensor([[total]]),
        )
        axes = None if axes is None else axes.flat()
        mixture: StudentMixture = self.network.core.digest(sample, axes=axes, evidence=True)
        for part in (mixture, merge(sample, mixture, axes, Rule.of(self.network.core.config))):
            own = part.map(lambda t: t.squeeze(0))
            assert own.evidence is not None
            outside = own.transform(frame.inverse, frame.center)
            yield replace(outside, evidence=replace(own.evidence, axes=None))

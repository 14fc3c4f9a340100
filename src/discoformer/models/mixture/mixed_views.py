"""A network's views of a table with categories, circles and gaps: each a mixed mixture.

The network needs complete rows of numbers: gaps are filled by draws, at first from one normal law, then from
the mixture found so far, and closed-form E- and M-steps over all that is there settle it.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from discoformer.columns.content_noise import content_noise
from discoformer.columns.layout import Layout
from discoformer.columns.scaling import fit_scaling
from discoformer.core.blend import Blend
from discoformer.core.fields import Density
from discoformer.core.pushforward import push
from discoformer.core.transforms import ColumnMap, ColumnMaps, Transform
from discoformer.models.mixture.fill import fill, first_guess
from discoformer.models.mixture.margins import fit_margins
from discoformer.models.mixture.mixed import MixedMixture, to_codes
from discoformer.models.mixture.mixed_em import Rows, e_step, settle
from discoformer.models.mixture.sample import InMemory
from discoformer.models.mixture.student import StudentMixture
from discoformer.models.mixture.unified_network import UnifiedNetwork
from discoformer.models.mixture.view_weights import view_weights

__all__ = ["fit_mixed"]

ROUNDS = 20  # of E- and M-steps after every look of the network
_LOOKS = 2  # at a table with gaps


@torch.no_grad()
def fit_mixed(
    network: UnifiedNetwork, points: Tensor, weights: Tensor | None, layout: Layout, *, margins: bool
) -> Density:
    """The mixture of the views of rows (n, d + c), NaN where there is a gap; see `MixedMethod.fit_mixed`.

    With ``margins`` there are two: the table as it is, and with its margins made normal.
    """
    points = points.to(network.dtype)
    weights = None if weights is None else weights.to(points)
    numbers = len(layout.periods)
    scaling = fit_scaling(points, weights, numbers)
    inside = scaling.normalize(points)
    spreads = [float(torch.ones(()) * scaling.maps[j].scale) for j in range(numbers)]
    periods = tuple(p / s for p, s in zip(layout.periods, spreads, strict=True))
    views: list[Density] = [push(_look(network, inside, weights, layout.levels, periods), [scaling])]
    if margins and numbers:
        maps = _normal_margins(network, inside, weights, periods)
        normal = _look(network, maps.normalize(inside), weights, layout.levels, periods)
        views.append(push(normal, [scaling, maps]))
    left_out = torch.stack([view.left_out(points, weights) for view in views], -1)
    return Blend(tuple(views), view_weights(left_out, weights).log())


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


def _look(
    network: UnifiedNetwork,
    inside: Tensor,
    weights: Tensor | None,
    levels: tuple[int, ...],
    periods: tuple[float, ...],
) -> MixedMixture:
    """The mixed mixture of one view (n, d + c)."""
    numbers = len(periods)
    points = inside[:, :numbers]
    size = len(points) if weights is None else 1 / weights.square().sum()
    often = torch.ones_like(inside[:, 0]) if weights is None else weights * size
    rows = Rows(points, to_codes(inside[:, numbers:]), levels, often)
    noise = content_noise(inside, 1 + inside.shape[-1]).to(inside)
    mixture = first_guess(rows)
    part = float((~points.isnan()).double().mean()) if numbers else 1.0
    for _ in range(_LOOKS if bool(inside.isnan().any()) else 1):
        complete, codes = fill(mixture, rows, noise)
        start = _encode(network, complete, weights, part * size)
        held = e_step(start, (), rows.complete(complete)).held
        mixture = settle(start, held, complete, rows, periods, ROUNDS)
    return mixture


def _encode(
    network: UnifiedNetwork, points: Tensor, weights: Tensor | None, total: float | Tensor
) -> StudentMixture:
    """What the network makes of complete points (n, d), which count as ``total`` rows, in their coordinates."""
    frame, axes = network.place(points, weights)
    sample = InMemory(
        frame.normalize(points).unsqueeze(0),
        None if weights is None else weights.unsqueeze(0),
        total=points.new_tensor([[float(total)]]),
    )
    mixture: StudentMixture = network.core.digest(sample, axes=axes).map(lambda t: t.squeeze(0))
    outside = mixture.transform(frame.inverse, frame.center)
    assert mixture.evidence is not None
    return replace(outside, evidence=replace(mixture.evidence, axes=None))

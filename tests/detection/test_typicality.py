"""Typicality: the least of several views, each by its own spread."""

import torch

from discoformer.baselines.kde import KDE
from discoformer.core.blend import Blend
from discoformer.core.pushforward import push
from discoformer.core.transforms import scaling_frame
from discoformer.detection.typicality import Cloud, Typicality, views_of

ROWS = torch.randn(100, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_views_are_the_parts_of_a_blend_also_through_maps() -> None:
    parts = KDE(0.5).fit(ROWS), KDE(1.0).fit(ROWS)
    blend = Blend(parts, torch.tensor([0.5, 0.5]).double().log())
    frame = scaling_frame(torch.zeros(1, 3).double(), torch.full((3,), 2.0).double())
    assert len(views_of(blend)) == 2
    for view, part in zip(views_of(push(blend, [frame])), parts, strict=True):
        torch.testing.assert_close(
            view.log_density(2 * ROWS), part.log_density(ROWS) - 3 * torch.log(torch.tensor(2.0).double())
        )


def test_the_cloud_does_not_depend_on_units_and_sees_gaps_as_usual() -> None:
    scale = torch.tensor([1.0, 1e3, 1e-3]).double()
    torch.testing.assert_close(
        Cloud.of(ROWS).log_density(ROWS), Cloud.of(ROWS * scale).log_density(ROWS * scale)
    )
    gap = ROWS.mean(0, keepdim=True)
    gap[0, 1] = torch.nan
    assert float(Cloud.of(ROWS).log_density(gap)) == 0.0


def test_typicality_is_the_least_view_and_rows_do_not_vouch_for_themselves() -> None:
    rows = torch.cat([ROWS, torch.full((1, 3), 8.0).double()])
    field = KDE(0.5).fit(rows)
    typicality = Typicality.of(field, rows)
    assert int(typicality.own.argmin()) == 100
    assert float(typicality(rows[100:])) <= float(typicality(rows[100:] - 1e-6)) + 1e-3
    levels = torch.stack([field.log_density(ROWS), Cloud.of(rows).log_density(ROWS)], -1)
    expected = ((levels - typicality.center) / typicality.spread).amin(-1)
    torch.testing.assert_close(typicality(ROWS), expected)

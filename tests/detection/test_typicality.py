"""Typicality: the least of two views through noise, each by its own spread."""

import pytest
import torch

from discoformer.baselines.kde import KDE, KDEField, _kernel_frame
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.core.composed import Blend, push
from discoformer.core.transforms import scaling_frame
from discoformer.detection import typicality as module
from discoformer.detection.typicality import NOISE, Cloud, Neighbours, Typicality, through_noise
from discoformer.methods import resolve

ROWS = torch.randn(100, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def spread(rows: torch.Tensor) -> torch.Tensor:
    return torch.diag(NOISE**2 * rows.var(0, correction=0))


def test_the_first_part_of_a_blend_is_seen_through_noise_also_through_maps() -> None:
    parts = KDE(0.5).fit(ROWS), KDE(1.0).fit(ROWS)
    blend = Blend(parts, torch.tensor([0.5, 0.5]).double().log())
    frame = scaling_frame(torch.zeros(1, 3).double(), torch.full((3,), 2.0).double())
    expected = KDEField(ROWS, None, _kernel_frame(parts[0].bandwidth + spread(ROWS))).log_density(ROWS)
    torch.testing.assert_close(through_noise(blend, ROWS).log_density(ROWS), expected)
    doubled = through_noise(push(blend, [frame]), 2 * ROWS).log_density(2 * ROWS)
    torch.testing.assert_close(doubled, expected - 3 * torch.log(torch.tensor(2.0).double()))


def test_noise_is_a_convolution() -> None:
    """A draw with noise has the blurred density: the share below any point agrees."""
    x = torch.cat([ROWS[:, :1], 4 + 0.1 * ROWS[:, 1:2]])
    blurred = resolve("default").method.network.fit(x).blurred(torch.tensor([[0.25]]).double())
    density = resolve("default").method.network.fit(x)
    generator = torch.Generator().manual_seed(1)
    draws = density.sample(40_000, generator)
    draws = draws + 0.5 * torch.randn(draws.shape, dtype=torch.float64, generator=generator)
    for end in (-1.0, 0.5, 2.0, 4.0, 4.5):
        share = float((draws < end).double().mean())
        assert abs(float(blurred.cdf(torch.tensor([[end]]).double())) - share) < 0.015


def test_bounds_have_no_noise() -> None:
    rows = ROWS.exp()
    density = FitRecipe(KDE(), [(0.0, float("inf"))] * 3).fit(rows)
    assert through_noise(density, rows) is density


def test_a_direction_in_which_columns_agree_does_not_decide() -> None:
    """Two columns that are always equal and differ by a hundredth: less odd than four spreads."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(300, 1, dtype=torch.float64, generator=generator)
    rows = torch.cat([x, x + 1e-4 * torch.randn(300, 1, dtype=torch.float64, generator=generator)], 1)
    field = resolve("default").method.fit(rows)
    slip, far = torch.tensor([[0.0, 0.01]]).double(), torch.tensor([[4.0, 4.0]]).double()
    assert float(field.log_density(slip)) < float(field.log_density(far))
    typicality = Typicality.of(field, rows)
    assert float(typicality(far)) < typicality.own.min() < float(typicality(slip))


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
    near = through_noise(field, rows)
    for clean, other in ((False, Cloud.of(rows)), (True, Neighbours.of(rows))):
        typicality = Typicality.of(field, rows, clean=clean)
        levels = torch.stack([near.log_density(ROWS), other.log_density(ROWS)], -1)
        expected = ((levels - typicality.center) / typicality.spread).amin(-1)
        torch.testing.assert_close(typicality(ROWS), expected)


def test_neighbours_are_a_kernel_estimate_with_the_noise_for_a_bandwidth() -> None:
    """Up to a constant, at new rows and at the rows without themselves."""
    spread = ROWS.std(0, correction=0)
    estimate = KDEField(ROWS, None, _kernel_frame(torch.diag((NOISE * spread) ** 2)))
    neighbours = Neighbours.of(ROWS)
    for found, expected in (
        (neighbours.log_density(ROWS + 0.3), estimate.log_density(ROWS + 0.3)),
        (neighbours.left_out(ROWS), estimate.left_out(ROWS)),
    ):
        difference = found - expected
        torch.testing.assert_close(difference, difference[:1].expand_as(difference))


def test_of_very_many_rows_some_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.randn(3000, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    everyone = Neighbours.of(rows)
    monkeypatch.setattr(module, "_MOST", 1000)
    some = Neighbours.of(rows)
    assert len(some.points) == 1000 and int((some.number >= 0).sum()) == 1000
    usual = rows.square().sum(-1) < 4
    difference = (some.left_out(rows) - everyone.left_out(rows))[usual]
    assert float(difference.abs().mean()) < 0.1
    shuffled = rows[torch.randperm(3000, generator=torch.Generator().manual_seed(6))]
    again = Neighbours.of(shuffled)
    torch.testing.assert_close(again.log_density(rows), some.log_density(rows))


def test_labels_have_no_distance() -> None:
    """A column of codes counts in the density, not in the views that measure distances."""
    rows = torch.cat([ROWS, torch.arange(100.0).double().remainder(3).unsqueeze(-1)], -1)
    torch.testing.assert_close(Cloud.of(rows, [0, 1, 2]).log_density(rows), Cloud.of(ROWS).log_density(ROWS))
    torch.testing.assert_close(
        Neighbours.of(rows, [0, 1, 2]).left_out(rows), Neighbours.of(ROWS).left_out(ROWS)
    )


def test_a_view_in_which_all_rows_look_the_same_has_no_say() -> None:
    """Labels alone: there is no cloud.  The score is that of the density."""
    levels = torch.tensor([[-1.0, 0.0], [-2.0, 0.0], [-6.0, 0.0]]).double()
    center = levels.mean(0)
    found = module._least(levels, center, torch.tensor([2.0, 0.0]).double())
    torch.testing.assert_close(found, (levels[:, 0] - center[0]) / 2)
    nothing = module._least(levels, center, torch.zeros(2).double())  # then the unit is the nat
    torch.testing.assert_close(nothing, (levels - center).amin(-1))

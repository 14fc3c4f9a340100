"""Typicality: the least of two views through noise, each by its own spread."""

import torch

from discoformer.baselines.kde import KDE, KDEField, _kernel_frame
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.core.composed import Blend, push
from discoformer.core.transforms import scaling_frame
from discoformer.detection.typicality import NOISE, Cloud, Typicality, through_noise
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
    levels = torch.stack([near.log_density(ROWS), Cloud.of(rows).log_density(ROWS)], -1)
    expected = ((levels - typicality.center) / typicality.spread).amin(-1)
    torch.testing.assert_close(typicality(ROWS), expected)

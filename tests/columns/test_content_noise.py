"""Noise from the content of rows."""

import torch

from discoformer.columns.content_noise import content_noise, spread_in_bins


def test_it_follows_permutations_and_looks_random() -> None:
    rows = torch.randn(4000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    noise = content_noise(rows, 3)
    order = torch.randperm(4000, generator=torch.Generator().manual_seed(1))
    assert bool((content_noise(rows[order], 3) == noise[order]).all())
    assert bool(((noise > 0) & (noise < 1)).all())
    correlation = torch.corrcoef(torch.cat([rows, noise], -1).T) - torch.eye(5)
    assert float(correlation.abs().max()) < 0.06
    assert float((noise.sort(0).values - torch.linspace(0, 1, 4000).unsqueeze(-1)).abs().max()) < 0.03


def test_equal_rows_and_gaps_get_numbers_of_their_own() -> None:
    rows = torch.full((50, 1), torch.nan, dtype=torch.float64)
    assert len(content_noise(rows, 1).unique()) == 50


def test_bins_are_filled_evenly() -> None:
    values = torch.tensor([1.0, 2.0, 1.0, 1.0, 1.0])
    place = spread_in_bins(values, torch.tensor([0.3, 0.5, 0.1, 0.9, 0.2]))
    assert place.tolist() == [0.625, 0.5, 0.125, 0.875, 0.375]


def test_equal_rows_follow_their_weights_and_not_their_place() -> None:
    """Nor the last bit of the weights, which a sum over the rows in another order changes."""
    rows = torch.tensor([[1.0], [2.0], [1.0], [1.0]], dtype=torch.float64)
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    order = torch.tensor([3, 2, 0, 1])
    noise = content_noise(rows, 2, weights)
    assert torch.equal(content_noise(rows[order], 2, weights[order] * (1 + 2.0**-52)), noise[order])

"""What Figures 7 to 9 share: the mixtures and the grid."""

import pytest
import torch

from discoformer_paper.experiments import sdkde_variants


def test_mixtures_have_the_moments_of_their_definition() -> None:
    for name, unit in (("gauss", 1.0), ("laplace", 2.0)):  # the variance of a Laplace is 2 scale^2
        for index, (share, mean1, scale1, mean2, scale2) in enumerate(sdkde_variants.ONE_DIMENSION, 1):
            mixture = sdkde_variants.mixtures()[f"{name}{index}"]
            grid = torch.linspace(-60, 60, 240_001, dtype=torch.float64)
            density = mixture.log_density(grid.unsqueeze(-1)).exp()
            moments = [float(torch.trapezoid(density * grid**k, grid)) for k in (0, 1, 2)]
            means, squares = (mean1, mean2), (unit * scale1**2 + mean1**2, unit * scale2**2 + mean2**2)
            expected = [1.0, *(share * a + (1 - share) * b for a, b in (means, squares))]
            assert moments == pytest.approx(expected, rel=1e-5)


def test_cells_of_the_grid_hold_all_mass() -> None:
    grid, volume = sdkde_variants.grid_of(2)
    density = sdkde_variants.mixtures()["plane"].log_density(grid).exp()
    assert float(density.sum()) * volume == pytest.approx(1, abs=1e-3)

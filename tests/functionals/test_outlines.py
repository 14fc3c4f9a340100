"""Outlines of two columns lie on the level, and hold the share of the region."""

import numpy as np
import torch
from matplotlib.path import Path

from discoformer.baselines.kde import KDE
from discoformer.functionals.draws import draw
from discoformer.functionals.regions import highest_density_region


def test_two_islands_have_two_outlines_that_hold_the_share() -> None:
    x = torch.randn(60, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    field = KDE(1.0).fit(torch.cat([x - 8, x + 8]))
    region = highest_density_region(field, 0.8)
    assert len(region.outlines) == 2
    inside = np.zeros(4000, dtype=int)
    for outline in region.outlines:
        assert (outline[0] == outline[-1]).all()
        at = field.log_density(torch.from_numpy(outline))
        np.testing.assert_allclose(at, region.log_density, atol=0.05)
        inside += Path(outline).contains_points(draw(field, 4000, seed=5).numpy())
    assert abs((inside % 2).mean() - 0.8) < 0.03


def test_a_hole_has_its_own_outline() -> None:
    angle = torch.linspace(0, 2 * np.pi, 200, dtype=torch.float64)
    ring = 10 * torch.stack([angle.cos(), angle.sin()], -1)
    outer, inner = sorted(
        highest_density_region(KDE(1.0).fit(ring), 0.9).outlines, key=lambda line: -np.ptp(line)
    )
    assert np.hypot(*outer.T).min() > 10 > np.hypot(*inner.T).max()

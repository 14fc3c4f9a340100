"""Langevin sampling reaches its law from the wrong place, exactly where moves can be refused."""

import pytest
import torch
from helpers import F64, normal

from discoformer import KDE
from discoformer.core.checks import DataError
from discoformer.priors import gaussian
from discoformer.samplers import annealed, kernel_stein_discrepancy, langevin

LAW_COVARIANCE = torch.tensor([[1.0, 0.5], [0.5, 2.0]], dtype=F64)
LAW = gaussian(torch.tensor([1.0, -2.0], dtype=F64), LAW_COVARIANCE)


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("sampler", [langevin, annealed])
def test_moves_that_can_be_refused_give_the_law_itself(sampler: object) -> None:
    points = sampler(LAW, 4 + 3 * normal(1500, 2), steps=300, generator=_generator())  # type: ignore[operator]
    own = kernel_stein_discrepancy(LAW.sample(1500, _generator(1)), LAW, bandwidth=1.0)
    assert kernel_stein_discrepancy(points, LAW, bandwidth=1.0) < 1.5 * own


def test_a_score_alone_is_enough_but_for_a_bias_of_the_step() -> None:
    start = LAW.sample(1500, _generator(2)) + 1.0
    points = langevin(LAW.score, start, steps=400, generator=_generator())
    rough = langevin(LAW.score, start, steps=400, step_size=0.8, generator=_generator())
    far, near = (
        float((p.mT.cov() - LAW.sample(9000, _generator(3))[..., :, :].mT.cov()).norm())
        for p in (rough, points)
    )
    assert near < 0.4 < far


@pytest.mark.parametrize("scale", [1e-3, 0.1, 3.0])
def test_a_wide_start_does_not_make_the_steps_of_a_narrow_law_long(scale: float) -> None:
    """Where moves cannot be refused variances grow by about a hundredth, in any units."""
    law = gaussian(torch.zeros(2, dtype=F64), scale**2 * torch.eye(2, dtype=F64))
    points = langevin(law.score, 4 * normal(4000, 2), steps=1500, generator=_generator())
    assert float(points.var(0).mean()) == pytest.approx(scale**2, rel=0.05)


def test_heat_carries_points_to_a_mode_that_cold_ones_do_not_find() -> None:
    modes = KDE(1.0).fit(torch.tensor([[-8.0], [-8.2], [8.0], [8.2]], dtype=F64))
    start = -8 + normal(300, 1)
    share = float((annealed(modes, start, steps=100, generator=_generator()) > 0).double().mean())
    assert share > 0.2
    assert bool((langevin(modes, start, steps=100, generator=_generator()) < 0).all())


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(DataError, match="a score alone cannot refuse"):
        langevin(LAW.score, normal(10, 2), adjusted=True)
    with pytest.raises(DataError, match="give positive numbers"):
        langevin(LAW, normal(10, 2), steps=0)
    with pytest.raises(DataError, match="end with 1"):
        annealed(LAW, normal(10, 2), temperatures=(4.0, 2.0))
    with pytest.raises(DataError, match="end with 1"):
        annealed(LAW, normal(10, 2), temperatures=2.0)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="steps are whole"):
        langevin(LAW, normal(10, 2), steps=2.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("adjusted", [True, False])
def test_units_do_not_matter_and_points_leave_the_plane_they_start_in(adjusted: bool) -> None:
    units = torch.tensor([1.0, 1e-7], dtype=F64)
    law = gaussian(LAW.sample(1, _generator(5))[0] * units, torch.outer(units, units) * LAW_COVARIANCE)
    flat = normal(500, 1) @ torch.ones(1, 2, dtype=F64)  # both columns are the same
    points = langevin(law, flat * units, steps=600, adjusted=adjusted, generator=_generator())
    own = law.sample(4000, _generator(1))
    torch.testing.assert_close((points / units).mT.cov(), (own / units).mT.cov(), atol=0.35, rtol=0)
    torch.testing.assert_close((points / units).mean(0), (own / units).mean(0), atol=0.25, rtol=0)

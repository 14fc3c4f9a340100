"""Contours hold the shares that the bar beside them says."""

import numpy as np
import pytest

from discoformer.views.contours import MASSES, contour_levels


def test_contours_hold_their_share_of_the_sample() -> None:
    log_density = np.random.default_rng(0).normal(size=1000)
    levels, masses = contour_levels(log_density)
    assert masses == list(MASSES)
    for level, mass in zip(levels, masses, strict=True):
        assert np.mean(log_density >= level) == pytest.approx(mass, abs=1e-2)

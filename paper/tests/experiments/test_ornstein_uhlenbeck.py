"""The closed form of Ornstein and Uhlenbeck."""

import numpy as np
import pytest

from discoformer_paper.experiments.ornstein_uhlenbeck import exact_values


def test_ornstein_uhlenbeck_closed_form() -> None:
    for time in (0.0, 0.5, 2.0):
        sigma_11, sigma_22, _ = exact_values(time, 1000)
        decay = np.exp(-2 * time)
        assert sigma_11 == pytest.approx(1 + (4.25 - 1) * decay)
        assert sigma_22 == pytest.approx(1 + (0.25 - 1) * decay)
    entropy = exact_values(20.0, 10**5)[2]
    assert entropy == pytest.approx(np.log(2 * np.pi * np.e), abs=0.02)

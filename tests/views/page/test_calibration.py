"""Calibration: right for the true law, and on the right side for laws that are too narrow or too wide."""

from typing import cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from discoformer.core.fields import PointDensity
from discoformer.models.mixture.student import StudentMixture
from discoformer.views.page.calibration import Calibration, calibrate
from discoformer.views.page.folds import Folds
from discoformer.views.page.headline import calibrated

ROWS: NDArray[np.float64] = np.random.default_rng(0).normal(size=(2000, 2))


def found(spread: float) -> Calibration:
    """Of rows of a standard normal law, asked of a normal law with another spread."""
    one = torch.ones(1, dtype=torch.float64)
    scale = spread**2 * torch.eye(2, dtype=torch.float64)[None]
    field = StudentMixture(0 * one, torch.zeros(1, 2, dtype=torch.float64), scale, 1e8 * one)
    all_rows = np.arange(len(ROWS))
    result = calibrate(Folds([field], 0 * all_rows, all_rows), ROWS)
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("spread", "words"), [(1.0, "Chance alone"), (0.7, "too sure of itself"), (1.4, "too careful")]
)
def test_words_follow_the_law(spread: float, words: str) -> None:
    """Of a normal law in two columns the region of share s is a ball of squared radius -2 log(1 - s)."""
    result = found(spread)
    assert words in "".join(map(str, calibrated(result)))
    for share in (0.5, 0.8, 0.95):
        expected = 1 - (1 - share) ** (spread**2)
        assert result.held(share) == pytest.approx(expected, abs=0.04)


def test_margins_are_distribution_functions() -> None:
    assert np.abs(found(1.0).margins - found(1.0).shares).max() < found(1.0).band


def test_what_cannot_be_drawn_from_has_no_calibration() -> None:
    assert (
        calibrate(Folds([cast(PointDensity, object())], np.zeros(4, dtype=np.int64), np.arange(4)), ROWS[:4])
        is None
    )

"""Summaries of laws that are known."""

import numpy as np
import pytest
import torch

from discoformer import DataError
from discoformer.baselines.kde import KDE
from discoformer.functionals.summaries import highest_density_region, mode, probability

TWO = KDE(1.0).fit([[-9.0], [9.0], [9.0]])
PLANE = KDE(1.0).fit([[0.0, 5.0], [0.0, 5.0]])


def test_the_mode_is_where_the_score_vanishes() -> None:
    x = torch.randn(80, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    field = KDE().fit(x)
    top = torch.from_numpy(mode(field)).unsqueeze(0)
    assert float(field.score(top).abs().max()) < 1e-3
    assert float(field.log_density(top)) >= float(field.log_density(x).max())


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_regions_of_one_column_have_the_mass_they_say(share: float) -> None:
    region = highest_density_region(TWO, share)
    mass = sum(probability(TWO, {0: ends}).value for ends in region.intervals)
    assert mass == pytest.approx(share, abs=0.015)
    ends = torch.tensor(region.intervals).double().reshape(-1, 1)
    np.testing.assert_allclose(TWO.log_density(ends), region.log_density, atol=1e-6)
    assert len(region.intervals) == (1 if share == 0.3 else 2)


def test_probabilities_of_boxes_and_of_any_region() -> None:
    assert probability(TWO, {0: (None, 0.0)}).value == pytest.approx(1 / 3)
    value, error = probability(PLANE, {0: (0.0, None), 1: (None, 5.0)})
    assert abs(value - 0.25) < 4 * error
    value, error = probability(PLANE, lambda rows: ((rows - [0.0, 5.0]) ** 2).sum(1) < 1)
    assert abs(value - (1 - np.exp(-0.5))) < 4 * error
    with pytest.raises(DataError, match="columns 0 to 1"):
        probability(PLANE, {2: (0.0, 1.0)})
    with pytest.raises(DataError, match="between 0 and 1"):
        highest_density_region(TWO, 1.0)

"""What passes over a source find is what numpy finds in memory."""

import numpy as np
import pytest
import torch
from helpers import two_groups

from discoformer import DataError
from discoformer.core.frames import FRAMES
from discoformer.scale.source import ArraySource
from discoformer.scale.survey import look, survey


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_range_and_moments_are_numpys(step: int) -> None:
    x = two_groups(300) * [1e-6, 1.0, 1e6] + [0.0, 50.0, 1e9]
    found = survey(ArraySource(x, step=step))
    assert found.rows == 300
    np.testing.assert_array_equal(found.low, x.min(0))
    np.testing.assert_array_equal(found.high, x.max(0))
    np.testing.assert_array_equal(found.size, np.abs(x).max(0))
    np.testing.assert_allclose(found.moments.center[0], x.mean(0), rtol=1e-12)
    np.testing.assert_allclose(found.moments.scale, x.std(0), rtol=1e-7)
    np.testing.assert_allclose(found.moments.correlation, np.corrcoef(x.T), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["whiten", "standardize", "identity"])
def test_a_frame_from_a_survey_is_the_frame_of_the_sample(name: str) -> None:
    x = two_groups(300)
    found = FRAMES[name].from_moments(survey(ArraySource(x, step=11)).moments)
    own = FRAMES[name].fit(torch.from_numpy(x))
    for part in ("center", "matrix", "inverse", "log_det"):
        torch.testing.assert_close(getattr(found, part), getattr(own, part), rtol=1e-9, atol=1e-9)


def test_some_columns_have_the_survey_of_those() -> None:
    x = two_groups(200)
    part, alone = survey(ArraySource(x)).select([2, 0]), survey(ArraySource(x[:, [2, 0]].copy()))
    np.testing.assert_array_equal(part.low, alone.low)
    for one, other in zip(part.moments, alone.moments, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_a_constant_has_scale_zero_and_no_correlation() -> None:
    x = np.column_stack([np.arange(5.0), np.full(5, 1e9 + 0.1)])
    moments = survey(ArraySource(x, step=2)).moments
    assert float(moments.scale[1]) == 0
    assert bool(moments.correlation[1].isnan().all())


@pytest.mark.parametrize("step", [1, 3, 100])
def test_the_first_number_that_is_none_is_named(step: int) -> None:
    x = two_groups(20)
    x[7, 2] = x[12, 0] = np.nan
    with pytest.raises(DataError, match=r"X has NaN at row 7, column 2 \(2 NaN or infinite"):
        look(ArraySource(x, step=step))
    with pytest.raises(DataError, match="1 row"):
        survey(ArraySource(x[:1]))

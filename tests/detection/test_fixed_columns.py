"""A row that differs where the sample never does is odd, and the column is named."""

import numpy as np
import pandas as pd
import pytest
import torch

from discoformer import DensityDetector, DiScoFormer, SupportWarning
from discoformer.detection.fixed_columns import broken_constants

X = np.random.default_rng(0).normal(size=(200, 2))


@pytest.mark.parametrize("contamination", [0, 0.02])
def test_a_broken_constant_is_odd_and_named(contamination: float) -> None:
    with pytest.warns(SupportWarning):
        detector = DensityDetector(contamination=contamination).fit(np.c_[X[:, :1], np.ones(200)])
    rows = np.array([[0.0, 5.0], [0.0, 1.0]])
    with pytest.warns(SupportWarning):
        assert detector.predict(rows).tolist() == [-1, 1]
    assert detector.score_samples(rows)[0] < detector.sample_scores_.min()
    reasons = detector.explain(rows)
    assert reasons.columns[reasons.order[0, 0]] == "x1" and np.isposinf(reasons.excess[0, 1])
    assert reasons.describe(0)[0] == "x1 = 5: 1 expected, without exception in the sample"
    assert np.isnan(reasons.excess[1, 1]) and reasons.order[1, 0] == 0


def test_a_broken_copy_is_named() -> None:
    with pytest.warns(SupportWarning):
        est = DiScoFormer().fit(np.c_[X, X.sum(1)])
    reasons = est.explain(np.array([[1.0, 1.0, 2.5], [1.0, 1.0, 2.0]]))
    assert reasons.order[0, 0] == 2 and reasons.expected[0, 2] == pytest.approx(2.0)
    assert np.isnan(reasons.excess[1, 2])


def test_constants_of_a_frame_are_watched_too() -> None:
    frame = pd.DataFrame({"a": X[:, 0], "unit": "cm", "b": X[:, 1]})
    with pytest.warns(SupportWarning):
        detector = DensityDetector(contamination=0.02).fit(frame)
    rows = pd.DataFrame({"a": [0.0, 0.0], "unit": ["kg", "cm"], "b": [0.1, 0.1]})
    assert detector.predict(rows).tolist() == [-1, 1]
    reasons = detector.explain(rows)
    assert reasons.describe(0)[0] == "unit = kg: cm expected, without exception in the sample"
    assert reasons.columns[reasons.order[1, 0]] != "unit"
    assert list(detector.explain(rows[1:]).columns) == ["a", "b"]


def test_rounding_and_gaps_break_nothing() -> None:
    sample = torch.tensor([[0.1, 1.0], [0.1, 2.0]]).double()
    rows = torch.tensor([[0.1 + 1e-17, 3.0], [torch.nan, 3.0], [0.1001, 3.0]]).double()
    assert broken_constants(rows, sample).where[:, 0].tolist() == [False, False, True]

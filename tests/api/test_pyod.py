"""The adapter keeps PyOD's contract, as its own detectors do."""

import numpy as np
import pytest

pytest.importorskip("pyod")

from pyod.models.knn import KNN
from pyod.utils.utility import standardizer
from sklearn.base import clone

from discoformer.api.pyod import PyODDetector

RNG = np.random.default_rng(0)
SAMPLE = np.r_[RNG.normal(size=(190, 2)), RNG.normal(8, 0.1, size=(10, 2))]


def test_the_contract_of_pyod() -> None:
    ours, theirs = (d.fit(SAMPLE) for d in (PyODDetector(0.05, model="kde-scott"), KNN(0.05)))
    for detector in (ours, theirs):
        assert detector.decision_scores_.shape == detector.labels_.shape == (200,)
        np.testing.assert_array_equal(detector.labels_, detector.decision_scores_ > detector.threshold_)
        assert detector.labels_.sum() == 10
        np.testing.assert_array_equal(detector.predict(SAMPLE[:5] + 50.0), 1)
        assert detector.predict_proba(SAMPLE).shape == (200, 2)
    np.testing.assert_array_equal(ours.decision_function(SAMPLE), ours.decision_scores_)
    assert ours.labels_[190:].all()  # nearest neighbours, within the cluster, miss it


def test_works_with_what_pyod_does_to_detectors() -> None:
    ours, theirs = PyODDetector(0.05, model="kde-scott").fit(SAMPLE), KNN(0.05, n_neighbors=20).fit(SAMPLE)
    both = standardizer(np.column_stack([ours.decision_scores_, theirs.decision_scores_])).mean(1)
    assert set(np.argsort(both)[-10:].tolist()) == set(range(190, 200))
    assert clone(ours).get_params()["model"] == "kde-scott"

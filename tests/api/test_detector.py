"""The detector: scikit-learn's contract, rows judged without themselves, clusters of errors."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from discoformer import DataError, DensityDetector, DiScoFormer

RNG = np.random.default_rng(0)
CLEAN = RNG.normal(size=(190, 3)) @ RNG.normal(size=(3, 3))
CLUSTER = np.r_[CLEAN, CLEAN.mean(0) + [9.0, -9.0, 9.0] + 0.05 * RNG.normal(size=(10, 3))]


@pytest.mark.filterwarnings("ignore::discoformer.RangeWarning")
@pytest.mark.parametrize("model", ["kde-scott", pytest.param("default", marks=pytest.mark.slow)])
def test_check_estimator(model: str) -> None:
    results = check_estimator(DensityDetector(model=model), on_skip=None)
    assert {r["check_name"] for r in results if r["status"] != "passed"} <= {"check_array_api_input"}
    assert any("outliers" in r["check_name"] for r in results)


def test_a_tight_cluster_of_errors_is_found() -> None:
    found = DensityDetector(contamination=0.05).fit_predict(CLUSTER)
    assert np.flatnonzero(found == -1).tolist() == list(range(190, 200))


def test_the_fit_rests_on_what_was_kept() -> None:
    """The second pass is the estimator of the rows kept: errors have no component of their own."""
    detector = DensityDetector(contamination=0.05).fit(CLUSTER)
    plain = DiScoFormer().fit(CLUSTER[detector.kept_])
    np.testing.assert_allclose(detector.log_density(CLUSTER), plain.log_density(CLUSTER))
    assert not detector.kept_[190:].any() and detector.kept_.sum() == 190


def test_rows_of_the_sample_are_judged_without_themselves() -> None:
    detector = DensityDetector(contamination=0.05).fit(CLUSTER)
    np.testing.assert_array_equal(detector.score_samples(CLUSTER[::-1]), detector.sample_scores_[::-1])
    moved = detector.score_samples(CLUSTER + 1e-9)  # no longer in the sample
    assert (moved[detector.kept_] >= detector.sample_scores_[detector.kept_] - 1e-6).mean() > 0.9


def test_without_contamination_no_row_of_the_sample_is_odd() -> None:
    detector = DensityDetector(contamination=0).fit(CLEAN)
    assert detector.kept_.all() and (detector.predict(CLEAN) == 1).all()
    assert detector.predict(CLEAN[:1] + 100.0).tolist() == [-1]


def test_frames_and_pipelines() -> None:
    frame = pd.DataFrame(CLUSTER, columns=["a", "b", "c"])
    detector = DensityDetector(contamination=0.05).fit(frame)
    np.testing.assert_array_equal(detector.predict(frame), detector.fit(CLUSTER).predict(CLUSTER))
    pipe = make_pipeline(StandardScaler(), DensityDetector(contamination=0.05)).fit(frame)
    assert (pipe.predict(frame)[190:] == -1).all()


def test_what_cannot_be_judged_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="from 0 to 0.5"):
        DensityDetector(contamination=0.7).fit(CLEAN)
    np.save(tmp_path / "x.npy", CLEAN)
    with pytest.raises(DataError, match="into memory"):
        DensityDetector().fit(tmp_path / "x.npy")
    with pytest.raises(DataError, match="give the share of odd rows"):
        DensityDetector(contamination="auto").fit(CLEAN)
    with pytest.raises(DataError, match="leave out sample_weight"):
        DensityDetector().fit(CLEAN, sample_weight=np.ones(190))


def test_every_row_has_a_left_out_density() -> None:
    """Rows that the fit left out are new to it; levels are ranks among those that it used."""
    detector = DensityDetector(contamination=0.05).fit(CLUSTER)
    assert detector.loo_log_density_.shape == (200,)
    plain = DiScoFormer().fit(CLUSTER[detector.kept_])
    np.testing.assert_allclose(detector.loo_log_density_[detector.kept_], plain.loo_log_density_)
    np.testing.assert_allclose(detector.loo_log_density_[190:], plain.log_density(CLUSTER[190:]))
    np.testing.assert_allclose(detector.level(CLUSTER), plain.level(CLUSTER))


def test_types_are_as_for_the_estimator() -> None:
    counts = np.random.default_rng(1).poisson(3.0, 200)
    frame = pd.DataFrame({"a": CLUSTER[:, 0], "count": counts})
    plain = DensityDetector(types="continuous").fit(frame)
    assert {column.kind for column in plain.schema_} == {"continuous"}
    assert DensityDetector(types={"count": "count"}).fit(frame).schema_["count"].kind == "count"


def test_labels_of_odd_rows_keep_their_codes() -> None:
    """A label that only left-out rows have does not shift the others."""
    label = np.where(np.arange(200) >= 190, "a", np.where(CLUSTER[:, 0] > CLEAN[:, 0].mean(), "b", "c"))
    frame = pd.DataFrame({"x": CLUSTER[:, 0], "y": CLUSTER[:, 1], "label": label})
    detector = DensityDetector(contamination=0.05).fit(frame)
    np.testing.assert_allclose(detector.score_samples(frame), detector.sample_scores_)
    assert detector.schema_["label"].categories == ("a", "b", "c")


def ties(rate: float) -> pd.DataFrame:
    return pd.DataFrame({"n": np.random.default_rng(3).poisson(rate, 300)})


@pytest.mark.filterwarnings("ignore::discoformer.RangeWarning")
@pytest.mark.parametrize(
    "sample",
    [
        *(ties(rate) for rate in (0.1, 0.3, 0.8)),
        ties(0.3).to_numpy(dtype=float),
        pd.DataFrame(np.random.default_rng(1).random((40, 3)) < [0.5, 0.3, 0.2], columns=["a", "b", "c"]),
        pd.DataFrame({"a": [1.0, 2.0, 2.0], "b": [3.0, 3.5, 7.0]}),
        np.tile([[0.0], [1.0]], (20, 1)),
    ],
    ids=["0.1", "0.3", "0.8", "numbers", "booleans", "three rows", "halves"],
)
def test_scores_that_tie_are_finite_and_stay_together(sample: pd.DataFrame) -> None:
    detector = DensityDetector(model="kde-scott" if len(sample) == 3 else "default").fit(sample)
    scores = detector.sample_scores_
    assert np.isfinite(scores).all() and np.abs(scores).max() < 1e4
    assert detector.offset_ in scores or len(sample) == 3
    odd = detector.predict(sample) == -1
    assert odd.mean() <= max(0.1, 1 / len(sample)) and (~detector.kept_).mean() <= max(0.1, 1 / len(sample))
    np.testing.assert_array_equal(detector.fit(sample).sample_scores_, scores)


def test_a_count_far_off_is_odd() -> None:
    detector = DensityDetector().fit(ties(0.3))
    assert detector.predict(pd.DataFrame({"n": [9, 0]})).tolist() == [-1, 1]
    assert (detector.level(pd.DataFrame({"n": [9]})) < 0.01).all()

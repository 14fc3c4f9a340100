"""Data larger than memory and on clusters: the answers are those of the same rows in memory."""

import warnings
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import torch
from helpers import EXACT, assert_same_field, two_groups

from discoformer import DataError, DiScoFormer, SupportWarning
from discoformer.core.frames import FRAMES
from discoformer.scale.source import ArraySource
from discoformer.scale.stream import look, survey


@pytest.mark.parametrize("rows", [5, 40, 300])
def test_small_samples_too(rows: int, model_path: Path, tmp_path: Path) -> None:
    x = two_groups(rows)
    np.save(tmp_path / "x.npy", x)
    streamed = DiScoFormer(model=model_path).fit(tmp_path / "x.npy")
    assert_same_field(streamed.field_, DiScoFormer(model=model_path).fit(x).field_, x)


def test_columns_without_density_are_left_out_as_in_memory(model_path: Path, tmp_path: Path) -> None:
    a, b = two_groups(600, 2).T
    x = np.column_stack([a, np.full(600, 0.1), b + 1e6, 3 * a - b + 7, b**2])
    np.save(tmp_path / "x.npy", x)
    fits = []
    for data in (x, tmp_path / "x.npy"):
        with pytest.warns(SupportWarning, match=r"column 1 \(constant\) and column 3 \(linear in"):
            fits.append(DiScoFormer(model=model_path).fit(data))
    memory, streamed = fits
    assert streamed.support_.tolist() == memory.support_.tolist() == [True, False, True, False, True]
    assert_same_field(streamed.field_, memory.field_, x, rtol=1e-8, atol=1e-8)
    drawn = streamed.sample(20, random_state=0)
    np.testing.assert_allclose(drawn[:, 3], 3 * drawn[:, 0] - (drawn[:, 2] - 1e6) + 7, atol=1e-6)
    np.testing.assert_allclose(drawn[:, 1], 0.1)


@pytest.mark.parametrize("noise", [1e-14, 1e-10, 1e-8, 1e-7, 1e-6, 1e-4])
def test_nearly_collinear_columns_are_judged_as_in_memory(noise: float, model_path: Path) -> None:
    a, b, c = two_groups(500).T
    x = np.column_stack([a, b, a - b + noise * c, 1e6 + a])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        memory = DiScoFormer(model=model_path).fit(x)
        streamed = DiScoFormer(model=model_path).fit(da.from_array(x, chunks=(130, 4)))
    assert streamed.support_.tolist() == memory.support_.tolist()
    assert np.isfinite(streamed.score_samples(x)).all()


def test_a_vector_is_one_column_and_a_memory_map_is_streamed(model_path: Path, tmp_path: Path) -> None:
    x = two_groups(300, 1)
    np.save(tmp_path / "x.npy", x[:, 0])
    expected = DiScoFormer(model=model_path).fit(x)
    from_file = DiScoFormer(model=model_path).fit(str(tmp_path / "x.npy"))
    memory_map = np.load(tmp_path / "x.npy", mmap_mode="r")[:, None]
    assert isinstance(memory_map, np.memmap)
    mapped = DiScoFormer(model=model_path).fit(memory_map)
    for est in (from_file, mapped):
        for value, same in zip(est.entropy(), expected.entropy(), strict=True):
            np.testing.assert_allclose(value, same, **EXACT)  # it does not matter how the sample arrived
        np.testing.assert_allclose(est.score_samples(x), expected.score_samples(x), **EXACT)
        np.testing.assert_allclose(est.score_samples(memory_map), expected.score_samples(x), **EXACT)
        np.testing.assert_allclose(est.log_density(tmp_path / "x.npy"), expected.score_samples(x), **EXACT)
        np.testing.assert_allclose(
            est.estimate(tmp_path / "x.npy").score, expected.score_function(x), **EXACT
        )


@pytest.mark.parametrize("extra", [0, 1])
def test_entropy_of_a_large_stream_is_that_of_the_sample_in_memory(
    model_path: Path, tmp_path: Path, extra: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked at rows of the sample, not at draws: a fit that is off says so in both."""
    monkeypatch.setattr("discoformer.api.estimator._KEPT", 1000)
    monkeypatch.setattr("discoformer.api.estimator._PART", 500)
    x = two_groups(2000)
    x = np.column_stack([x, x[:, :extra]])
    np.save(tmp_path / "x.npy", x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        streamed = DiScoFormer(model=model_path).fit(tmp_path / "x.npy")
        memory = DiScoFormer(model=model_path).fit(x)
    assert streamed._sample is None and len(streamed._part) == 500
    value, error = streamed.entropy()
    assert abs(value - memory.entropy(split="none").value) < error
    assert abs(streamed.fisher_information().value / memory.fisher_information(split="none").value - 1) < 0.1


def test_float32_files_answer_as_the_same_numbers_in_memory(model_path: Path, tmp_path: Path) -> None:
    x = two_groups(500).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    streamed = DiScoFormer(model=model_path).fit(tmp_path / "x.npy")
    assert_same_field(streamed.field_, DiScoFormer(model=model_path).fit(x).field_, x.astype(np.float64))


def test_what_needs_the_sample_in_memory_says_so(model_path: Path, tmp_path: Path) -> None:
    x = two_groups(100)
    np.save(tmp_path / "x.npy", x)
    path = tmp_path / "x.npy"
    with pytest.raises(DataError, match="needs the whole sample in memory"):
        DiScoFormer(model="kde-scott").fit(path)
    with pytest.raises(DataError, match="bounds and sample weights need the sample in memory"):
        DiScoFormer(model=model_path, bounds=(-99, None)).fit(path)
    with pytest.raises(DataError, match="bounds and sample weights need the sample in memory"):
        DiScoFormer(model=model_path).fit(path, sample_weight=np.ones(100))
    mapped = np.load(path, mmap_mode="r")  # an array after all: read where it cannot be streamed
    expected = DiScoFormer(model="kde-scott").fit(x).score_samples(x)
    np.testing.assert_allclose(DiScoFormer(model="kde-scott").fit(mapped).score_samples(x), expected)
    est = DiScoFormer(model=model_path).fit(path)
    with pytest.raises(DataError, match="X has 3 column"):
        est.marginal([0, 1]).score_samples(path)


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

"""What users hold their data in: the layout never changes an answer, what is no number is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from torch.masked import masked_tensor

from discoformer import DiScoFormer, estimate
from discoformer.core.checks import DataError, to_tensor

# frames are asked with arrays here, and arrays with frames
pytestmark = pytest.mark.filterwarnings("ignore:X .*feature names")
SAMPLE = np.random.default_rng(0).normal(size=(60, 2))
FRAME = pd.DataFrame(SAMPLE, columns=["a", "b"])
DAYS = pd.date_range("2020-01-01", periods=60)


def _log_density(sample: Any, queries: Any = SAMPLE[:5]) -> Any:
    return DiScoFormer(model="kde-scott").fit(sample).score_samples(queries)


EXPECTED = _log_density(SAMPLE)


def _read_only() -> Any:
    array = SAMPLE.copy()
    array.flags.writeable = False
    return array


class OwnFrame(pd.DataFrame):
    """As geopandas and others have them."""

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return OwnFrame


LAYOUTS = {
    "reversed": SAMPLE[::-1],
    "columns reversed twice": SAMPLE[:, ::-1].copy()[:, ::-1],
    "upside down": np.flipud(SAMPLE),
    "frame reversed": FRAME[::-1],
    "Fortran order": np.asfortranarray(SAMPLE),
    "every other row": np.repeat(SAMPLE, 2, 0)[::2],
    "read-only": _read_only(),
    "other endian": SAMPLE.astype(">f8"),
    "long": SAMPLE.astype(np.longdouble),
    "objects": SAMPLE.astype(object),
    "frame of objects": FRAME.astype(object),
    "extension types": FRAME.astype("Float64"),
    "arrow types": FRAME.convert_dtypes(dtype_backend="pyarrow"),
    "sparse columns": FRAME.astype(pd.SparseDtype(float)),
    "a user's class of frames": OwnFrame(FRAME),
    "polars": pl.DataFrame(SAMPLE, schema=["a", "b"]),
    "nothing masked": np.ma.MaskedArray(SAMPLE),
    "flipped tensor": torch.tensor(SAMPLE).flip(0),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_change_nothing(name: str) -> None:
    sample = LAYOUTS[name]
    np.testing.assert_allclose(_log_density(sample), EXPECTED, atol=1e-12)
    np.testing.assert_allclose(
        estimate(sample, SAMPLE[:5], model="kde-scott").log_density, EXPECTED, atol=1e-12
    )
    if "revers" not in name and "flip" not in name and "upside" not in name:
        np.testing.assert_allclose(_log_density(SAMPLE, sample)[:5], EXPECTED, atol=1e-12)


def test_memory_maps_in_any_order_are_samples(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", SAMPLE)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for rows in (mapped, mapped[::-1]):
        np.testing.assert_allclose(_log_density(rows), EXPECTED, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_answered_in_single(dtype: torch.dtype) -> None:
    stored = torch.tensor(SAMPLE).to(dtype)
    exact = _log_density(stored.double(), stored[:5].double())
    answer = _log_density(stored, stored[:5])
    assert answer.dtype == torch.float32
    np.testing.assert_allclose(answer, exact, atol=1e-5)
    far = torch.full((1, 2), 1000.0, dtype=dtype)  # its log density is none of half precision
    assert torch.isfinite(_log_density(stored, far)).all()


def test_what_is_masked_is_a_gap_and_never_read() -> None:
    masked = np.ma.MaskedArray(SAMPLE.copy())
    masked[3, 1] = -999999
    masked[3, 1] = np.ma.masked
    for question in (
        lambda: _log_density(masked),
        lambda: _log_density(list(masked)),
        lambda: _log_density(SAMPLE, masked),
        lambda: estimate(masked, SAMPLE, model="kde-scott"),
        lambda: DiScoFormer(model="kde-scott").fit(SAMPLE).field_.score(masked),
    ):
        with pytest.raises(DataError, match="NaN.*row 3, column 1"):
            question()
    with pytest.warns(UserWarning, match="MaskedTensors"):
        tensor = masked_tensor(torch.tensor(masked.data), torch.tensor(~np.ma.getmaskarray(masked)))
        counted = masked_tensor((1e9 * tensor.get_data()).long() + 2**40, tensor.get_mask())
        with pytest.raises(DataError, match="NaN.*row 3, column 1"):
            _log_density(tensor)
        found = to_tensor(counted, "X")
    assert bool(found[3, 1].isnan())
    assert found[0, 0] == int(1e9 * SAMPLE[0, 0]) + 2**40
    weights = np.ma.masked_equal(np.arange(60), 5)
    with pytest.raises(DataError, match="finite"):
        DiScoFormer(model="kde-scott").fit(SAMPLE, sample_weight=weights)


@pytest.mark.parametrize(
    "dates",
    [
        np.stack([DAYS.to_numpy()] * 2, -1),
        np.stack([(DAYS - DAYS[0]).to_numpy()] * 2, -1),
    ],
)
def test_dates_in_arrays_are_not_read_as_numbers(dates: Any) -> None:
    """In frames they have a schema, and come back as dates: tests/api/test_estimator.py."""
    for question in (
        _log_density,
        lambda x: _log_density(SAMPLE, x),
        lambda x: estimate(x, model="kde-scott"),
    ):
        with pytest.raises(DataError, match="X holds dates"):
            question(dates)


@pytest.mark.parametrize("holder", [pd.DataFrame, OwnFrame])
def test_numbers_for_names_are_labels_and_not_positions(holder: type[pd.DataFrame]) -> None:
    frame = holder(SAMPLE, columns=[1, 0])
    est = DiScoFormer(model="kde-scott").fit(frame)
    first = DiScoFormer(model="kde-scott").fit(FRAME).marginal("a")
    np.testing.assert_array_equal(
        est.marginal(1).score_samples(SAMPLE[:, :1]), first.score_samples(SAMPLE[:, :1])
    )
    assert est.conditional(1, 0.0)._labels == [0]
    with pytest.raises(DataError, match="no column 2"):
        est.marginal(2)
    with pytest.raises(DataError, match="give them in this order"):
        est.score_samples(frame[[0, 1]])
    positive = frame.abs()
    bounded = DiScoFormer(model="kde-scott", bounds={1: (0, None)}).fit(positive)
    assert bounded._bounds == [(0.0, np.inf), (-np.inf, np.inf)]
    with pytest.raises(DataError, match="column 1 has -"):
        DiScoFormer(model="kde-scott", bounds={1: (0, None)}).fit(frame)


@pytest.mark.parametrize("labels", [[1.5, 0.5], list(DAYS[:2]), [True, False]])
def test_a_label_of_any_kind_is_one_label(labels: list[Any]) -> None:
    est = DiScoFormer(model="kde-scott").fit(pd.DataFrame(SAMPLE, columns=labels))
    second = DiScoFormer(model="kde-scott").fit(FRAME).marginal("b")
    np.testing.assert_array_equal(
        est.marginal(labels[1]).score_samples(SAMPLE[:, 1:]), second.score_samples(SAMPLE[:, 1:])
    )
    with pytest.raises(DataError, match="no column 7.5"):
        est.marginal(7.5)


def test_whole_numbers_beyond_floating_ones_are_refused() -> None:
    objects = SAMPLE.astype(object)
    objects[0, 0] = 10**400
    for data in (objects, pd.DataFrame(objects, dtype=object), objects.tolist()):
        fine = pd.DataFrame(SAMPLE) if isinstance(data, pd.DataFrame) else SAMPLE
        for sample, queries in ((data, SAMPLE), (fine, data)):
            with pytest.raises(DataError, match="whole numbers too large"):
                _log_density(sample, queries)


def test_pairs_may_be_labels() -> None:
    frame = pd.DataFrame(SAMPLE, columns=pd.MultiIndex.from_tuples([("x", 1), ("x", 2)]))
    est = DiScoFormer(model="kde-scott").fit(frame)
    np.testing.assert_array_equal(
        est.marginal(("x", 2)).score_samples(SAMPLE[:, 1:]), est.marginal(1).score_samples(SAMPLE[:, 1:])
    )


def test_the_sample_may_change_after_the_fit() -> None:
    """Neither the sample, nor weights, nor bounds that the caller changes change an answer."""
    for holder in (torch.tensor, np.array, lambda rows: pd.DataFrame(rows, columns=["a", "b"])):
        sample, weights, bounds = holder(np.abs(SAMPLE)), np.ones(60), [(0, None), None]
        est = DiScoFormer(model="kde-scott", bounds=bounds).fit(sample, sample_weight=weights)
        plain = DiScoFormer(model="kde-scott", bounds=bounds).fit(sample)
        before, entropy = est.score_samples(SAMPLE[:5] ** 2), plain.entropy().value
        sample *= 100
        weights[:30] = 0
        bounds[1] = (-1, 1)
        np.testing.assert_array_equal(est.score_samples(SAMPLE[:5] ** 2), before)
        assert plain.entropy().value == entropy
        assert plain.marginal([1])._bounds == [(-np.inf, np.inf)]


def test_answers_belong_to_the_caller() -> None:
    est = DiScoFormer(model="kde-scott").fit(SAMPLE)
    before = est.loo_log_density_.copy()
    est.loo_log_density_[:] = 0
    np.testing.assert_array_equal(est.loo_log_density_, before)

"""Sources: npy files, memory maps, arrays, in chunks."""

import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import torch
from dask.distributed import Client, LocalCluster
from helpers import EXACT, assert_same_field, two_groups
from numpy.typing import NDArray

from discoformer import DataError, DiScoFormer, RangeWarning
from discoformer.scale import source
from discoformer.scale.source import NpySource, open_source


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_files_of_any_kind(dtype: str, order: Any, tmp_path: Path) -> None:
    x = (np.abs(two_groups(50)) * 9).astype(dtype, order=order)
    np.save(tmp_path / "x.npy", x)
    opened = NpySource(tmp_path / "x.npy")
    opened.step = 7
    np.testing.assert_array_equal(torch.cat(list(opened.chunks())), x.astype(np.float64))
    assert (opened.rows, opened.dim) == (50, 3)


def test_no_pass_holds_more_than_a_few_chunks(
    many: None, model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks alive at the same time, while a fit and an estimate go over thirty of them."""
    import weakref

    np.save(tmp_path / "x.npy", two_groups(3000))
    monkeypatch.setattr(source, "CHUNK", 8 * 3 * 100)
    monkeypatch.setattr("discoformer.api.estimator._KEPT", 250)  # a larger sample is kept in part only
    alive: weakref.WeakSet[torch.Tensor] = weakref.WeakSet()
    most = 0
    original = source.as_tensor

    def counted(rows: NDArray[Any]) -> torch.Tensor:
        nonlocal most
        tensor = original(rows)
        alive.add(tensor)
        most = max(most, len(alive))
        return tensor

    monkeypatch.setattr(source, "as_tensor", counted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RangeWarning)
        est = DiScoFormer(model=model_path).fit(tmp_path / "x.npy")
        est.score_samples(tmp_path / "x.npy")
    assert 0 < most <= 2 * torch.get_num_threads() + 2


def test_dask_in_this_process(model_path: Path) -> None:
    x = two_groups()
    array = da.from_array(x, chunks=(1100, 2))
    model = model_path
    est = DiScoFormer(model=model).fit(array)
    expected = DiScoFormer(model=model).fit(x)
    assert_same_field(est.field_, expected.field_, x[:200])
    lazy = est.score_samples(array)
    assert isinstance(lazy, da.Array)
    assert lazy.shape == (5000,)
    np.testing.assert_allclose(lazy[:300], expected.score_samples(x[:300]), **EXACT)
    assert isinstance(est.log_density(array), da.Array)
    np.testing.assert_allclose(est.score_function(array)[:300], expected.score_function(x[:300]), **EXACT)
    np.testing.assert_allclose(est.estimate(array).score[-5:], expected.score_function(x[-5:]), **EXACT)
    assert est.score(array) == pytest.approx(expected.score(x))


def test_blocks_of_unknown_or_no_length(model_path: Path) -> None:
    x = two_groups(2000)
    array = da.from_array(x, chunks=(300, 3))
    some = array[array[:, 0] > np.sort(x[:, 0])[-250]]  # lengths unknown, most of them small
    kept = x[x[:, 0] > np.sort(x[:, 0])[-250]]
    nothing = da.concatenate([array[:0], some, array[:0]])
    expected = DiScoFormer(model=model_path).fit(kept)
    est = DiScoFormer(model=model_path).fit(nothing)
    assert_same_field(est.field_, expected.field_, kept)
    np.testing.assert_allclose(est.score_samples(nothing), expected.score_samples(kept), **EXACT)


def test_what_is_masked_in_a_block_is_never_read(model_path: Path) -> None:
    x = two_groups(100)
    masked = np.ma.masked_array(x, mask=np.zeros_like(x, dtype=bool))
    masked[70, 1] = -999999
    masked[70, 1] = np.ma.masked
    array = da.from_array(masked, chunks=(30, 3))
    with pytest.raises(DataError, match="NaN at row 70, column 1"):
        DiScoFormer(model=model_path).fit(array)
    with pytest.raises(DataError, match="NaN"):
        DiScoFormer(model=model_path).fit(two_groups(100)).score_samples(array).compute()


def test_dask_arrays_of_the_wrong_shape_are_refused(model_path: Path) -> None:
    with pytest.raises(DataError, match=r"1 dimension\(s\), expected \(rows, columns\)"):
        DiScoFormer(model=model_path).fit(da.zeros(10))
    with pytest.raises(DataError, match="not real numbers"):
        DiScoFormer(model=model_path).fit(da.zeros((10, 2), dtype=complex))
    est = DiScoFormer(model=model_path).fit(two_groups(100))
    with pytest.raises(DataError, match="X has 2 column"):
        est.score_samples(da.zeros((10, 2)))


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(processes=True, **options) as cluster, Client(cluster) as client:
        yield client


def _pids(client: Client) -> set[int]:
    return set(client.run(os.getpid).values())


def test_two_workers_are_one_process(model_path: Path, client: Client) -> None:
    x = two_groups()
    array = da.from_array(x, chunks=(800, 3))
    expected = DiScoFormer(model=model_path).fit(x)
    assert len(_pids(client) - {os.getpid()}) == 2
    two = DiScoFormer(model=model_path).fit(array)
    assert_same_field(two.field_, expected.field_, x[:300], rtol=1e-8, atol=1e-8)
    lazy = two.score_samples(array).compute()
    np.testing.assert_allclose(lazy, expected.score_samples(x), rtol=1e-8, atol=1e-8)


def _mortal(block: NDArray[np.float64], folder: str, block_info: Any = None) -> NDArray[np.float64]:
    """A block that takes its worker down, once, when it is read for the fifth time."""
    if block_info[0]["chunk-location"][0] == 2:
        reads = len(list(Path(folder).iterdir()))
        if reads < 5:
            (Path(folder) / str(reads)).touch()
        if reads == 4:
            os.kill(os.getpid(), signal.SIGKILL)
    return block


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_a_pass_changes_nothing(
    model_path: Path, client: Client, tmp_path: Path
) -> None:
    model = model_path
    array = da.from_array(two_groups(), chunks=(800, 3))
    before = _pids(client)
    two = DiScoFormer(model=model).fit(array)
    survivor = DiScoFormer(model=model).fit(array.map_blocks(_mortal, folder=str(tmp_path), dtype=float))
    assert len(list(tmp_path.iterdir())) == 5
    assert not before <= _pids(client)
    for one, other in zip(
        two.field_.estimate(two_groups()), survivor.field_.estimate(two_groups()), strict=True
    ):
        np.testing.assert_array_equal(one, other)  # the same blocks, the same sums


def test_parquet_folder(model_path: Path, tmp_path: Path) -> None:
    frame = pd.DataFrame(two_groups(900), columns=["a", "b", "c"])
    frame["text"] = "no number"
    folder = tmp_path / "parts"
    (folder / "year=2").mkdir(parents=True)
    frame[:200].to_parquet(folder / "1.parquet", row_group_size=70)
    frame[200:].to_parquet(folder / "year=2" / "2.parquet")
    opened = open_source(folder, ["c", "a", "b"])
    opened.step = 64
    np.testing.assert_array_equal(torch.cat(list(opened.chunks())), frame[["c", "a", "b"]])
    with pytest.raises(DataError, match="column 'text' holds text or dates"):
        open_source(folder)
    with pytest.raises(DataError, match="no column 'd', there are 'a', 'b'"):
        open_source(folder, ["d"])

    numbers = frame[["a", "b", "c"]]
    for part in (folder / "1.parquet", folder / "year=2" / "2.parquet"):
        pd.read_parquet(part).drop(columns="text").to_parquet(part)
    streamed, expected = DiScoFormer(model=model_path).fit(folder), DiScoFormer(model=model_path).fit(numbers)
    assert streamed.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(streamed.score_samples(numbers), expected.score_samples(numbers), **EXACT)
    frame[["c", "b", "a", "text"]].to_parquet(tmp_path / "turned.parquet")
    turned = streamed.score_samples(tmp_path / "turned.parquet")  # found by their names
    np.testing.assert_allclose(turned, expected.score_samples(numbers), **EXACT)

    numbers[["b", "a"]].to_parquet(folder / "3.parquet")
    with pytest.raises(DataError, match=r"3\.parquet: its columns or their types are not those of"):
        open_source(folder)


def test_row_labels_of_pandas_are_no_data(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4]}, index=pd.Index([7, 9], name="id"))
    frame.to_parquet(tmp_path / "x.parquet")
    assert open_source(tmp_path / "x.parquet").names == ("a", "b")
    frame.rename_axis(None).loc[[9, 7]].to_parquet(tmp_path / "y.parquet")
    assert open_source(tmp_path / "y.parquet").names == ("a", "b")


def test_missing_values_of_parquet_are_refused(model_path: Path, tmp_path: Path) -> None:
    pd.DataFrame({"n": pd.array([1, None, 3], dtype="Int64")}).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(DataError, match="NaN at row 1, column 'n'"):
        DiScoFormer(model=model_path).fit(tmp_path / "x.parquet")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_refused_with_row_and_column(
    value: float, model_path: Path, tmp_path: Path, small_chunks: None
) -> None:
    x = two_groups(3000)
    est = DiScoFormer(model=model_path).fit(x)
    x[2345, 1] = x[2999, 0] = value
    np.save(tmp_path / "x.npy", x)
    pd.DataFrame(x, columns=["a", "b", "c"]).to_parquet(tmp_path / "x.parquet", row_group_size=1000)
    what = "NaN" if np.isnan(value) else "an infinity"
    for data, name in (
        (tmp_path / "x.npy", "column 1"),
        (tmp_path / "x.parquet", "column 'b'"),
        (da.from_array(x, chunks=(400, 2)), "column 1"),
    ):
        with pytest.raises(DataError, match=rf"X has {what} at row 2345, {name} \(2 NaN or infinite"):
            DiScoFormer(model=model_path).fit(data)
    with pytest.raises(DataError, match=f"{what} at row 2345, column 1"):
        est.score_samples(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("none.npy", r"none\.npy: no such file"),
        ("none.parquet", r"none\.parquet: no such file"),
        ("text.csv", r"text\.csv: give an npy file, a parquet file or a folder"),
        ("empty", "the folder has no parquet files"),
        ("broken.npy", "not an npy file of numbers"),
        ("broken.parquet", "cannot be read as parquet"),
        ("cube.npy", r"has shape \(2, 2, 2\), expected \(rows, columns\)"),
        ("complex.npy", "holds complex128, not real numbers"),
        ("one.npy", "1 row"),
        ("huge.npy", "whose squares overflow"),
    ],
)
def test_bad_files_are_refused(data: str, message: str, model_path: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("text.csv", "broken.npy", "broken.parquet"):
        (tmp_path / name).write_text("1,2\n3,4\n")
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    np.save(tmp_path / "complex.npy", np.zeros((2, 2), dtype=complex))
    np.save(tmp_path / "one.npy", np.ones((1, 2)))
    np.save(tmp_path / "huge.npy", np.array([[1e200], [0.0]]))
    with pytest.raises(DataError, match=message):
        DiScoFormer(model=model_path).fit(tmp_path / data)

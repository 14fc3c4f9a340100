"""Dask arrays: the same answer as in memory, on one process, two workers, and with one of them killed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from dask.distributed import Client, LocalCluster
from helpers import EXACT, assert_same_field, two_groups
from numpy.typing import NDArray

from discoformer import DataError, DiScoFormer


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

"""Sources: npy files, memory maps, arrays, in chunks."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import two_groups
from numpy.typing import NDArray

from discoformer import DiScoFormer, RangeWarning
from discoformer.scale import source
from discoformer.scale.source import NpySource


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

"""Parquet files and folders of them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import EXACT, two_groups

from discoformer import DataError, DiScoFormer
from discoformer.scale.opening import open_source


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

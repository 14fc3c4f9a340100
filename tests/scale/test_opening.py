"""From what a user gives to a source, or one clear error."""

from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from helpers import two_groups

from discoformer import DataError, DiScoFormer


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

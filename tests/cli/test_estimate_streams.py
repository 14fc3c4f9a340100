"""Answers that are written as they come: whole files or none, the same numbers as at once."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import EXACT, two_groups

from discoformer.cli import estimate as command
from discoformer.cli import main
from discoformer.data.files import read_table
from discoformer.models.registry import load_model


@pytest.mark.parametrize("out", [".npy", ".parquet", ".csv"])
@pytest.mark.parametrize("data", ["x.npy", "folder"])
def test_the_command_streams_large_files(
    data: str,
    out: str,
    model_path: Path,
    tmp_path: Path,
    small_chunks: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = two_groups(1500)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "folder").mkdir()
    frame = pd.DataFrame(x, columns=["x0", "x1", "x2"])
    frame[:900].to_parquet(tmp_path / "folder" / "1.parquet")
    frame[900:].to_parquet(tmp_path / "folder" / "2.parquet")
    rest = ["--model", str(model_path)]
    assert main(["estimate", str(tmp_path / "x.npy"), *rest]) == 0
    printed = capsys.readouterr().out
    monkeypatch.setattr(command, "LARGE", 0)
    monkeypatch.setattr(command, "_in_memory", pytest.fail)
    assert main(["estimate", str(tmp_path / data), *rest]) == 0
    assert capsys.readouterr().out == printed
    assert main(["estimate", str(tmp_path / data), *rest, "--out", str(tmp_path / f"out{out}")]) == 0
    expected = load_model(model_path).fit(x).estimate(x)
    result = read_table(tmp_path / f"out{out}")
    np.testing.assert_allclose(result.values, np.column_stack([x, *expected]), **EXACT)
    if out != ".npy":
        assert result.names == ("x0", "x1", "x2", "log_density", "score_x0", "score_x1", "score_x2")


def test_the_command_streams_queries_and_columns(
    model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = two_groups(300), two_groups(80, seed=5)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    pd.DataFrame(y, columns=["x2", "x0", "x1"]).to_csv(tmp_path / "y.csv", index=False)
    monkeypatch.setattr(command, "LARGE", 0)
    monkeypatch.setattr(command, "_in_memory", pytest.fail)
    model = load_model(model_path)
    for queries in ("y.npy", "y.csv"):
        arguments = ["--queries", str(tmp_path / queries), "--model", str(model_path)]
        assert (
            main(["estimate", str(tmp_path / "x.npy"), *arguments, "--out", str(tmp_path / "out.npy")]) == 0
        )
        expected = model.fit(x).estimate(y)
        np.testing.assert_allclose(np.load(tmp_path / "out.npy"), np.column_stack([y, *expected]), **EXACT)
    some = ["--columns", "x2,x0", "--model", str(model_path), "--out", str(tmp_path / "out.npy")]
    assert main(["estimate", str(tmp_path / "x.npy"), *some]) == 0
    expected = model.fit(x[:, [2, 0]]).log_density(x[:, [2, 0]])
    np.testing.assert_allclose(np.load(tmp_path / "out.npy")[:, 2], expected, **EXACT)


def test_the_command_refuses_in_one_line_and_keeps_the_old_file(
    model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "LARGE", 0)
    x = two_groups(200)
    out = tmp_path / "out.npy"
    out.write_text("old")
    bad = x.copy()
    bad[150, 2] = np.nan
    for values, message in (
        (np.column_stack([x, x[:, 0]]), "'x3' is constant or linear in the columns before"),
        (x[:2], "too few for a density"),
        (bad, "NaN at row 150, column 2"),
    ):
        np.save(tmp_path / "x.npy", values)
        assert main(["estimate", str(tmp_path / "x.npy"), "--model", str(model_path), "--out", str(out)]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    np.save(tmp_path / "x.npy", x)
    arguments = ["--queries", str(tmp_path / "q.npy"), "--model", str(model_path), "--out", str(out)]
    np.save(tmp_path / "q.npy", bad)
    assert main(["estimate", str(tmp_path / "x.npy"), *arguments]) == 2
    assert "q.npy has NaN at row 150, column 2" in capsys.readouterr().err
    assert out.read_text() == "old"
    (tmp_path / "folder").mkdir()
    assert main(["estimate", str(tmp_path / "folder"), "--model", "kde-scott"]) == 2
    assert "a folder is streamed" in capsys.readouterr().err

"""The command `discoformer export`."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers import uneven_sample

from discoformer.cli import main
from discoformer.data.files import Table, write_table
from discoformer.export.programs import run_exported
from discoformer.models.registry import load_model


def test_command(model_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = str(tmp_path / "data.csv"), tmp_path / "density.pt2"
    write_table(Table(uneven_sample().numpy(), ("a", "b", "c")), data)
    assert main(["export", data, "--out", str(out), "--model", str(model_path), "--float32", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["n"], summary["columns"], summary["dtype"]) == (120, ["a", "b", "c"], "float32")
    assert zipfile.is_zipfile(out)
    answer = run_exported(out, uneven_sample(5).float())
    expected = load_model(model_path).fit(uneven_sample()).estimate(uneven_sample(5))
    np.testing.assert_allclose(answer.log_density, expected.log_density, atol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "density.bin"], "unknown format '.bin', use .onnx or .pt2"),
        (["--out", "density.pt2", "--model", "kde-scott"], "KDEField cannot be exported"),
    ],
)
def test_command_refuses_in_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(Table(uneven_sample().numpy(), ("a", "b", "c")), "data.csv")
    assert main(["export", "data.csv", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1

"""Benchmarks of detection run on small tables, resume, and say where some peer is better."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyod")

Load = Callable[[str], Any]


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Two tables in ADBench's format."""
    folder = tmp_path / "tables"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number, name in enumerate(("first", "second"), 1):
        usual = rng.normal(size=(180, 3)) @ rng.normal(size=(3, 3)) + 5
        odd = rng.normal(20, 1, size=(20, 3))
        labels = np.r_[np.zeros(180), np.ones(20)]
        np.savez(folder / f"{number}_{name}.npz", X=np.r_[usual, odd], y=labels)
    return folder


@pytest.mark.slow
def test_adbench_measures_all_and_resumes(
    tables: Path,
    tmp_path: Path,
    load: Load,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = load("adbench")
    arguments = ["--quick", "--data", str(tables), "--out", str(tmp_path / "out"), "--model", "kde-scott"]
    module.main(arguments)
    assert "some peer is better on" in capsys.readouterr().out
    lines = (tmp_path / "out" / "adbench.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 3  # two protocols: two tables and their mean
    monkeypatch.setattr(module.Split, "measure", pytest.fail)  # nothing is measured twice
    module.main(arguments)
    assert (tmp_path / "out" / "adbench.csv").read_text().splitlines() == lines


@pytest.mark.slow
def test_planted_errors_are_found(tables: Path, tmp_path: Path, load: Load) -> None:
    arguments = ["--quick", "--data", str(tables), "--out", str(tmp_path / "out"), "--model", "kde-scott"]
    load("planted").main([*arguments, "--tables", "first", "second"])
    lines = (tmp_path / "out" / "planted_reasons.csv").read_text().splitlines()
    assert len(lines) == 3 and all(float(line.split(",")[-1]) > 50 for line in lines[1:])


@pytest.mark.slow
def test_error_bars_run(tmp_path: Path, load: Load) -> None:
    arguments = ["--quick", "--dims", "1", "--model", "kde-scott", "--out", str(tmp_path)]
    load("error_bars").main(arguments)
    assert (tmp_path / "error_bars.csv").exists() and (tmp_path / "levels.csv").exists()

"""The benchmark of accuracy against time continues where it stopped."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Load = Callable[[str], Any]


def test_accuracy_runs_and_resumes(
    load: Load, model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load("accuracy_time")
    monkeypatch.setattr(module, "NAMES", (module.MODEL, module.OURS))
    arguments = ["--quick", "--model", str(model_path), "--out", str(tmp_path)]
    draw = module.draw
    monkeypatch.setattr(module, "draw", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        module.main(arguments)
    monkeypatch.setattr(module, "draw", draw)
    monkeypatch.setattr(module, "measure_errors", lambda *_: pytest.fail("measured again"))
    assert module.main(arguments) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"accuracy_time.csv", "accuracy_time.png"}
    assert len((tmp_path / "accuracy_time.csv").read_text().splitlines()) == 5

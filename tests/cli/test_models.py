"""The command `discoformer models`."""

import json
from pathlib import Path

import pytest

from discoformer.cli import main
from discoformer.models.registry import load_model, register


def test_models_command_prints_a_row_or_a_card_per_model(
    own_registry: Path, model_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register("one", model_path)
    assert main(["models"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    size = sum(p.numel() for p in load_model("one").parameters())
    assert lines[0][:4] == ["model", "core", "frame", "parameters"]
    assert ["one", "unified", "whiten", f"{size / 1e6:.2f}M", "1-64", "2-10000", "None"] in lines
    assert main(["models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["one"]["core"]["kind"] == "unified"

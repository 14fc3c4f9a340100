"""`discoformer recipes`: the list, and one recipe as it is."""

import json

import pytest

from discoformer.cli import main
from discoformer.training.recipes import list_recipes


def test_list_and_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(list_recipes())
    assert main(["recipes", "one"]) == 0
    assert capsys.readouterr().out == list_recipes()["one"].read_text()
    assert main(["recipes", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == list(list_recipes())


def test_an_unknown_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "no-such"]) == 2
    assert "no recipe at no-such" in capsys.readouterr().err

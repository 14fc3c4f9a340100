"""Beginning from weights that are there already."""

from pathlib import Path

import pytest
import torch

from discoformer.cli import main
from discoformer.core.checks import DataError
from discoformer.models.registry import build_network, load_network
from discoformer.training.config import load_recipe
from discoformer.training.recipes import list_recipes
from discoformer.training.start import start_from


def test_weights_are_taken_over(model_path: Path) -> None:
    core = {"kind": "unified", "layers": 2, "width": 16, "heads": 2}
    network = build_network(core, "whiten")
    start_from(network, str(model_path))
    weights = load_network(model_path, dtype=torch.float32).core.state_dict()
    for key, tensor in network.core.state_dict().items():
        assert torch.equal(tensor, weights[key])
    with pytest.raises(DataError, match="has another core"):
        start_from(build_network({**core, "width": 32}, "whiten"), str(model_path))


def test_weights_that_are_not_there_are_named_with_what_writes_them() -> None:
    network = build_network({"kind": "unified", "layers": 1, "width": 8, "heads": 2}, "whiten")
    with pytest.raises(DataError, match="start: no weights at no/such: --set start=null begins at random"):
        start_from(network, "no/such", "mine")
    recipe = load_recipe("default")
    with pytest.raises(DataError, match="`discoformer train one` writes them, --set start=default goes on"):
        start_from(network, str(recipe.start), recipe.name)


@pytest.mark.parametrize("name", list_recipes())
def test_every_recipe_begins_somewhere_or_says_what_to_run(name: str) -> None:
    start = load_recipe(name).start
    assert start is None or Path(start).parent.name in list_recipes()


def test_the_examples_of_train_begin_without_weights_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if "  discoformer train" in line]
    assert len(lines) >= 4
    for words in lines:
        assert load_recipe(words[2]).start is None or "start=default" in words

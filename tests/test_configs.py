"""The committed recipes: what they say fits together, and is what the shipped weights were trained by."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from discoformer.models.registry import build_network, list_models
from discoformer.priors import GMMPrior, prior_from_config
from discoformer.training.config import load_recipe

CONFIGS = {path.stem: path for path in (Path(__file__).parent.parent / "configs").glob("*.yaml")}
SHIPPED = {name: card for name, card in list_models().items() if "members" not in card.core}
LENGTH = {"steps", "cycles"}  # a run may go on, or end before the last step of its recipe


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_recipe_is_named_like_its_file_and_can_be_built(name: str) -> None:
    recipe = load_recipe(CONFIGS[name])
    assert recipe.name == name
    start = recipe.start and re.sub(r"^runs/(.+)/weights.safetensors$", r"\1", recipe.start)
    assert start is None or start in CONFIGS
    build_network(recipe.core, recipe.frame)
    prior_from_config(recipe.prior)
    assert all(isinstance(prior_from_config(prior), GMMPrior) for prior in recipe.validations)


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_shipped_weights_come_from_their_committed_recipe(name: str) -> None:
    card = SHIPPED[name]
    recipe = json.loads(json.dumps(asdict(load_recipe(CONFIGS[name]))))
    trained = card.record["recipe"]
    assert {key: recipe[key] for key in trained if key not in LENGTH} == {
        key: value for key, value in trained.items() if key not in LENGTH
    }
    assert 0 < card.record["steps"] <= recipe["steps"]
    assert (card.core, card.frame) == (recipe["core"], recipe["frame"])
    assert card.prior == prior_from_config(recipe["prior"]).describe()


def test_the_ablation_changes_the_frame_and_nothing_else() -> None:
    with_whitening, without = (asdict(load_recipe(CONFIGS[f"ablation-{x}"])) for x in ("whiten", "identity"))
    assert {key for key in without if without[key] != with_whitening[key]} == {"name", "frame"}
    assert (with_whitening["frame"], without["frame"]) == ("whiten", "identity")
    assert with_whitening["dims"] == [1]
    assert with_whitening["prior"]["name"] == "affine"

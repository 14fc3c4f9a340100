"""Recipes: what is refused, and the committed ones, by which the shipped weights were trained."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from discoformer.core.checks import DataError
from discoformer.models.registry import build_network, list_models, load_network
from discoformer.priors import GMMPrior, prior_from_config
from discoformer.training.config import Recipe, load_recipe
from discoformer.training.loop import Trainer

ROOT = Path(__file__).parents[2]
CONFIGS = {path.stem: path for path in (*ROOT.glob("configs/*.yaml"), *ROOT.glob("paper/configs/*.yaml"))}
SHIPPED = list_models()
LENGTH = {"steps", "cycles", "decay"}  # a run may go on, or end before the last step of its recipe


VALUES = {
    "name": "tiny",
    "core": {"kind": "unified"},
    "frame": "whiten",
    "prior": {"name": "gmm"},
    "sizes": [16, 64],
    "steps": 10,
}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("lr: 1e-3", r"lr = '1e-3': give a number \(YAML reads 1.0e-3, but not 1e-3\)"),
        ("lr: .nan", "lr = nan: should be a finite number"),
        ("lr: .inf", "lr = inf: should be a finite number"),
        ("hidden_lr: 0", "hidden_lr = 0: should be greater than 0"),
        ("steps: -10", "steps = -10: should be greater than 0"),
        ("steps: 10.5", "steps = 10.5: give a whole number"),
        ("warmup: true", "warmup = True: give a whole number"),
        ("cycles: 3", "10 steps do not divide into 3 cycles of equal length"),
        ("fresh: -0.5", "fresh = -0.5: should be greater than or equal to 0"),
        ("alpha: 1.5", "alpha = 1.5: should be less than or equal to 1"),
        ("alpha: true", "alpha = True: give a number"),
        ("size_steps: power_of_two", "should be 'log-uniform' or 'power-of-two'"),
        ("sizes: [64, 16]", r"sizes = \[64, 16\]: give the smaller number first"),
        ("sizes: 64", "sizes = 64: give two whole numbers, the smaller one first"),
        ("sizes: [16]", "sizes.1 is missing"),
        ("sizes: [16, 32, 64]", "at most 2 items"),
        ("sizes: [16, 64.5]", "sizes.1 = 64.5: give a whole number"),
        ("sizes: [1, 64]", "sizes.0 = 1: should be greater than or equal to 2"),
        ("{sizes: [16, 100], size_steps: power-of-two}", "give powers of two"),
        ("slots: [4, 2]", "give the smaller number first"),
        ("slots: [0, 2]", "slots.0 = 0: should be greater than 0"),
        ("dims: []", "dims = .* at least 1 item"),
        ("report_sizes: [32, 0]", "report_sizes.1 = 0: should be greater than or equal to 2"),
        ("report_dims: 2", r"report_dims = 2: give a list such as \[2, 3\]"),
        ("name: ../elsewhere", "cannot name a folder"),
        ("name: ..", "cannot name a folder"),
        ("name: ''", "cannot name a folder"),
        ("name: 3", "name = 3: should be a valid string"),
        ("prior: gmm", "prior = 'gmm': give a mapping such as"),
        ("validation: gmm", r"validation = 'gmm': give a mapping such as \{key: value\}, or a list of them"),
        ("validation: []", r"validation = \[\]: give a mapping"),
        ("validation: [gmm]", r"validation = \['gmm'\]: give a mapping"),
        ("balance: 1", "balance = 1: give true or false"),
        ("axes_off: 1.5", "axes_off = 1.5: should be less than or equal to 1"),
        ("line_slots: [4, 2]", "give the smaller number first"),
        ("loops: [-1, 2]", "loops.0 = -1: should be greater than or equal to 0"),
        ("{core: {kind: attention, dim: 2}, loops: [0, 2]}", "belong to the unified core"),
        ("{core: {kind: attention, dim: 2}, axes_off: 0.5}", "belong to the unified core"),
        (
            "{core: {kind: attention, dim: 2}, line_slots: [2, 4]}",
            "slots, loops and axes_off belong to the unified core",
        ),
        ("{core: {kind: attention, dim: 3}}", r"is for dim 3, but dims and report_dims have \[2\]"),
        (
            "{core: {kind: attention, dim: 2}, slots: [2, 4]}",
            "slots, loops and axes_off belong to the unified core",
        ),
        ("recompute: true", "recompute belongs to the attention core"),
        ("{context_queries: false, fresh: 0.0}", "no queries that this loss can use"),
        ("{balance: true, loss: mse}", "balance weighs relative errors"),
        ("loss: huber", "should be 'relative' or 'mse'"),
        ("{core: {kind: attention, dim: 2}, alpha: 1.0}", "alpha = 1 trains density: say estimates: density"),
        ("colour: blue", "unknown key colour, known are alpha, average"),
        ("{lr: 0, tokens: no}", "tokens = False: give a whole number; lr = 0: should be greater than 0"),
    ],
)
def test_a_recipe_that_cannot_be_trained_is_refused_on_one_line(
    line: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(yaml.safe_dump({**VALUES, **yaml.safe_load(line)}))
    with pytest.raises(DataError, match=message) as caught:
        load_recipe(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_files_that_are_not_recipes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    with pytest.raises(DataError, match="no recipe at"):
        load_recipe(path)
    for text, message in (
        ("name: x\n", "core is missing; frame is missing; prior is missing"),
        ("- name\n", "is not a recipe"),
        ("name: [x\n", "is not valid YAML"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=message):
            load_recipe(path)


def test_values_are_those_of_the_file_with_pairs_as_tuples(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(yaml.safe_dump(VALUES))
    recipe = load_recipe(path)
    values = recipe.model_dump()
    assert {key: values[key] for key in VALUES} == {**VALUES, "sizes": (16, 64)}
    assert Recipe(**values) == recipe
    assert Recipe(**json.loads(json.dumps(values))) == recipe


def test_only_training_needs_pydantic() -> None:
    code = """
import sys
sys.modules["pydantic"] = None  # as if it were not installed
import importlib.util as util
find = util.find_spec
util.find_spec = lambda name, *rest: None if name == "pydantic" else find(name, *rest)
import numpy as np
from discoformer import DiScoFormer
from discoformer.cli import main
DiScoFormer(model="kde-scott").fit(np.random.default_rng(0).normal(size=(20, 2)))
sys.exit(main(["train", "any.yaml"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "discoformer: error: training needs pydantic: pip install 'discoformer[train]'\n"


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_recipe_is_named_like_its_file_and_can_be_built(name: str) -> None:
    recipe = load_recipe(CONFIGS[name])
    assert recipe.name == name
    start = recipe.start and re.sub(r"^runs/(.+)/weights.safetensors$", r"\1", recipe.start)
    assert start is None or start in CONFIGS
    build_network(recipe.core, recipe.frame)
    prior_from_config(recipe.prior)
    assert all(isinstance(prior_from_config(prior), GMMPrior) for prior in recipe.validations)


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_recipe_trains_when_its_samples_are_made_small(name: str, tmp_path: Path) -> None:
    """As `discoformer train CONFIG --set ...` does."""
    small = ("sizes=[32,64]", "tokens=128", "start=null", "core.layers=2", "steps=2", "cycles=1")
    trainer = Trainer(load_recipe(CONFIGS[name], small), tmp_path, "cpu")
    before = [parameter.detach().clone() for parameter in trainer.network.parameters()]
    losses = [float(trainer.train_step().total.detach()) for _ in range(2)]
    assert all(map(math.isfinite, losses))
    moved = [bool((new != old).any()) for new, old in zip(trainer.network.parameters(), before, strict=True)]
    assert sum(moved) > 0.9 * len(moved)


def test_changes_of_a_recipe_are_those_of_the_command_line() -> None:
    printed = CONFIGS["printed-d2"]
    recipe = load_recipe(printed, ["sizes=[64, 128]", "core.layers=2", "frame=whiten", "alpha=0.25"])
    assert (recipe.sizes, recipe.core["layers"], recipe.frame, recipe.alpha) == ((64, 128), 2, "whiten", 0.25)
    for change, message in {
        "sizes": "write KEY=VALUE",
        "nothing.layers=2": "write KEY=VALUE",
        "sizes.0=3": "write KEY=VALUE",
        "sizes=[": "is not a value",
        "size=3": "unknown key size",
        "alpha=0.0": "estimates: score in the core",
    }.items():
        with pytest.raises(DataError, match=message):
            load_recipe(printed, [change])


def test_backbones_differ_in_what_they_estimate_alone() -> None:
    both, score, density = (
        load_recipe(CONFIGS[f"backbone-{estimates}"]).model_dump()
        for estimates in ("both", "score", "density")
    )
    for other in (score, density):
        assert {key for key in both if both[key] != other[key]} == {"name", "core", "alpha"}
        assert both["core"] == {key: value for key, value in other["core"].items() if key != "estimates"}


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_shipped_weights_come_from_their_committed_recipe(name: str) -> None:
    card = SHIPPED[name]
    last = card.record["recipe"]["name"]  # of several stages
    assert last.startswith(name)
    recipe = json.loads(json.dumps(load_recipe(CONFIGS[last]).model_dump()))
    trained = {
        key: value for key, value in card.record["recipe"].items() if key in recipe or value is not None
    }
    assert {key: recipe[key] for key in trained if key not in LENGTH} == {
        key: value for key, value in trained.items() if key not in LENGTH
    }
    assert 0 < card.record["steps"] <= recipe["steps"]
    core, frame = recipe["core"], recipe["frame"]
    assert card.frame == frame and card.core.items() >= core.items()
    built, said = build_network(core, frame).core.config, build_network(card.core, frame).core.config
    assert built == said  # what the recipe leaves open is what the card says
    assert card.prior == prior_from_config(recipe["prior"]).describe()


@pytest.mark.parametrize("longer", ["", "-2048"])
def test_the_ablation_changes_the_frame_and_nothing_else(longer: str) -> None:
    with_whitening, without = (
        load_recipe(CONFIGS[f"ablation-{frame}{longer}"]).model_dump() for frame in ("whiten", "identity")
    )
    assert {key for key in without if without[key] != with_whitening[key]} == {"name", "frame"}
    assert (with_whitening["frame"], without["frame"]) == ("whiten", "identity")
    assert with_whitening["dims"] == [1]
    assert with_whitening["prior"]["name"] == "affine"


def test_the_recipe_in_the_guide_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "plugs.md").read_text(encoding="utf-8")
    (tmp_path / "waves.yaml").write_text(page.split("```yaml\n")[1].split("```")[0])
    recipe = load_recipe(tmp_path / "waves.yaml")
    assert recipe.validations == [recipe.prior] == [{"name": "my_module:WavePrior"}]
    shipped = load_network(str(recipe.start)).core.config
    assert build_network(recipe.core, recipe.frame).core.config == shipped

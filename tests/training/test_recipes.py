"""Recipes ship with the package: by name, by the path they have in a checkout, and in the wheel."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from discoformer.core.checks import DataError
from discoformer.training.recipes import find_recipe, list_recipes

ROOT = Path(__file__).parents[2]


def test_a_name_and_a_path_that_is_not_there_give_the_recipe_of_the_package(tmp_path: Path) -> None:
    own = tmp_path / "one.yaml"
    own.write_text("name: other")
    assert find_recipe(own) == own
    assert find_recipe("one") == find_recipe("elsewhere/one.yaml") == list_recipes()["one"]


@pytest.mark.parametrize("name", ["no-such", "one.json", "elsewhere/no-such.yaml"])
def test_others_are_refused(name: str) -> None:
    with pytest.raises(DataError, match="give a file, or a name of `discoformer recipes`"):
        find_recipe(name)


@pytest.mark.slow
def test_the_wheel_holds_them_all(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {f"discoformer/recipes/{name}.yaml" for name in list_recipes()} <= set(names)

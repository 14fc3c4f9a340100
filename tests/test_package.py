"""What a user installs: the wheel is complete and importing it is light."""

import ast
import os
import re
import resource
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import discoformer
from discoformer import DiScoFormer, baselines, estimate
from discoformer.models.registry import load_model

ROOT = Path(__file__).parent.parent


def test_every_exported_name_is_there() -> None:
    for package in (discoformer, baselines):
        for name in package.__all__:
            assert getattr(package, name) is not None
        with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
            package.nonsense  # noqa: B018


def test_import_leaves_the_heavy_packages_alone() -> None:
    heavy = {"matplotlib", "pandas", "sklearn"}
    code = f"import sys, discoformer; discoformer.KDE; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_wheel_ships_types_and_weights(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob(f"discoformer-{discoformer.__version__}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        shipped = set(archive.namelist())
    package = ROOT / "src" / "discoformer"
    weights = package / "models" / "weights"
    networks = list(weights.rglob("*.safetensors"))
    assert networks
    page = [
        path
        for folder in ("js", "css", "templates")
        for path in (package / "views" / "page" / folder).iterdir()
    ]
    assert page
    wanted = [*package.rglob("*.py"), package / "py.typed", weights / "registry.json", *networks, *page]
    assert {str(path.relative_to(package.parent)) for path in wanted} <= shipped


@pytest.mark.slow
def test_first_estimate_is_not_slower_than_three_imports_of_torch() -> None:
    """Import, load the default, fit and answer in a fresh process, in processor time, best of three."""
    first = (
        "import numpy as np; from discoformer import DiScoFormer\n"
        "x = np.random.default_rng(0).normal(size=(1000, 2))\n"
        "DiScoFormer().fit(x).estimate(x)"
    )

    def seconds(code: str) -> float:
        times = []
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            # One thread: threads that wait for a busy machine count as processor time.
            one = {**os.environ, "OMP_NUM_THREADS": "1"}
            subprocess.run([sys.executable, "-c", code], check=True, env=one)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(times)

    assert seconds(first) < 3 * seconds("import torch")


def test_badges_are_true() -> None:
    badges = set(re.findall(r"img\.shields\.io/badge/([^)]+)-\w+\)", (ROOT / "README.md").read_text()))
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = settings["project"]
    wanted = {
        f"python-{project['requires-python'].removeprefix('>=')}%2B",
        f"license-{project['license']}",
        f"version-{discoformer.__version__}%20alpha",
        "types-mypy%20strict",
    }
    assert badges == wanted
    assert any("Alpha" in classifier for classifier in project["classifiers"])
    assert settings["tool"]["mypy"]["strict"]


def test_public_names_are_lazy() -> None:
    assert discoformer.DiScoFormer is DiScoFormer
    assert discoformer.estimate is estimate
    assert discoformer.load_model is load_model


def test_tests_mirror_the_tree() -> None:
    """`tests/<package>/test_<module>.py` is about that module; at the top, about the package as a whole."""
    tests, package = ROOT / "tests", ROOT / "src" / "discoformer"
    whole = {
        Path("cli/test_cli.py"),
        Path("models/test_shipped.py"),
        Path("models/test_model_card.py"),
        Path("views/page/test_engine.py"),  # of the page's JavaScript
        Path("views/page/test_page.py"),  # and of the page in a browser
        Path("views/page/test_mixed_page.py"),  # the same for messy tables
        Path("views/page/test_words.py"),
    }
    files = {path.relative_to(tests) for path in tests.glob("*/**/test_*.py")} - whole
    strays = [
        file for file in files if not (package / file.parent / file.name.removeprefix("test_")).exists()
    ]
    assert not strays


def test_no_class_name_is_taken_twice() -> None:
    """Neither in two modules nor, but for an underscore, as a public and a private one."""
    places: dict[str, list[str]] = {}
    for path in sorted((ROOT / "src" / "discoformer").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(f"{path}:{node.lineno}")
    assert len(places) > 100
    assert not {name: found for name, found in places.items() if len(found) > 1}

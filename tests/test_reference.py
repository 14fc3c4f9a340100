"""The documentation is whole: public names are in the reference, scripts of the gallery and notebooks run."""

import ast
import os
import pkgutil
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import discoformer

nbformat = pytest.importorskip("nbformat")  # of the extra docs

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GALLERY = sorted((ROOT / "examples").glob("plot_*.py"))
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def reference() -> dict[str, Any]:
    """What the pages of the reference list, by full name."""
    found = {}
    for page in sorted((DOCS / "reference").glob("*.rst")):
        module = ""
        for line in page.read_text(encoding="utf-8").splitlines():
            if line.startswith(".. currentmodule:: "):
                module = line.split()[-1]
            elif module and re.fullmatch(r"   \w+", line):
                found[f"{module}.{line.strip()}"] = getattr(import_module(module), line.strip())
    return found


def public_names() -> Iterator[tuple[str, Any]]:
    """Every name in ``__all__`` of the package and of the rooms that have one."""
    rooms = [
        discoformer.__name__,
        *(f"discoformer.{m.name}" for m in pkgutil.iter_modules(discoformer.__path__)),
    ]
    for room in rooms:
        if room not in ("discoformer.cli", "discoformer.__main__"):  # the command documents itself
            module = import_module(room)
            for name in getattr(module, "__all__", ()):
                if not name.startswith("__"):
                    yield f"{room}.{name}", getattr(module, name)


def names_used() -> Iterator[tuple[str, Any]]:
    """Every name that the guide, the gallery and the notebooks import from us, and where."""
    fence = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    code = {page.name: "".join(fence.findall(page.read_text(encoding="utf-8"))) for page in DOCS.glob("*.md")}
    code |= {script.name: script.read_text(encoding="utf-8") for script in GALLERY}
    for path in NOTEBOOKS:
        cells = nbformat.read(path, 4).cells
        code[path.name] = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    for where, text in code.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("discoformer"):
                for alias in node.names:
                    value = getattr(import_module(str(node.module)), alias.name)
                    yield f"{where}: {node.module}.{alias.name}", value


@pytest.mark.parametrize("wanted", [public_names, names_used])
def test_names_are_in_the_reference(wanted: Any) -> None:
    """By identity: a name that two rooms offer is listed once.  Add what is missing to docs/reference."""
    listed = {id(value) for value in reference().values()}
    missing = [
        name for name, value in wanted() if id(value) not in listed and not isinstance(value, ModuleType)
    ]
    assert not missing


def test_the_reference_lists_nothing_twice() -> None:
    names = list(reference())
    objects = [id(value) for value in reference().values()]
    assert len(names) > 80
    assert len(set(objects)) == len(objects)


def test_every_page_of_the_reference_is_in_its_table_of_contents() -> None:
    index = (DOCS / "reference" / "index.rst").read_text(encoding="utf-8")
    pages = {page.stem for page in (DOCS / "reference").glob("*.rst")} - {"index"}
    assert pages == set(re.findall(r"^   (\w+)$", index, re.MULTILINE))


def test_gallery_and_notebooks_are_kept_small() -> None:
    assert len(GALLERY) >= 12
    assert len(NOTEBOOKS) >= 2
    for path in NOTEBOOKS:
        assert path.stat().st_size < 250_000
        code = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
        assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), "run it from the top"


@pytest.mark.slow
@pytest.mark.parametrize("script", GALLERY, ids=lambda path: path.stem)
def test_gallery_scripts_draw_in_less_than_half_a_minute(script: Path, tmp_path: Path) -> None:
    """Processor time, so that a busy machine does not count."""
    code = (
        "import runpy, sys; import matplotlib.pyplot as plt\n"
        "runpy.run_path(sys.argv[1]); assert plt.get_fignums()"
    )
    environment = {**os.environ, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-W", "error", "-c", code, script], check=True, env=environment, cwd=tmp_path
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 30


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path: Path, tmp_path: Path) -> None:
    code = (
        "import sys, nbformat; from nbclient import NotebookClient\n"
        "NotebookClient(nbformat.read(sys.argv[1], 4), timeout=300).execute()"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", code, path], check=True, env=environment, cwd=tmp_path)

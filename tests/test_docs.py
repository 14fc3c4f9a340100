"""Every snippet of the guide and the README runs: Python page by page, shell through the command."""

import re
import shlex
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from discoformer import RangeWarning, SupportWarning, methods
from discoformer.cli import main
from discoformer.functionals import ImpossibleWarning
from discoformer.models import registry

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def shipped(model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Random weights under the default's name where the package has none yet."""
    if "default" in registry.list_models():
        yield
        return
    monkeypatch.setattr(registry, "_weights_folder", lambda: tmp_path / "weights")
    registry._registry.cache_clear()
    methods._load.cache_clear()
    registry.register("default", model_path)
    yield
    registry._registry.cache_clear()
    methods._load.cache_clear()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_snippets_run(
    page: Path,
    shipped: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    text = page.read_text(encoding="utf-8")
    with warnings.catch_warnings():
        # What a network was trained on may change with the weights; the guide explains these warnings.
        warnings.simplefilter("ignore", RangeWarning)
        warnings.simplefilter("ignore", ImpossibleWarning)
        warnings.simplefilter("ignore", SupportWarning)
        for language, code in FENCE.findall(text):
            line = text[: text.index(code)].count("\n")
            if language == "python":
                exec(compile("\n" * line + code, str(page), "exec"), names)
            elif language == "sh":
                for command in code.splitlines():
                    program, *arguments = shlex.split(command)
                    assert program == "discoformer", command
                    assert main(arguments) == 0, f"{command}: {capsys.readouterr().err}"


def headings(page: Path) -> set[str]:
    """What a link may name after a #: headings in lower case, spaces as dashes, other signs left out."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    for page in pages:
        for file, heading in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", page.read_text(encoding="utf-8")):
            target = page.parent / file if file else page
            assert target.exists(), f"{page.name} links to {file}"
            assert not heading or heading in headings(target), f"{page.name} links to {file}#{heading}"

"""`discoformer reproduce`: what it lists, refuses and sums up."""

import re
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest

from discoformer_paper.command import _usual_folder
from discoformer_paper.experiments import NAMES, find
from discoformer_paper.harness.runner import open_folder

Reproduce = Callable[..., int]


def test_every_table_and_figure_of_the_paper_has_an_experiment() -> None:
    found: dict[str, set[int]] = {"Table": set(), "Figure": set()}
    for name in NAMES:
        for kind, numbers in re.findall(r"(Table|Figure)s? (\d+(?: and \d+)?)", find(name).source):
            found[kind] |= set(map(int, numbers.split(" and ")))
    assert found == {"Table": set(range(1, 7)), "Figure": set(range(1, 16))}


def test_list_writes_nothing(
    tmp_path: Path,
    reproduce: Reproduce,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert reproduce("--list") == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in NAMES)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_table"], "no experiment 'no_such_table': choose one of attention_kde"),
        ([], "nothing to do"),
        (["large_n", "--seeds", "0"], "--seeds 0: give at least 1"),
        (["large_n", "--workers", "0"], "--workers 0: give at least 1"),
        (["large_n", "--quick", "--model", "no such model"], "no model 'no such model'"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], message: str, reproduce: Reproduce, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce(*arguments) == 2
    assert message in capsys.readouterr().err


def test_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _usual_folder() == Path("results")
    (tmp_path / "docs" / "results").mkdir(parents=True)
    with open_folder(None, _usual_folder(), quick=False) as folder:
        assert folder == Path("docs/results")
    with open_folder(None, _usual_folder(), quick=True) as folder:
        temporary = folder.parent
        assert temporary.exists() and tmp_path not in folder.parents
    assert not temporary.exists()


@pytest.mark.slow
def test_everything_quick_ends_with_a_short_overview(
    tmp_path: Path,
    reproduce: Reproduce,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    start = monotonic()
    assert reproduce("all", "--quick") == 0
    assert monotonic() - start < 300
    assert not list(tmp_path.iterdir())
    lines = capsys.readouterr().out.splitlines()
    overview = lines[len(NAMES) :]
    assert all(line.startswith(f"{name}: ") for line, name in zip(lines, NAMES, strict=False))
    assert len(overview) <= 10 and overview[-1].split()[0] == "all"

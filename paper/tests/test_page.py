"""The page of results: made from the files alone, and the committed one is that of the committed files."""

import re
from collections.abc import Callable
from pathlib import Path

from discoformer_paper.experiments import NAMES, find
from discoformer_paper.harness import provenance
from discoformer_paper.page import page_of, page_path

ROOT = Path(__file__).parents[2]


def test_the_committed_page_is_that_of_the_committed_files() -> None:
    folder = ROOT / "docs" / "results"
    assert page_path(folder).read_text(encoding="utf-8") == page_of(folder)
    runs = provenance.read_runs(folder)
    used = {run for name in NAMES for run in find(name).ledger(folder).runs()}
    used |= set(provenance.minutes_ledger(folder).runs())
    assert used == set(runs), "runs without lines, or lines without runs"


def test_numbers_read_off_a_figure_are_marked(
    tmp_path: Path, model_path: Path, fast_rivals: None, reproduce: Callable[..., int]
) -> None:
    out = tmp_path / "results"
    assert reproduce("quiver", "whitening", "--quick", "--model", model_path, "--out", out) == 0
    page = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "| ≈0.0077 | ≈0.153 |" in page and "| 0.107 |" in page
    assert "≈–" not in page


def test_page_only(tmp_path: Path, reproduce: Callable[..., int]) -> None:
    (tmp_path / "results").mkdir()
    assert reproduce("results", "--out", tmp_path / "results") == 0
    page = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert page.count("not run yet") == len(NAMES)
    assert "| :-- | :-- | --: | :-- | --: | --: |\n" in page, "columns of text are aligned to the left"
    assert page.index("## Not measured") > page.index(f"`{NAMES[-1]}`")
    assert "/" not in re.sub("`(results|paper)/[^`]*`", "", page), "no path of this machine"

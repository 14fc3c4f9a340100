"""The report: complete, correct, and alone in the world."""

import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from discoformer.checks import DataError
from discoformer.cli import main
from discoformer.io import Table, write_table
from discoformer.models.registry import load_model
from discoformer.report import effective_dimension, make_report

RNG = np.random.default_rng(0)
VALUES = np.column_stack([RNG.normal(size=(60, 2)), RNG.exponential(size=60), np.ones(60)])
NAMES = ("a", "<b>&", "wait", "one")


class Reader(HTMLParser):
    """Collects the text of the cells and the addresses of a page, and checks that tags are closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.text = ""
        self.addresses: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "img"):
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


@pytest.fixture(scope="module")
def page(model_path: Path) -> str:
    return make_report(Table(VALUES, NAMES), model=model_path, bounds={"wait": (0, None)}, title="a & b")


def test_page_stands_alone(page: str) -> None:
    reader = Reader(page)
    assert len(reader.addresses) == 2
    assert all(address.startswith("data:image/png;base64,") for address in reader.addresses)
    for outside in ("http:", "https:", "url(", "<script", "@import"):
        assert outside not in page


def test_page_says_what_it_should(page: str, model_path: Path) -> None:
    reader = Reader(page)
    for name in NAMES:  # also those that look like tags
        assert name in reader.cells
    assert "left out 'one' (constant)" in reader.text
    assert f"{np.median(VALUES[:, 0]):.4g}" in reader.cells
    assert "entropy" in reader.text
    assert "of 3" in reader.text
    assert "kernel density, Scott's rule" in reader.cells
    assert any(str(model_path) in cell for cell in reader.cells)


def test_unusual_rows_are_those_of_lowest_density(model_path: Path) -> None:
    values = VALUES[:, :2].copy()
    values[23] = [8.0, -8.0]
    reader = Reader(make_report(Table(values, ("a", "b")), model=model_path))
    lowest = int(load_model(model_path).fit(values).log_density(values).argmin())
    assert reader.cells[reader.cells.index("row, from 0") + 4] == str(lowest)


def test_a_table_that_cannot_be_cut_into_folds_still_has_a_page() -> None:
    """One row breaks the tie: where it is held out, the others are constant."""
    values = np.column_stack([RNG.normal(size=30), np.zeros(30)])
    values[3, 1] = 1.0
    text = Reader(make_report(Table(values, ("a", "b")), model="kde")).text
    assert "not available: column 1: constant" in text


@pytest.mark.parametrize("columns", [1, 5])
def test_effective_dimension_is_between_one_and_the_number_of_columns(columns: int) -> None:
    base = RNG.normal(size=(4000, columns))
    assert effective_dimension(base) == pytest.approx(columns, rel=0.02)
    if columns > 1:
        assert effective_dimension(base[:, :1] + 1e-3 * base) == pytest.approx(1, abs=1e-2)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_table(Table(VALUES[:, :2], ("a", "b")), tmp_path / "data.csv")
    out = tmp_path / "page.html"
    command = ["report", str(tmp_path / "data.csv"), "--model", "kde", "--columns", "a"]
    assert main([*command, "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"] == ["a"]
    assert "data.csv" in Reader(out.read_text(encoding="utf-8")).text
    assert main([*command, "--out", str(tmp_path / "page.pdf")]) == 2
    assert "ends in .html" in capsys.readouterr().err


def test_score_only_methods_are_refused() -> None:
    from discoformer.fields import Estimate, Field, Method

    class Flat(Field):
        dim = 2

        def _estimate(self, queries):  # type: ignore[no-untyped-def]
            return Estimate(None, 0 * queries)

    class FlatMethod(Method):
        def _fit(self, context, weights):  # type: ignore[no-untyped-def]
            return Flat()

    with pytest.raises(DataError, match="estimates the score only"):
        make_report(Table(VALUES[:, :2], ("a", "b")), model=FlatMethod())


@pytest.mark.slow
def test_page_in_a_browser(page: str, tmp_path: Path) -> None:
    """Drawn by a real browser: a picture of some size, not blank."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium on this machine")
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    picture = tmp_path / "page.png"
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1000,2400",
        f"--screenshot={picture}",
    ]
    subprocess.run([browser, *flags, (tmp_path / "page.html").as_uri()], check=True, capture_output=True)
    import matplotlib.image

    pixels = matplotlib.image.imread(picture)
    assert pixels.shape[:2] == (2400, 1000)
    assert pixels[..., :3].std() > 0.05

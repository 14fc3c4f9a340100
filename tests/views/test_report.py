"""The report: complete, correct, and alone in the world."""

import html
import json
import math
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

from discoformer.baselines.kde import KDE
from discoformer.cli import main
from discoformer.columns.fitting import FitRecipe
from discoformer.core.checks import DataError
from discoformer.core.fields import Field, Method
from discoformer.data.files import Table, write_table
from discoformer.evaluation.held_out import held_out_log_likelihood
from discoformer.models.registry import load_model
from discoformer.views.report import make_report

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
    first = reader.cells.index("row, from 0")
    header, _, line = (reader.cells[start : start + 11] for start in (first, first + 11, first + 22))
    assert header[1] == str(lowest)
    assert line == ["a", *(f"{values[int(row), 0]:.4g}" for row in header[1:])]


@pytest.fixture(scope="module")
def wide_page() -> str:
    """Many columns with long names, small and large numbers, a title without a place to break."""
    values = np.random.default_rng(1).normal(size=(80, 14)) * 10.0 ** np.arange(-7, 7)
    names = tuple(f"a long name of a column, number {j}" for j in range(14))
    return make_report(Table(values, names), model="kde-scott", title="a_very_long_name_" * 10)


def test_page_says_which_columns_its_pictures_leave_out(page: str, wide_page: str) -> None:
    text = Reader(wide_page).text
    assert "The first 6 of 14 columns." in text
    assert "The first 12 of 14 columns." in text
    assert "The first" not in Reader(page).text


def test_a_table_that_cannot_be_cut_into_folds_still_has_a_page() -> None:
    """One row breaks the tie: where it is held out, the others are constant."""
    values = np.column_stack([RNG.normal(size=30), np.zeros(30)])
    values[3, 1] = 1.0
    text = Reader(make_report(Table(values, ("a", "b")), model="kde-scott")).text
    assert "not available: column 1: constant" in text


@pytest.mark.parametrize("rows", [2, 3, 4, 5])
def test_a_few_rows_have_a_page_without_numbers_that_cannot_be_had(rows: int) -> None:
    text = Reader(make_report(Table(VALUES[:rows, :1], ("a",)), model="kde-scott")).text
    assert ("too few to hold some out" in text) == (rows < 4)
    assert ("kernel density, Scott's rule" in text) == (rows >= 4)
    assert "do not make" not in text
    assert "nan" not in text


def test_kernel_estimates_are_compared_within_the_same_bounds() -> None:
    cells = Reader(make_report(Table(VALUES[:, 2:3], ("wait",)), model="kde-scott", bounds=(0, None))).cells
    expected = held_out_log_likelihood(FitRecipe(KDE(), [(0, math.inf)]), VALUES[:, 2:3]).mean
    for label in ("this page's model (kde-scott)", "kernel density, Scott's rule"):
        assert cells[cells.index(label) + 1].startswith(f"{expected:.3f} ±")


def test_a_wild_value_does_not_make_wide_numbers() -> None:
    values = VALUES[:, :1].copy()
    values[7] = 1e9
    page = make_report(Table(values, ("a",)), model="kde-scott")
    assert max(map(len, Reader(page).cells)) < 50


def test_columns_with_few_values_are_named() -> None:
    values = np.column_stack([VALUES[:, 0], np.arange(60) % 3])
    text = Reader(make_report(Table(values, ("a", "kind")), model="kde-scott")).text
    assert "'kind' has fewer than 10 distinct values" in text


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_table(Table(VALUES[:, :2], ("a", "b")), tmp_path / "data.csv")
    out = tmp_path / "page.html"
    command = ["report", str(tmp_path / "data.csv"), "--model", "kde-scott", "--columns", "a"]
    assert main([*command, "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"] == ["a"]
    assert "data.csv" in Reader(out.read_text(encoding="utf-8")).text
    assert main([*command, "--out", str(tmp_path / "page.pdf")]) == 2
    assert "ends in .html" in capsys.readouterr().err


def test_score_only_methods_are_refused() -> None:
    class Flat(Field):
        dim = 2

        def _score(self, queries: Tensor) -> Tensor:
            return 0 * queries

    class FlatMethod(Method):
        def _fit(self, context: Tensor, weights: Tensor | None) -> Field:
            return Flat()

    with pytest.raises(DataError, match="estimates the score only"):
        make_report(Table(VALUES[:, :2], ("a", "b")), model=FlatMethod())


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HEIGHT = 4000  # more than any page here has in a wide window
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr")
MEASURE = """<script>
const images = [...document.images].map(image => image.complete && image.naturalWidth > 0);
const page = document.documentElement;
const wide = [...document.querySelectorAll("div.wide")].map(box => box.scrollWidth - box.clientWidth);
const found = {images, tables: Math.max(...wide), page: page.scrollWidth - page.clientWidth};
document.title = JSON.stringify({...found, height: page.scrollHeight});
console.error("measured");
</script>"""


def browse(page: str, folder: Path, width: int, *flags: str) -> subprocess.CompletedProcess[str]:
    """Open a page in a real browser; what its console says is on standard error, in lines with CONSOLE."""
    if BROWSER is None:
        pytest.skip("no Chromium on this machine")
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    size = f"--window-size={width},{HEIGHT}"
    command = [BROWSER, *FLAGS, f"--user-data-dir={folder / 'profile'}", size, *flags, path.as_uri()]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module", params=["page", "wide_page"])
def any_page(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


@pytest.mark.slow
def test_page_in_a_browser(any_page: str, tmp_path: Path) -> None:
    """Drawn by a real browser, 1280 pixels wide: nothing on the console, a picture of it, not blank."""
    picture = tmp_path / "page.png"
    done = browse(any_page, tmp_path, 1280, f"--screenshot={picture}")
    assert "CONSOLE" not in done.stderr
    import matplotlib.image

    pixels = matplotlib.image.imread(picture)
    assert pixels.shape[:2] == (HEIGHT, 1280)
    assert pixels[..., :3].std() > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 500])
def test_page_fits_its_window(any_page: str, width: int, tmp_path: Path) -> None:
    """All pictures are there; the page never scrolls sideways; in a wide window no table does either."""
    done = browse(any_page.replace("</body>", f"{MEASURE}</body>"), tmp_path, width, "--dump-dom")
    assert "CONSOLE" in done.stderr  # so that its absence above says something
    found = json.loads(html.unescape(done.stdout.split("<title>")[1].split("</title>")[0]))
    assert found["images"] == [True, True]
    assert found["page"] == 0
    assert found["height"] < HEIGHT or width < 1280
    assert found["tables"] == 0 or width < 1280

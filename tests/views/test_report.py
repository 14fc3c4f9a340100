"""The report: complete, correct, and alone in the world."""

import json
import math
import re
import warnings
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from torch import Tensor

from discoformer.baselines.kde import KDE
from discoformer.cli import main
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.core.checks import DataError
from discoformer.core.fields import Field, Method
from discoformer.core.transforms import SupportWarning
from discoformer.data.files import Table, read_sample, write_table
from discoformer.data.reading import read_raw
from discoformer.evaluation.held_out import held_out_log_likelihood
from discoformer.models.registry import load_model
from discoformer.views.page.numbers import read_density
from discoformer.views.report import STEPS, make_report

RNG = np.random.default_rng(0)
VALUES = np.column_stack([RNG.normal(size=(60, 2)), RNG.exponential(size=60), np.ones(60)])
NAMES = ("a", "<b>&</script>", "wait", "one")
VOID = ("meta", "link", "input")


class Reader(HTMLParser):
    """Collects the text of cells, the addresses and the data of a page, and checks that tags are closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.text = ""
        self.addresses: list[str] = []
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.numbers: list[float] = []
        self.feed(page)
        assert self.open == []
        self.data = json.loads(self.scripts[0])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")
        if tag == "script":
            self.scripts.append("")
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        self.numbers += [float(value or "nan") for name, value in attrs if (tag, name) == ("data", "value")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif "style" not in self.open:
            self.text += data
            if {"td", "th"} & set(self.open):
                self.cells[-1] += data


@pytest.fixture(scope="module")
def page(model_path: Path) -> str:
    return make_report(Table(VALUES, NAMES), model=model_path, bounds={"wait": (0, None)}, title="a & b")


def test_page_stands_alone(page: str) -> None:
    """No address leads out of it, and the browser is told to follow none."""
    reader = Reader(page)
    assert reader.addresses == ["data:,"]
    for outside in ("http:", "https:", "url(", "@import"):
        assert outside not in page
    assert "default-src 'none'" in page
    assert len(page) < 400_000


def test_page_says_what_it_should(page: str, model_path: Path) -> None:
    reader = Reader(page)
    for name in NAMES:  # also those that look like tags
        assert name in reader.cells
        assert name in [column["name"] for column in reader.data["columns"]]
    assert "left out 'one' (constant)" in reader.text
    assert float(np.median(VALUES[:, 0])) in reader.numbers
    assert "The fit has 3 columns" in reader.text
    assert "kernel density (Scott's rule)" in reader.cells
    assert any(str(model_path) in cell for cell in reader.cells)


def test_page_carries_the_density_that_was_fitted(page: str, model_path: Path) -> None:
    data = Reader(page).data
    field = read_density(data["density"])
    expected = FitRecipe(load_model(model_path), [(-math.inf, math.inf)] * 2 + [(0.0, math.inf)])
    again = expected.fit(VALUES[:, :3])
    np.testing.assert_allclose(field.log_density(VALUES), again.log_density(VALUES[:, :3]), rtol=1e-9)
    assert data["columns"][2]["low"] >= 0  # nothing is drawn beyond a bound
    assert data["rows"]["numbers"] == list(range(60))


def _customers(rows: int = 600) -> tuple[NDArray[np.float64], dict[int, int]]:
    """A table like those people have, and the cells that are wrong in it."""
    rng = np.random.default_rng(1)
    age = rng.normal(45, 12, rows).clip(18, 90).round()
    income = np.exp(rng.normal(10.3, 0.4, rows)).round(-2)
    years = rng.gamma(2, 3, rows).round(1)
    spend = (years * np.exp(rng.normal(3.5, 0.3, rows))).round(2)
    values = np.column_stack([age, income, years, spend])
    wrong = {17: 0, 101: 1, 333: 3}
    values[17, 0], values[101, 1], values[333, 3] = 430.0, 100 * values[101, 1], -250.0
    return values, wrong


def test_first_screen_names_planted_errors_in_words() -> None:
    values, wrong = _customers()
    names = ("age", "income", "years as customer", "spend")
    text = Reader(make_report(Table(values, names), title="customers.csv")).text
    first = text[: text.index("Look around")]
    for row, column in wrong.items():
        assert re.search(rf"row {row}\s*{names[column]} is", first), (row, first)
    assert re.search(r"[345] rows of 600 look like errors\.", first)  # chance may add one or two to the three
    assert "age is 430; the other columns suggest" in first
    assert "spend depend on each other strongly" in first


def test_clean_tables_have_no_errors() -> None:
    text = Reader(make_report(Table(VALUES[:, :2], ("a", "b")), model="kde-scott")).text
    assert "No row looks like an error." in text


def test_unusual_rows_name_the_column_to_blame(model_path: Path) -> None:
    values = VALUES[:, :2].copy()
    values[23, 1] = 30.0
    reader = Reader(make_report(Table(values, ("a", "b")), model=model_path))
    assert reader.data["unusual"][0]["row"] == 23
    assert reader.data["unusual"][0]["column"] == 1
    first = reader.cells.index("log density") + 1
    assert reader.cells[first : first + 3] == ["row 23", "b", "30"]


@pytest.mark.parametrize("model", ["kde-scott", "gmm-full"])
def test_models_without_numbers_have_a_page_that_says_so(model: str) -> None:
    data = Reader(make_report(Table(VALUES[:, :2], ("a", "b")), model=model)).data
    assert data["density"] is None
    assert "live pictures need a mixture model such as 'default'" in data["why"]


def test_large_tables_show_some_rows_and_say_so(model_path: Path) -> None:
    values = np.random.default_rng(2).normal(size=(7000, 2))
    values[6999, 0] = 60.0
    reader = Reader(make_report(Table(values, ("a", "b")), model=model_path))
    assert re.search(r"Dots are 5000 of the 7000 rows", reader.text)
    assert "of 4000 rows chosen at random" in reader.text
    assert len(reader.data["rows"]["numbers"]) == 5000
    assert 6999 in reader.data["rows"]["numbers"]
    assert sum(reader.data["columns"][1]["counts"]) + reader.data["columns"][1]["beyond"] == 7000


def test_a_table_that_cannot_be_cut_into_folds_still_has_a_page() -> None:
    """One row breaks the tie: where it is held out, the others are constant."""
    values = np.column_stack([RNG.normal(size=30), np.zeros(30)])
    values[3, 1] = 1.0
    text = Reader(make_report(Table(values, ("a", "b")), model="kde-scott")).text
    assert "no rows could be held out: column 1: constant" in text


@pytest.mark.parametrize("rows", [2, 3, 4, 5])
def test_a_few_rows_have_a_page_without_numbers_that_cannot_be_had(rows: int) -> None:
    text = Reader(make_report(Table(VALUES[:rows, :1], ("a",)), model="kde-scott")).text
    assert ("too few to hold some out" in text) == (rows < 4)
    assert ("kernel density (Scott's rule)" in text) == (rows >= 4)
    assert "nan" not in text


def test_kernel_estimates_are_compared_within_the_same_bounds() -> None:
    reader = Reader(make_report(Table(VALUES[:, 2:3], ("wait",)), model="kde-scott", bounds=(0, None)))
    expected = held_out_log_likelihood(FitRecipe(KDE(), [(0, math.inf)]), VALUES[:, 2:3]).mean
    assert reader.numbers.count(round(expected, 3)) >= 2  # the model's own, and the peer's


def test_a_wild_value_does_not_make_wide_numbers() -> None:
    values = VALUES[:, :1].copy()
    values[7] = 1e9
    page = make_report(Table(values, ("a",)), model="kde-scott")
    assert max(map(len, Reader(page).cells)) < 50


def test_columns_with_few_values_are_named() -> None:
    values = np.column_stack([VALUES[:, 0], np.arange(60) % 3])
    text = Reader(make_report(Table(values, ("a", "kind")), model="kde-scott")).text
    assert "'kind' has fewer than 10 distinct values" in text
    assert "1 of counts (kind)" in text


def test_a_file_is_told_by_its_schema(tmp_path: Path) -> None:
    """Dates stay dates, in words, tables and pictures; what is no number is named with the reason."""
    days = np.datetime64("2023-01-01") + np.sort(RNG.integers(0, 400, 80)).astype("m8[D]")
    load = 5 + RNG.normal(size=80) + np.arange(80) / 20
    days[40] = np.datetime64("2031-05-01")
    lines = [f"{day},{x:.3f},{'abc'[k % 3]},c{k}" for k, (day, x) in enumerate(zip(days, load, strict=True))]
    (tmp_path / "data.csv").write_text("\n".join(["day,load,shift,customer", *lines]), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        table = read_sample(read_raw(tmp_path / "data.csv"))
    reader = Reader(make_report(table, model="default"))
    assert "1 of dates (day)" in reader.text
    assert "shift (category: 3 different texts in 80 rows)" in reader.text
    assert "customer (identifier: all different texts)" in reader.text
    assert re.search(r"row 40\s*day is 2031-05-01; the other columns suggest 20\d\d-\d\d-\d\d", reader.text)
    assert [column["date"] for column in reader.data["columns"]] == ["D", ""]


def test_progress_is_one_bar_with_words() -> None:
    seen: list[tuple[int, str]] = []
    make_report(
        Table(VALUES[:, :2], ("a", "b")),
        model="kde-scott",
        advance=lambda done=1, note="": seen.append((done, note)),
    )
    assert sum(done for done, _ in seen) == STEPS
    notes = [note for _, note in seen if note]
    assert notes[0] == "fitting 60 rows" and notes[-1] == "writing"
    assert "comparing with kernel density (Scott's rule)" in notes


def test_page_says_whether_the_model_is_calibrated(page: str) -> None:
    reader = Reader(page)
    assert re.search(r"Regions that should hold 50%, 80% and 95% of the rows hold \d+%", reader.text)
    assert len(reader.data["calibration"]["inside"]) == 101
    assert len(reader.data["calibration"]["margins"]) == 3


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    write_table(Table(VALUES[:, :2], ("a", "b")), tmp_path / "data.csv")
    out = tmp_path / "page.html"
    command = ["report", str(tmp_path / "data.csv"), "--model", "kde-scott", "--columns", "a"]
    assert main([*command, "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"] == ["a"]
    assert "data.csv" in Reader(out.read_text(encoding="utf-8")).text
    assert opened == []
    assert main([*command, "--out", str(out), "--open"]) == 0
    assert opened == [out.as_uri()]
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

"""The page in a real browser: it answers as Python does, and does what its buttons say."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from browsing import Browser
from helpers import gmm_sample
from numpy.typing import NDArray
from page_densities import KINDS, fit_case, mixture, scores
from torch import Tensor

from discoformer.api.fitting import Fitted, fit_sample
from discoformer.columns.kinds import ColumnKind
from discoformer.columns.schema import Schema
from discoformer.columns.schema_column import ColumnSchema, Kind
from discoformer.columns.split import kinds_of
from discoformer.core.composed import Blend, push
from discoformer.core.fields import Density
from discoformer.core.frames import FRAMES
from discoformer.core.transforms import ColumnMaps
from discoformer.data.datasets import real_dataset
from discoformer.data.files import Table
from discoformer.methods import resolve
from discoformer.views.page.headline import headline
from discoformer.views.page.payload import MAX_ROWS, page_data
from discoformer.views.page.render import render_page
from discoformer.views.page.summary import TableSummary, summarize
from discoformer.views.page.unusual import read_levels
from discoformer.views.report import make_report

FREE = (-math.inf, math.inf)
NEAR = 1e-9
RNG = np.random.default_rng(0)

pytestmark = pytest.mark.slow


def page_of(field: Density, rows: Tensor) -> tuple[str, TableSummary]:
    """A page about rows under any density; what is held out is asked of kernel estimates, which are quick."""
    values = rows.numpy()
    names = tuple(f"column {j}" for j in range(values.shape[1]))
    table = Table(values, names, schema=Schema(tuple(map(schema_of, names, kinds_of(field)))))
    bounds = [FREE] * field.dim
    summary = summarize(table, Fitted(field, resolve("kde-scott"), bounds))
    data = page_data(table, field, bounds, summary)
    words = {"title": "by hand", "notes": [], "summary": summary, "points": headline(summary)}
    return render_page(**words, data=data, most_rows=MAX_ROWS, version="0"), summary


def cells(points: Tensor) -> list[float | None]:
    """Numbers for a script: it has no word for a gap."""
    return [None if math.isnan(value) else value for value in points.flatten().tolist()]


def schema_of(name: str, kind: ColumnKind) -> ColumnSchema:
    """A column that a density takes as this kind."""
    if kind.levels:
        labels = tuple(f"label {code}" for code in range(kind.levels))
        return ColumnSchema(name, "category", "labels", use="code", categories=labels)
    told: Kind = (
        "circular" if kind.period else "atoms" if kind.atoms else "lattice" if kind.step else "continuous"
    )
    more = {"atoms": kind.atoms, "step": kind.step, "origin": kind.origin, "period": kind.period}
    return ColumnSchema(name, told, "" if told == "continuous" else "by hand", **more)


@pytest.mark.parametrize("kind", KINDS)
def test_page_answers_as_python_does(kind: str, browser: Browser, model_path: Path) -> None:
    """Log density, level and conditional densities at 200 points."""
    field, rows = fit_case(kind, model_path)
    page, summary = page_of(field, rows)
    browser.open(page)
    points = rows[:200]
    log_density = field.log_density(points).numpy()
    found = browser.ask(
        "const a = discoformer.answers; const x = Float64Array.from(arguments[0], v => v ?? NaN);"
        "const f = a.density.logDensity(x); return [Array.from(f), Array.from(f, v => a.level(v))]",
        cells(points),
    )
    np.testing.assert_allclose(found[0], log_density, rtol=NEAR, atol=NEAR)
    assert summary.unusual.levels is not None
    np.testing.assert_allclose(found[1], read_levels(log_density, summary.unusual.levels), atol=NEAR)
    first, second, *others = field.support
    given = field.conditional(others, rows[3, others])
    conditional = browser.ask(
        "const [shown, held, ...given] = arguments;"
        "const [values, points] = given.map(part => part.map(v => v ?? NaN));"
        "const joint = discoformer.answers.joint(shown, new Map(held.map((c, k) => [c, values[k]])));"
        "return Array.from(joint.logDensity(Float64Array.from(points)))",
        [first, second],
        others,
        cells(rows[3, others]),
        cells(points[:, [first, second]]),
    )
    expected = given.log_density(points[:, [first, second]]).numpy()
    np.testing.assert_allclose(conditional, expected, rtol=NEAR, atol=NEAR)
    assert browser.ask("return discoformer.answers.error") < NEAR
    assert browser.complaints() == []


@pytest.fixture(scope="module")
def wine() -> tuple[str, Table]:
    table = real_dataset("wine")
    return make_report(table, model="default", title="wine.csv"), table


def test_nothing_leaves_the_page_and_nothing_complains(browser: Browser, wine: tuple[str, Table]) -> None:
    browser.open(wine[0])
    assert browser.ask("return performance.getEntriesByType('resource').length") == 0
    refused = browser.ask("return fetch('https://example.org').then(() => 'sent', () => 'refused')")
    assert refused == "refused"
    assert [line for line in browser.complaints() if "example.org" not in line] == []
    assert len(wine[0]) < 1_500_000


def test_every_column_can_be_shown_and_held(browser: Browser, wine: tuple[str, Table]) -> None:
    browser.open(wine[0])
    names = list(wine[1].names)
    assert browser.ask("return [...document.querySelectorAll('.chip')].map(c => c.textContent)") == names
    for j in range(len(names)):
        browser.ask("discoformer.state.set({shown: [arguments[0]], given: new Map()})", j)
        browser.settle()
        assert browser.ask("return document.querySelector('.bottom .name').textContent") == names[j]
        held = browser.ask("return [...document.querySelectorAll('.slider label')].map(l => l.textContent)")
        assert held == [name for name in names if name != names[j]]
    assert browser.complaints() == []


def test_a_slider_moves_the_densities(browser: Browser, wine: tuple[str, Table]) -> None:
    """By keyboard: the pictures change, the status says so, letting go brings them back."""
    browser.open(wine[0])
    browser.settle()
    before = browser.picture()
    slider = browser.find(".slider input")
    slider.send_keys("\ue014" * 3)  # the right arrow
    browser.settle()
    browser.wait("!discoformer.corner.frames.at(-1).moving")
    moved = browser.picture()
    assert moved != before
    column, value = browser.ask("return [...discoformer.state.values.given][0]")
    assert value == float(slider.get_attribute("value"))
    assert browser.find(".status").text.startswith(f"Given {wine[1].names[column]} = ")
    browser.find(".slider.held .free").click()
    browser.settle()
    assert browser.ask("return discoformer.state.values.given.size") == 0
    assert browser.picture() == before


def test_pointing_reads_the_conditional_density(browser: Browser, wine: tuple[str, Table]) -> None:
    """What the cross says is what Python says, given what the sliders hold."""
    browser.open(wine[0])
    browser.ask("discoformer.state.set({shown: [0, 6], given: new Map([[12, 700], [9, 5]])})")
    browser.settle()
    canvas = browser.ask("return discoformer.corner.panels.find(p => p.y !== null).marks")
    canvas.send_keys("\ue012\ue013")  # left and up
    browser.settle()
    found = browser.ask(
        "const {pointed} = discoformer.state.values; const at = [pointed.x, pointed.y];"
        "const panel = discoformer.corner.panels.find(p => p.key === pointed.panel);"
        "return [at, panel.density.logDensity(Float64Array.from(at))[0]]"
    )
    field = fit_sample(wine[1].values, "default").field
    assert isinstance(field, Density)
    given = field.conditional([12, 9], [700.0, 5.0]).marginal([0, 6])
    assert found[1] == pytest.approx(float(given.log_density(np.array([found[0]]))[0]), abs=NEAR)
    assert "of the mass is denser" in browser.find(".readout").text


def test_rows_are_marked_everywhere(browser: Browser, wine: tuple[str, Table]) -> None:
    browser.open(wine[0])
    browser.settle()
    before = browser.picture()
    margins = "return [...document.querySelectorAll('.margin canvas')].map(c => c.toDataURL()).join()"
    plain = browser.ask(margins)
    button = browser.find("#rows button[data-row]")
    number = button.get_attribute("data-row")
    browser.ask("arguments[0].click()", button)
    browser.settle()
    assert browser.picture() != before
    assert browser.ask(margins) != plain
    assert button.get_attribute("aria-pressed") == "true"
    card = browser.find("#card")
    assert card.is_displayed()
    assert f"Row {number}" in card.text
    assert browser.ask("return discoformer.state.values.given.size") == 0
    browser.ask("arguments[0].click()", browser.find("#card .cardtop button"))  # hold the others at this row
    browser.settle()
    held = browser.ask("return [...discoformer.state.values.given]")
    assert dict(held) == {c: wine[1].values[int(number), c] for c, _ in held}
    assert len(held) == 10
    browser.ask("arguments[0].click()", browser.find("#card .cardtop button:last-child"))
    browser.settle()
    assert not card.is_displayed()


def test_a_click_in_a_picture_chooses_the_row_there(browser: Browser, wine: tuple[str, Table]) -> None:
    browser.open(wine[0])
    browser.ask("discoformer.state.set({shown: [0, 12]})")
    browser.settle()
    canvas, x, y = browser.ask(
        "const p = discoformer.corner.panels.find(p => p.y !== null); const row = discoformer.answers.row(5);"
        "const [a, b] = [0, 12].map(c => discoformer.corner.range(c)); const {width, height} = p.size;"
        "const [x, y] = [(row[0] - a[0]) / (a[1] - a[0]), (row[12] - b[0]) / (b[1] - b[0])];"
        "p.marks.scrollIntoView({block: 'center'}); return [p.marks, (x - 0.5) * width, (0.5 - y) * height]"
    )
    actions = pytest.importorskip("selenium.webdriver").ActionChains(browser.driver)
    actions.move_to_element_with_offset(canvas, x, y).click().perform()
    browser.settle()
    assert browser.ask("return discoformer.state.values.selected") == 5


def test_dragging_zooms_and_a_double_click_goes_back(browser: Browser, wine: tuple[str, Table]) -> None:
    browser.open(wine[0])
    browser.settle()
    canvas = browser.ask(
        "const {marks} = discoformer.corner.panels.find(p => p.y !== null);"
        "marks.scrollIntoView({block: 'center'}); return marks"
    )
    chain = pytest.importorskip("selenium.webdriver").ActionChains
    chain(browser.driver).move_to_element_with_offset(canvas, -50, -50).click_and_hold().move_by_offset(
        90, 90
    ).release().perform()
    browser.settle()
    assert browser.ask("return discoformer.state.values.zoom.size") == 2
    low, high = browser.ask("return [...discoformer.state.values.zoom.values()][0]")
    assert low < high
    chain(browser.driver).double_click(canvas).perform()
    browser.settle()
    assert browser.ask("return discoformer.state.values.zoom.size") == 0


def test_tables_sort_and_can_be_taken_home(browser: Browser, wine: tuple[str, Table]) -> None:
    browser.open(wine[0])
    surprise = (
        "return [...document.querySelectorAll('#rows tbody tr')]"
        ".map(row => Number(row.cells[5].querySelector('data').value))"
    )
    head = browser.ask("return document.querySelectorAll('#rows th')[5]")
    for order in ("descending", "ascending"):
        browser.ask("arguments[0].querySelector('button').click()", head)
        assert head.get_attribute("aria-sort") == order
        found = browser.ask(surprise)
        assert found == sorted(found, reverse=order == "descending")
    browser.ask(
        "URL.createObjectURL = blob => { window.saved = blob.text(); return 'blob:none'; };"
        "HTMLAnchorElement.prototype.click = () => {};"
        "document.querySelector('#rows').closest('.wide').nextElementSibling.click()"
    )
    lines = browser.driver.execute_async_script("saved.then(arguments[0])").strip().split("\r\n")
    assert lines[0].startswith("row,odd column,suggested low,suggested middle,suggested high,alcohol,")
    first = lines[1].split(",")
    assert [float(value) for value in first[5:]] == wine[1].values[int(first[0])].tolist()


def test_real_rows_stand_beside_synthetic_ones(browser: Browser, wine: tuple[str, Table]) -> None:
    """They follow the sliders, change when drawn again, and can be taken home."""
    browser.open(wine[0])
    columns = len(wine[1].names)
    drawn = np.reshape(browser.ask("return Array.from(discoformer.synthetic.made.rows)"), (-1, columns))
    assert len(drawn) == len(wine[1].values)
    spread = wine[1].values.std(0)
    assert np.abs((drawn.mean(0) - wine[1].values.mean(0)) / spread).max() < 0.5
    picture = "return document.querySelectorAll('#synthetic canvas[role=img]')[1].toDataURL()"
    before = browser.ask(picture)
    browser.ask("discoformer.synthetic.again()")
    assert browser.ask(picture) != before
    browser.ask("discoformer.state.set({given: new Map([[12, 700]]), moving: false})")
    browser.wait("document.querySelector('#synthetic p').textContent.includes('proline = 700')")
    given = np.reshape(browser.ask("return Array.from(discoformer.synthetic.made.rows)"), (-1, columns))
    assert set(given[:, 12]) == {700.0}
    assert browser.ask("return document.querySelector('#calibration canvas').width") > 200
    assert browser.complaints() == []


def test_arrows_of_the_score_can_be_shown(browser: Browser, wine: tuple[str, Table]) -> None:
    browser.open(wine[0])
    browser.settle()
    before = browser.picture()
    browser.ask("[...document.querySelectorAll('.switch input')][1].click()")
    browser.settle()
    assert browser.picture() != before


def test_dark_and_light(browser: Browser, wine: tuple[str, Table]) -> None:
    """As the system is, at once when it changes, and by the button whatever the system is."""
    paper = "return getComputedStyle(document.body).backgroundColor"
    browser.open(wine[0], dark=False)
    light, picture = browser.ask(paper), browser.picture()
    browser.window(1280, 1000, True)
    browser.settle()
    dark = browser.ask(paper)
    assert light != dark
    assert browser.picture() != picture
    button = browser.find("#theme")
    seen = []
    for _ in range(3):
        button.click()
        browser.settle()
        seen.append(browser.ask(paper))
    assert seen == [light, dark, dark]  # light, dark, as the system


@pytest.mark.parametrize("width", [1600, 1000, 500, 360])
def test_page_fits_its_window(width: int, browser: Browser, wine: tuple[str, Table]) -> None:
    """The page never scrolls sideways, and the corner fits inside it."""
    browser.open(wine[0], width=width, height=800)
    browser.settle()
    assert browser.ask("return document.documentElement.scrollWidth") <= width
    assert browser.ask("return document.querySelector('.corner').getBoundingClientRect().right") <= width
    assert browser.ask("return Math.min(...discoformer.corner.panels.map(p => p.size.width))") >= 60
    shown = browser.ask("return discoformer.state.values.shown.length")
    assert shown == (2 if width < 600 else 3)
    assert browser.complaints() == []


def test_frames_stay_short_while_a_slider_is_dragged(browser: Browser) -> None:
    """50,000 rows, 13 columns, two views of 32 components, ten columns held, one after another.

    The median, since other programs run too.
    """
    rows = gmm_sample(50_000, 13, seed=3)
    maps = ColumnMaps({j: scores(j, 24) for j in range(13)}, 13)
    plain, normal = (FRAMES["whiten"].fit(part, None) for part in (rows[:500], maps.normalize(rows[:500])))
    views = push(mixture(13, 32, seed=1), [plain]), push(mixture(13, 32, seed=2), [maps, normal])
    field = Blend(views, torch.tensor([0.5, 0.5]).double().log())
    page, _ = page_of(field, rows)
    browser.open(page)
    browser.driver.set_script_timeout(120)
    frames = browser.drag()
    assert len(frames) >= 40
    spent = sorted(frame["spent"] for frame in frames)
    print(json.dumps({"frames": len(spent), "median": spent[len(spent) // 2], "worst": spent[-1]}))
    assert spent[len(spent) // 2] < 50


@pytest.mark.parametrize(
    ("values", "model"),
    [
        (RNG.normal(size=(80, 1)), "default"),
        (RNG.normal(size=(80, 2)), "kde-scott"),  # without live pictures
        (RNG.normal(size=(80, 2)), "gmm-full"),  # without conditionals
        (np.column_stack([RNG.normal(size=90), np.arange(90) % 3, np.ones(90)]), "default"),
        (RNG.normal(size=(90, 8)) * 10.0 ** np.arange(-4, 12, 2), "default"),
    ],
)
def test_odd_tables_have_a_page_too(values: NDArray[np.float64], model: str, browser: Browser) -> None:
    """One column, no density to carry, few values, units from 1e-4 to 1e10: everything can be clicked."""
    names = tuple(f"a rather long name of a column, number {j}" for j in range(values.shape[1]))
    browser.open(make_report(Table(values, names), model=model), width=500)
    browser.ask(
        "for (const s of document.querySelectorAll('.slider input')) s.dispatchEvent(new Event('input'))"
    )
    browser.ask("discoformer.state.set({arrows: true}); document.querySelector('button[data-row]').click()")
    browser.settle()
    assert browser.find("#card").is_displayed()
    assert browser.ask("return document.documentElement.scrollWidth") <= 500
    assert browser.complaints() == []

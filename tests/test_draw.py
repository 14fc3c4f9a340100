"""The page to draw on: its network answers as Python's does, in node and in a browser."""

import importlib.util
import json
import re
import shutil
import subprocess
from collections import Counter
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from browsing import Browser
from helpers import gmm_sample
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.composed import push
from discoformer.core.fields import Density
from discoformer.models.mixture.unified import UnifiedConfig, UnifiedCore
from discoformer.models.mixture.unified_network import UnifiedNetwork
from discoformer.views.page.render import bundle

TOOLS = Path(__file__).parents[1] / "tools"
NODE = shutil.which("node")
DECLARED = re.compile(r"^(?:export )?(?:async )?(?:const|let|class|function) (\w+)", re.MULTILINE)
DRIVER = """
import { readFileSync } from "node:fs";
const TASK = JSON.parse(readFileSync(0, "utf8"));
const network = new Network(TASK.network);
const answers = TASK.samples.map(({ points, queries }) => {
  const density = network.fit(Float64Array.from(points), 2);
  const { logDensity, score } = density.estimate(Float64Array.from(queries));
  return [Array.from(logDensity), Array.from(score)];
});
process.stdout.write(JSON.stringify(answers));
"""


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw_page", TOOLS / "draw_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


draw_page = _tool()


def make_network() -> UnifiedNetwork:
    """A small network with random decisions, its weights exact in half precision."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = UnifiedConfig(layers=2, width=16, heads=2, slots=8, loops=2)
        network = UnifiedNetwork(UnifiedCore(config)).double()
        with torch.no_grad():
            for layer in network.core.layers:
                layer.decide.weight.normal_(std=0.3)
                layer.growth.normal_(std=0.3)
            for tensor in network.parameters():
                tensor.copy_(tensor.half())
    return network


def encoded(network: UnifiedNetwork, points: Tensor) -> Density:
    """What the core makes of points, before anything is merged or weighed."""
    frame, axes = network.place(points)
    return push(network.core.encode(frame.normalize(points), axes=axes), [frame])


def sample_of(size: int) -> Tensor:
    return gmm_sample(size, 2, seed=size) * torch.tensor([1.0, 0.3]) + torch.tensor([0.0, 2.0])


@pytest.mark.skipif(NODE is None, reason="no node on this machine: the encoder is not tested")
def test_network_answers_as_python_does(tmp_path: Path) -> None:
    """Of few points, which are standardized, and of many, which are whitened."""
    network = make_network()
    cases = [sample_of(size) for size in (5, 11, 40, 150)]
    queries = sample_of(60)
    program = tmp_path / "encoder.mjs"
    program.write_text(bundle("encoder.js", beside=draw_page.SOURCES) + DRIVER, encoding="utf-8")
    task: dict[str, Any] = {"network": draw_page.network_numbers(network), "samples": []}
    for points in cases:
        task["samples"].append({"points": points.flatten().tolist(), "queries": queries.flatten().tolist()})
    done = subprocess.run(
        [str(NODE), str(program)], input=json.dumps(task), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    for points, (log_density, score) in zip(cases, json.loads(done.stdout), strict=True):
        expected = encoded(network, points).estimate(queries)
        np.testing.assert_allclose(log_density, expected.log_density.detach(), rtol=1e-7, atol=1e-7)
        wanted = expected.score.detach().numpy()
        np.testing.assert_allclose(np.reshape(score, wanted.shape), wanted, rtol=1e-6, atol=1e-6)


def test_scripts_stand_beside_those_of_the_report() -> None:
    """No name twice in what becomes one module, nothing fetched, and files that can be read in a sitting."""
    folders = (draw_page.SOURCES, files("discoformer.views.page") / "js")
    texts = [path.read_text(encoding="utf-8") for folder in folders for path in folder.iterdir()]
    names = Counter(name for text in texts for name in DECLARED.findall(text))
    assert [name for name, count in names.items() if count > 1] == []
    for path in draw_page.SOURCES.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert text.count("\n") < 400, path.name
        assert not re.search(r"fetch\(|XMLHttpRequest|https?://|innerHTML|eval\(", text), path.name


def test_the_page_in_the_documentation_has_these_scripts() -> None:
    """Else: python tools/draw_page.py docs/draw.html --scripts."""
    page = (TOOLS.parent / "docs" / "draw.html").read_text(encoding="utf-8")
    assert page == draw_page.draw_page(draw_page.read_numbers(page))
    assert len(page) < 1_500_000


def test_other_networks_are_refused() -> None:
    with pytest.raises(DataError, match="the unified network only"):
        draw_page.unified("kde-scott")


@pytest.mark.slow
def test_drawing_in_a_browser(browser: Browser) -> None:
    """An example, a stroke that takes its place, the keyboard, undo; what is shown is what Python says."""
    network = make_network()
    chain = pytest.importorskip("selenium.webdriver").ActionChains
    browser.open(
        draw_page.draw_page(draw_page.network_numbers(network)), ready="window.drawing !== undefined"
    )
    assert browser.ask("return drawing.count") == 240
    _check_answers(browser, network)
    before = browser.ask("return drawing.base.toDataURL()")
    canvas = browser.ask("return drawing.marks")
    chain(browser.driver).move_to_element_with_offset(canvas, -150, -80).click_and_hold().move_by_offset(
        200, 30
    ).move_by_offset(40, 160).release().perform()
    browser.settle()
    drawn = browser.ask("return drawing.count")
    assert 20 < drawn < 80
    assert browser.ask("return drawing.base.toDataURL()") != before
    _check_answers(browser, network)
    canvas.send_keys("\ue012\ue012 ")  # left twice, and a point
    assert browser.ask("return drawing.count") == drawn + 1
    assert "log density" in browser.find(".readout").text
    canvas.send_keys("\ue003")  # backspace
    assert browser.ask("return drawing.count") == drawn
    browser.ask("drawing.load(Array.from({ length: 40 }, (_, k) => (k >> 1) / 10))")
    assert "all points are on one line" in browser.find(".status").text
    assert browser.ask("return performance.getEntriesByType('resource').length") == 0
    assert browser.complaints() == []


def _check_answers(browser: Browser, network: UnifiedNetwork) -> None:
    points, queries, found = browser.ask(
        "const q = Array.from({length: 40}, (_, k) => 3 * Math.sin(k + 1));"
        "return [drawing.points, q, Array.from(drawing.density.logDensity(Float64Array.from(q)))]"
    )
    sample, at = (torch.tensor(values, dtype=torch.float64).reshape(-1, 2) for values in (points, queries))
    expected = encoded(network, sample).estimate(at).log_density
    np.testing.assert_allclose(found, expected.detach(), rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_its_window(width: int, browser: Browser) -> None:
    browser.open(
        draw_page.draw_page(draw_page.network_numbers(make_network())),
        width=width,
        height=800,
        ready="window.drawing !== undefined",
    )
    assert browser.ask("return document.documentElement.scrollWidth") <= width
    assert browser.ask("return drawing.side") > 300
    assert browser.complaints() == []

"""The live corner as a widget: what Python hands over, and the same scripts in a page that is not ours."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from browsing import Browser
from numpy.typing import NDArray

from discoformer import DataError, DiScoFormer
from discoformer.views.page.numbers import read_density
from discoformer.views.page.render import script_json

ROWS: NDArray[np.float64] = np.random.default_rng(0).normal(size=(80, 3))
BOTH = np.concatenate([ROWS, -ROWS])


@pytest.fixture(scope="module")
def estimator() -> DiScoFormer:
    rows = ROWS.copy()
    rows[:, 1] = np.exp(rows[:, 1])
    return DiScoFormer(model="default", bounds={1: (0, None)}).fit(rows)


def test_widget_carries_the_density_and_the_rows(estimator: DiScoFormer) -> None:
    data = estimator.explore().data
    rows = estimator._sample
    assert rows is not None
    np.testing.assert_allclose(read_density(data["density"]).log_density(rows), estimator.log_density(rows))
    assert data["rows"]["total"] == len(rows)
    assert [column["name"] for column in data["columns"]] == ["x0", "x1", "x2"]
    assert data["columns"][1]["bounds"] == [0.0, None]


def test_derived_densities_are_shown_with_draws(estimator: DiScoFormer) -> None:
    data = estimator.conditional([0], [0.3]).explore().data
    assert [column["name"] for column in data["columns"]] == ["x0", "x1"]
    assert data["rows"]["total"] == 2000
    assert data["columns"][0]["low"] >= 0  # the bound has moved with its column


def test_a_messy_frame_is_shown_with_its_labels_and_gaps() -> None:
    """The density is the one that was fitted, of all columns."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"colour": rng.choice(["red", "blue"], 80), "size": rng.normal(size=80)})
    frame.loc[3, "size"] = None
    estimator = DiScoFormer(model="default").fit(frame)
    data = estimator.explore().data
    assert [column["labels"] for column in data["columns"]] == [["blue", "red"], []]
    assert [column["gaps"] for column in data["columns"]] == [0, 1]
    rows = estimator._sample
    assert rows is not None and np.isnan(rows).sum() == 1
    np.testing.assert_allclose(read_density(data["density"]).log_density(rows), estimator.log_density(frame))


def test_what_cannot_be_shown_is_refused() -> None:
    with pytest.raises(DataError, match="no closed form"):
        DiScoFormer(model="kde-scott").fit(ROWS).explore()
    with pytest.raises(DataError, match="answers at points only"):
        DiScoFormer(model="attention-d3").fit(BOTH).explore()
    with pytest.raises(DataError, match="one table at a time"):
        DiScoFormer(model="default").fit(torch.tensor(BOTH).reshape(2, 80, 3)).explore()


HOST = """<!doctype html><meta charset='utf-8'><title>notebook</title><style>{css}</style>
<body style="background:{paper}"><script type="module">
{module}
const values = {{ data: {data}, selected: null, given: {{}} }};
const model = {{ get: name => values[name], set: (name, value) => {{ values[name] = value; }},
  on: () => {{}}, save_changes: () => {{ window.saved = (window.saved ?? 0) + 1; }} }};
widget.render({{ model, el: document.body }});
window.discoformer = values;
</script>"""


@pytest.mark.slow
@pytest.mark.parametrize("paper", ["#ffffff", "#111418"])
def test_widget_in_a_notebook(paper: str, browser: Browser, estimator: DiScoFormer) -> None:
    """It draws, follows the paper, tells Python what was done, and complains of nothing."""
    widget = estimator.explore()
    module = str(widget._esm).replace("export default", "const widget =")
    page = HOST.format(css=widget._css, paper=paper, module=module, data=script_json(widget.data))
    browser.open(page, dark=paper == "#ffffff")  # the system says the contrary
    browser.settle()
    assert browser.ask("return document.querySelectorAll('.explorer .panel').length") == 3
    ink = browser.ask("return getComputedStyle(document.querySelector('.discoformer')).color")
    assert ink == ("rgb(29, 43, 54)" if paper == "#ffffff" else "rgb(230, 235, 239)")
    before = browser.picture()
    slider = browser.find(".slider input")
    slider.send_keys("\ue014" * 3)  # the right arrow
    browser.settle()
    assert browser.picture() != before
    (held,) = browser.ask("return Object.entries(discoformer.given)")
    assert held[0] in ("x0", "x1", "x2")
    assert math.isclose(held[1], float(slider.get_attribute("value")))
    assert browser.ask("return window.saved") >= 1
    assert browser.complaints() == []

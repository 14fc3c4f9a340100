"""Pictures and pages look alike."""

import inspect
import re
from pathlib import Path

import pytest
from helpers import attention_network, normal
from matplotlib import colors, pyplot
from matplotlib.axes import Axes

from discoformer import views
from discoformer.views import page, plot_attention, style


def test_colours_are_those_of_the_page_on_light_paper() -> None:
    sheet = (Path(page.__file__).parent / "css" / "base.css").read_text(encoding="utf-8")
    light = dict(re.findall(r"--(\w+): (#\w{6});", sheet[: sheet.index("@media")]))
    for name in ("ink", "muted", "bar", "curve", "accent"):
        assert getattr(style, name.upper()) == light[name]


def test_style_serves_figures_of_others() -> None:
    with pyplot.style.context(style.STYLE):
        cycle = pyplot.rcParams["axes.prop_cycle"].by_key()["color"]
    assert cycle[0] == style.CURVE and all(colors.is_color_like(name) for name in cycle)


@pytest.mark.parametrize("name", [name for name in views.__all__ if name.startswith("plot")])
def test_every_picture_can_be_drawn_on_given_axes(name: str) -> None:
    """And what it returns are axes, one or many."""
    signature = inspect.signature(getattr(views, name))
    assert signature.parameters["ax"].kind is inspect.Parameter.KEYWORD_ONLY
    assert signature.return_annotation in ("Axes", "NDArray[np.object_]", "Axes | NDArray[np.object_]")


def test_heads_fill_the_place_of_given_axes() -> None:
    figure, (_, place) = pyplot.subplots(1, 2)
    panels = plot_attention(attention_network(), normal(40, 3), ax=place)
    assert all(isinstance(panel, Axes) and panel.get_figure(root=True) is figure for panel in panels)
    pyplot.close(figure)

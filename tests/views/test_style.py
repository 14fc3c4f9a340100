"""Pictures and pages look alike."""

import re
from pathlib import Path

from matplotlib import colors, pyplot

from discoformer.views import page, style


def test_colours_are_those_of_the_page_on_light_paper() -> None:
    sheet = (Path(page.__file__).parent / "css" / "base.css").read_text(encoding="utf-8")
    light = dict(re.findall(r"--(\w+): (#\w{6});", sheet[: sheet.index("@media")]))
    for name in ("ink", "muted", "bar", "curve", "accent"):
        assert getattr(style, name.upper()) == light[name]


def test_style_serves_figures_of_others() -> None:
    with pyplot.style.context(style.STYLE):
        cycle = pyplot.rcParams["axes.prop_cycle"].by_key()["color"]
    assert cycle[0] == style.CURVE and all(colors.is_color_like(name) for name in cycle)

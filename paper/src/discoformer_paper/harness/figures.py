"""What the figures share: one colour and one marker for each method, curves on logarithmic axes.

The colours are those of Okabe and Ito, which people with any kind of colour vision can tell apart; markers
and dashes carry the same information.  Numbers of the paper are hollow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.quiver import Quiver
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter
from torch import Tensor

from discoformer_paper.harness.contestants import is_core, network_name
from discoformer_paper.harness.labels import CORE
from discoformer_paper.harness.ledger import Rows

__all__ = ["GREY", "Axes", "Figure", "arrows", "curve", "curves", "finish", "panels", "style_of", "title_of"]

_BLACK, _ORANGE, _SKY, _GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
_BLUE, _RED, _PINK, GREY = "#0072B2", "#D55E00", "#CC79A7", "#7A7A7A"

# Colour, marker, dashes and title, by the beginning of the method's name; a longer name comes first.
_STYLES: dict[str, tuple[str, str, str, str | None]] = {
    "default, not calibrated": (_PINK, "v", "-", None),
    CORE: (_BLUE, "s", "-", CORE),
    "mixture-axis": (_PINK, "v", "-", None),
    "mixture": (_ORANGE, "P", "-", None),
    "kde-oracle": (GREY, "<", ":", "KDE, oracle h"),
    "kde": (_BLACK, "^", "--", "KDE, Scott"),
    "gmm-diag": (_GREEN, "D", "--", "GMM-BIC, diagonal"),
    "gmm": (_GREEN, "h", ":", "GMM-BIC, full"),
    "emp-sd-kde": (GREY, "x", ":", "Emp-SD-KDE"),
    "nearest neighbours": (_SKY, "*", ":", None),
    "blob": (_SKY, "X", "--", "blob method"),
    "gaussian": (GREY, "d", ":", "Gaussian closure"),
    "sbtm": (_GREEN, "D", "--", "SBTM"),
    "implicit": (_SKY, "X", ":", None),
    "sliced": (_GREEN, "p", ":", None),
    "stein": (_PINK, "v", "none", None),
    "ssge": (_PINK, "<", "none", "spectral Stein"),
    "nu-method": (_PINK, ">", "none", None),
    "exact": (GREY, "d", ":", None),
    network_name("whitening", "whiten"): (_BLUE, "s", "none", "core, whitening"),
    network_name("whitening", "identity"): (_ORANGE, "X", "none", "core, no whitening"),
}


def style_of(method: str) -> dict[str, Any]:
    """How a method is drawn; a method without a style of its own is ours.

    >>> style_of("paper's core")["color"], style_of("default")["color"]
    ('#0072B2', '#D55E00')
    """
    found = _style(method)
    if found is None:
        return {"color": _RED, "marker": "o", "linestyle": "-", "zorder": 3}
    return dict(zip(("color", "marker", "linestyle"), found, strict=False))


def title_of(method: str) -> str:
    """What a legend calls a method.

    >>> title_of("gmm-diag"), title_of("default")
    ('GMM-BIC, diagonal', 'default')
    """
    found = _style(method)
    return method if found is None or found[-1] is None else found[-1]


def _style(method: str) -> tuple[str, str, str, str | None] | None:
    method = CORE if is_core(method) else method
    return next((style for name, style in _STYLES.items() if method.startswith(name)), None)


def panels(
    count: int, *, columns: int | None = None, width: float = 4.4, height: float = 3.7
) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side; maps with equal scales need more height."""
    columns = min(count, columns or count)
    lines = -(-count // columns)
    figure = Figure(figsize=(max(6.0, width * columns), height * lines), layout="constrained")
    axes = list(figure.subplots(lines, columns, squeeze=False).flat)
    for spare in axes[count:]:
        spare.set_axis_off()
    return figure, axes[:count]


def curve(
    axes: Axes,
    points: Mapping[float, float],
    method: str,
    label: str | None = None,
    *,
    published: bool = False,
    **changes: Any,
) -> None:
    """A line through points, in the style of a method; hollow and thin if it is the paper's."""
    style = {"linewidth": 1.7, "markersize": 5.5, **style_of(method), **changes}
    if published:
        style |= {"markerfacecolor": "white", "linewidth": 0.9, "markersize": 6, "zorder": 2}
    axes.plot(list(points), list(points.values()), label=label or title_of(method), **style)


def curves(
    axes: Axes,
    rows: Rows,
    value: str | Callable[[Rows], float],
    *,
    scale: float = 1.0,
    names: Mapping[str, str] | None = None,
) -> None:
    """A curve in n for each method of the rows, under other ``names`` where some are given."""
    for method in rows.entries("method"):
        found = rows.where(method=method).by("n", value)
        curve(axes, {n: scale * x for n, x in found.items()}, (names or {}).get(method, method))


def arrows(axes: Axes, points: Tensor, vectors: Tensor, *, unit: float, **style: Any) -> Quiver:
    """Arrows at points (m, 2) of a map with equal scales; a vector of length ``unit`` is drawn one long.

    With ``values`` (m,) the arrows are coloured by them.
    """
    data_units = {"angles": "xy", "scale_units": "xy", "scale": unit}
    values = [style.pop("values").numpy()] if "values" in style else []
    colour = {} if values else {"color": GREY}
    style = {"width": 0.006, **colour, **data_units, **style}
    axes.set_aspect("equal")
    return axes.quiver(*points.T.numpy(), *vectors.T.numpy(), *values, **style)


def finish(
    figure: Figure,
    axes: Sequence[Axes],
    *,
    log: str = "",
    base: int = 10,
    ticks: Sequence[float] | None = None,
) -> Figure:
    """Logarithmic axes (``log`` has "x", "y" or both), a light grid, and one legend below all panels."""
    entries: dict[str, Any] = {}
    for panel in axes:
        if "x" in log:
            panel.set_xscale("log", base=base)
        if ticks is not None:
            panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            panel.set_xticks([], minor=True)
        if "y" in log:
            panel.set_yscale("log")
        panel.grid(visible=True, color="#e3e6e8", linewidth=0.6)
        panel.set_axisbelow(True)
        handles, labels = panel.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    if "y" in log:
        _plain_numbers(axes)
    letters = 12 * figure.get_figwidth()  # that fit side by side; a handle takes the space of six
    columns = int(letters // (6 + max(map(len, entries), default=0)))
    place: Any = {"loc": "outside lower center", "ncols": max(1, min(5, columns)), "frameon": False}
    figure.legend(list(entries.values()), list(entries), **place)
    return figure


def _plain_numbers(axes: Sequence[Axes]) -> None:
    """0.2 and 50 rather than powers of ten, where no axis spans many of them."""
    spans = [math.log10(panel.get_ylim()[1] / panel.get_ylim()[0]) for panel in axes]
    if max(spans) > 4:
        return
    for panel, decades in zip(axes, spans, strict=True):
        digits: tuple[float, ...] = (2, 5) if decades >= 1 else (1.5, 2, 3, 5, 7)
        if decades < 0.6:
            digits = (1.2, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8)
        panel.yaxis.set_major_formatter(FormatStrFormatter("%g"))
        panel.yaxis.set_minor_locator(LogLocator(subs=digits))
        panel.yaxis.set_minor_formatter(FormatStrFormatter("%g") if max(spans) < 2.5 else NullFormatter())

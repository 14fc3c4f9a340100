"""The rows of lowest density, and the columns in which they are unusual."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.columns.cell_words import CellWords
from discoformer.columns.split import kinds_of
from discoformer.core.fields import Density, PointDensity
from discoformer.detection.common_scale import common_scale, on_scale
from discoformer.detection.copies import left_out_with_copies
from discoformer.detection.reasons import Words, explain_rows
from discoformer.views.panels import Panels, figure_of
from discoformer.views.style import ACCENT, BAR, INK, MAX_COLUMNS, bin_count

__all__ = ["draw_outliers"]

_UNUSUAL = 10  # rows marked as such
_LONGEST = 14  # characters of a cell


def draw_outliers(
    field: PointDensity,
    sample: NDArray[np.float64],
    names: Sequence[str],
    panels: Panels,
    words: Words | None = None,
) -> NDArray[np.object_]:
    """The log density of all rows, and the values of the most unusual ones, with reasons if there are any."""
    words, label = words or CellWords.of(sample), "log density"
    log_density = field.log_density(sample)
    if isinstance(field, Density):  # no row counts for itself
        log_density = left_out_with_copies(field, torch.from_numpy(sample)).numpy()
    scale = common_scale(field, sample, kinds_of(field))
    if scale is not None:  # which does not depend on the units of columns with masses or gaps
        log_density, label = (
            on_scale(scale, log_density, sample),
            "log density, on the common scale of all cells",
        )
    rows = np.argsort(log_density, kind="stable")[: min(_UNUSUAL, len(sample))]
    count = min(len(names), 2 * MAX_COLUMNS)
    lines = max(len(rows), 6)  # room for the label of the colour bar
    size = max(6.4, 0.9 * count + 2), 3.2 + 0.4 * lines
    grid = panels.grid(size, 2, 1, height_ratios=[2.4, 0.38 * lines + 0.4])[:, 0]
    above, below = grid

    bins = above.hist(log_density, bin_count(4 * len(sample)), color=BAR, linewidth=0)
    height = float(np.max(bins[0]))
    above.vlines(log_density[rows], 0, 0.25 * height, color=ACCENT, linewidth=1.4)
    above.set(xlabel=label, ylabel="rows", title=f"the {len(rows)} lowest of {len(sample)} are marked")
    above.locator_params(axis="y", integer=True)  # it counts rows

    texts = [[_cell(words, j, value) for j, value in enumerate(sample[row, :count])] for row in rows]
    if isinstance(field, Density):
        reasons = explain_rows(field, torch.from_numpy(sample[rows]), torch.from_numpy(sample))
        colours, label = reasons.excess[:, :count], "surprise given the other columns,\nnats more than usual"
        image = below.imshow(colours, cmap="Oranges", vmin=0, vmax=8, aspect="auto")
        for line, expected in zip(texts, reasons.expected, strict=True):
            line[:] = [f"{text}\n({_cell(words, j, expected[j])})" for j, text in enumerate(line)]
        below.set_title("values, and in brackets what was expected", loc="left")
    else:
        middle = np.median(sample, axis=0)
        spread = 1.4826 * np.median(np.abs(sample - middle), axis=0)
        spread = np.where(spread > 0, spread, np.std(sample, axis=0))
        colours, label = (
            ((sample[rows] - middle) / spread)[:, :count],
            "from the median, in\nrobust standard deviations",
        )
        image = below.imshow(colours, cmap="PuOr_r", vmin=-5, vmax=5, aspect="auto")
    light = image.to_rgba(colours)[..., :3] @ [0.299, 0.587, 0.114]
    for r, line in enumerate(texts):
        for c, text in enumerate(line):
            ink = INK if light[r, c] > 0.5 else "white"
            below.text(c, r, text, ha="center", va="center", color=ink, fontsize=7, linespacing=0.95)
    below.set_xticks(range(count), list(names[:count]))
    if count * max(map(len, names[:count])) > 50:  # they would overlap
        below.set_xticks(range(count), list(names[:count]), rotation=30, ha="right", rotation_mode="anchor")
    below.set_yticks(range(len(rows)), [f"row {row}" for row in rows])
    below.tick_params(length=0)
    below.spines[:].set_visible(False)
    bar = figure_of(below).colorbar(image, ax=below, pad=0.02, extend="both" if image.norm.vmin else "max")
    bar.set_label(label)
    bar.outline.set_visible(False)
    return grid


def _cell(words: Words, column: int, value: float) -> str:
    """A cell for a small place; names in it are no formulas."""
    text = "–" if np.isnan(value) else words(column, float(value))
    return (text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…").replace("$", r"\$")

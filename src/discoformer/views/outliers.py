"""The rows of lowest density, and the columns in which they are unusual."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from discoformer.core.fields import PointDensity
from discoformer.views.panels import Panels, figure_of
from discoformer.views.style import ACCENT, BAR, INK, MAX_COLUMNS, bin_count

__all__ = ["draw_outliers"]

_UNUSUAL = 10  # rows marked as such


def draw_outliers(
    field: PointDensity, sample: NDArray[np.float64], names: Sequence[str], panels: Panels
) -> NDArray[np.object_]:
    """The log density of all rows, and the values of the most unusual ones."""
    log_density = field.log_density(sample)
    rows = np.argsort(log_density, kind="stable")[: min(_UNUSUAL, len(sample))]
    count = min(len(names), 2 * MAX_COLUMNS)
    lines = max(len(rows), 6)  # room for the label of the colour bar
    size = max(6.4, 0.9 * count + 2), 3.2 + 0.32 * lines
    grid = panels.grid(size, 2, 1, height_ratios=[2.4, 0.3 * lines + 0.4])[:, 0]
    above, below = grid

    bins = above.hist(log_density, bin_count(4 * len(sample)), color=BAR, linewidth=0)
    height = float(np.max(bins[0]))
    above.vlines(log_density[rows], 0, 0.25 * height, color=ACCENT, linewidth=1.4)
    above.set(
        xlabel="log density", ylabel="rows", title=f"the {len(rows)} lowest of {len(sample)} are marked"
    )
    above.locator_params(axis="y", integer=True)  # rows

    middle = np.median(sample, axis=0)
    spread = 1.4826 * np.median(np.abs(sample - middle), axis=0)
    spread = np.where(spread > 0, spread, np.std(sample, axis=0))
    distance = ((sample[rows] - middle) / spread)[:, :count]
    image = below.imshow(distance, cmap="PuOr_r", vmin=-5, vmax=5, aspect="auto")
    light = image.to_rgba(distance)[..., :3] @ [0.299, 0.587, 0.114]
    for r, row in enumerate(rows):
        for c in range(count):
            ink = INK if light[r, c] > 0.5 else "white"
            below.text(c, r, f"{sample[row, c]:.4g}", ha="center", va="center", color=ink, fontsize=8)
    below.set_xticks(range(count), list(names[:count]))
    if count * max(map(len, names[:count])) > 50:  # side by side they would meet
        below.set_xticks(range(count), list(names[:count]), rotation=30, ha="right", rotation_mode="anchor")
    below.set_yticks(range(len(rows)), [f"row {row}" for row in rows])
    below.tick_params(length=0)
    below.spines[:].set_visible(False)
    bar = figure_of(below).colorbar(image, ax=below, pad=0.02, extend="both")
    bar.set_label("from the median, in\nrobust standard deviations")
    bar.outline.set_visible(False)
    return grid

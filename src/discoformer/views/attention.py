"""Where the heads of an attention network look, as a picture: one panel for each head of a layer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.core.checks import DataError, check_context
from discoformer.core.fields import Method
from discoformer.models.attention.network import AttentionNetwork
from discoformer.views.panels import drawing
from discoformer.views.style import ACCENT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_attention"]


def plot_attention(
    network: Method,
    context: Any,
    row: int = 0,
    columns: Sequence[str] | None = None,
    path: str | Path | None = None,
    *,
    layer: int = 0,
    ax: Axes | None = None,
) -> NDArray[np.object_]:
    """Draw what every head of a layer attends to from one row of the sample.

    Points are coloured by their attention weight, relative to the largest; a cross marks the row.  With one
    column, the weights are drawn above the sample; with more, the first two columns are drawn.

    Parameters
    ----------
    network : network with the attention core, such as ``load_model("attention-d2")``
    context : (n, d), the sample
    row : number of the row that attends
    columns : d names for the axes
    path : picture to write (png, pdf or svg); an existing one is replaced
    layer : number of the layer; negative ones count from the last
    ax : where to draw; the panels fill its place in the figure

    Returns
    -------
    array of Axes, one for each head

    Examples
    --------
    >>> from discoformer import load_model
    >>> len(plot_attention(load_model("attention-d2"), torch.randn(50, 2)))  # eight heads
    8
    """
    if not isinstance(network, AttentionNetwork):
        raise DataError(f"{type(network).__name__} has no attention: load an attention network")
    sample = check_context(context).detach().to(network.dtype)
    if sample.ndim != 2 or row not in range(len(sample)):
        raise DataError(f"row {row}: give one sample (n, d) and a row from 0 to n - 1")
    names = list(columns) if columns is not None else [f"x{j}" for j in range(sample.shape[1])]
    with torch.no_grad():
        inside = network.frame.fit(sample).normalize(sample)
        heads = network.core.attention_maps(inside, inside[row : row + 1], layer)[:, 0]  # (heads, n)
    with drawing(ax, path) as place:
        across = min(4, len(heads))
        down = -(-len(heads) // across)
        size = (2.6 * across + 0.9, 2.5 * down)
        panels = place.grid(size, down, across, sharex=True, sharey=True).flatten()
        for spare in panels[len(heads) :]:
            spare.set_axis_off()
        for number, (panel, weights) in enumerate(zip(panels, heads, strict=False)):
            share = (weights / weights.max()).cpu()
            front = share.argsort()  # the strongest on top
            x = sample[front, 0].cpu()
            y = sample[front, 1].cpu() if sample.shape[1] > 1 else share[front]
            dots = panel.scatter(x, y, c=share[front], s=8, cmap="viridis", vmin=0, vmax=1)
            height = float(sample[row, 1]) if sample.shape[1] > 1 else float(share[row])
            panel.scatter([float(sample[row, 0])], [height], marker="x", s=60, linewidth=2, color=ACCENT)
            panel.set_title(f"head {number}")
        for panel in panels[-across:]:
            panel.set_xlabel(names[0].replace("$", r"\$"))
        for panel in panels[::across]:
            panel.set_ylabel(names[1].replace("$", r"\$") if sample.shape[1] > 1 else "share, largest = 1")
        place.figure.colorbar(dots, ax=list(panels), label="share in what the head takes in, largest = 1")
    return np.asarray(panels[: len(heads)])

"""A picture of a relaxation: variances over time against a reference, and the particles at a few times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.views.panels import Panels, drawing
from discoformer.views.style import INK, colour, thin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from discoformer.particles.history import History

__all__ = ["plot_relaxation"]


def plot_relaxation(
    history: History,
    reference: Tensor | None = None,
    *,
    title: str = "",
    path: str | Path | None = None,
    ax: Axes | None = None,
) -> NDArray[np.object_]:
    """Draw Sigma_11 and Sigma_22 over time and, below, the first two coordinates of the kept frames.

    Parameters
    ----------
    history : of a single sample (n, d), d >= 2, run with some ``frames``
    reference : (k, d, d), covariance at the times of the history
    title : above the picture
    path : picture to write (png, pdf or svg); an existing one is replaced
    ax : where to draw; the panels fill its place in the figure

    Returns
    -------
    array of Axes: the curves, then one for each frame

    Examples
    --------
    >>> import torch
    >>> from discoformer import KDE
    >>> from discoformer.particles import Landau, integrate, landau_start
    >>> start = landau_start("gaussian", 2).sample(50, torch.Generator().manual_seed(0))
    >>> run = integrate(Landau(), start, KDE(), dt=0.1, steps=4, frames=[0.0, 0.4])
    >>> len(plot_relaxation(run))
    3
    """
    if history.mean.ndim != 2 or history.mean.shape[-1] < 2:
        raise DataError(
            f"particles have shape {tuple(history.points.shape)}: "
            "give the run of one sample (n, d), in at least 2 dimensions"
        )
    times = history.times.numpy()
    count = len(history.frame_times)
    with drawing(ax, path) as panels:
        rows, height, ratios = (2, 5.6, [1.5, 1]) if count else (1, 3.4, [1])
        axes, *below = panels.grid((9.0, height), rows, 1, height_ratios=ratios)[:, 0]
        strips = Panels(below[0], shown=panels.shown).grid((9.0, 2.2), 1, count)[0] if count else []
        for index, position in ((0, 0.25), (1, 0.65)):
            label = rf"$\Sigma_{{{index + 1}{index + 1}}}$"
            variance = history.covariance[:, index, index].numpy()
            axes.plot(times, variance, color=colour(position), linewidth=2, label=label)
        if reference is not None:
            dashes = {"color": INK, "linewidth": 1.2, "linestyle": (0, (5, 3))}
            lines = axes.plot(times, reference[:, [0, 1], [0, 1]].numpy(), label=["reference", "_"])
            for line in lines:
                line.set(**dashes)
        axes.set(xlabel="time", ylabel="variance", xlim=(times[0], times[-1]), ylim=(0, None), title=title)
        axes.legend(ncols=3, loc="upper right")

        if count:
            frames = history.frames[..., :2].numpy()
            reach = 1.05 * float(np.abs(frames).max())
            for panel, strip in enumerate(strips):
                x, y = thin(frames[panel]).T
                fade = max(0.15, min(0.6, 300 / len(x)))
                strip.scatter(x, y, s=5, color=INK, alpha=fade, linewidth=0)
                strip.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
                strip.locator_params(nbins=4)
                strip.set_title(f"t = {float(history.frame_times[panel]):g}", fontsize=9)
                strip.set_xlabel("$v_1$")
                if panel:
                    strip.tick_params(labelleft=False)
                else:
                    strip.set_ylabel("$v_2$")
    return np.array([axes, *strips])

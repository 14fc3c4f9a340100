"""Figure 7: the density of a mixture in the plane by KDE, by Emp-SD-KDE and by SD-KDE with a learned score.

The mixture `plane` of `discoformer_paper.sdkde`, n = 2048; integrated squared errors in percent of
those of Scott's kernel density estimate.  The numbers of the paper are read off its figure: 12.41e-4 for
Scott's KDE, 9.81e-4 for Emp-SD-KDE, 7.98e-4 with the learned and 6.17e-4 with the true score.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from discoformer.baselines import kde
from discoformer.baselines.sdkde import SDKDE
from discoformer.core.fields import Method
from discoformer_paper.harness import Context, Experiment, Job
from discoformer_paper.ledger import Rows
from discoformer_paper.pictures import title_of
from discoformer_paper.sdkde import UNIT, grid_of, mixtures
from discoformer_paper.sdkde_single import (
    EMPIRICAL,
    EXACT,
    KEYS,
    TRUTH,
    VALUES,
    beats_kernels,
    densities,
    draw_sample,
    jobs,
    lines_of,
    size_of,
)
from discoformer_paper.summary import KDE, PUBLISHED, Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

MIXTURE = "plane"
_SCOTT, _EMPIRICAL, _LEARNED, _EXACT = 0.001241, 0.000981, 0.000798, 0.000617
PUBLISHED_SHARES = {
    "score": {
        PUBLISHED: 100 * _LEARNED / _SCOTT,
        f"published {EMPIRICAL}": 100 * _EMPIRICAL / _SCOTT,
        f"published {EXACT}": 100 * _EXACT / _SCOTT,
    }
}


def run(context: Context) -> Iterator[Job]:
    return jobs(context, MIXTURE)


def summary(rows: Rows, ours: str) -> Summary:
    lines = lines_of(rows, ours, 2, PUBLISHED_SHARES)
    return Summary(
        "integrated squared error of the density, % of KDE's on the same samples",
        lines,
        [beats_kernels("paper", lines), beats_kernels("ours", lines)],
        rivals=(EMPIRICAL, KDE),
    )


def figure(rows: Rows, context: Context) -> Figure:
    from matplotlib.figure import Figure

    methods: dict[str, Method] = {"KDE, Scott": kde.KDE(), EMPIRICAL: SDKDE()}
    for contestant in reversed(context.networks.for_dim(2)):
        methods[f"SD-KDE, {title_of(contestant.label)}"] = SDKDE(contestant.method)
    grid, cell = grid_of(2)
    side = round(len(grid) ** 0.5)
    found = densities(methods, mixtures()[MIXTURE], size_of(context), grid)
    truth = found[TRUTH]
    picture = Figure(figsize=(2.75 * len(found) + 0.8, 6.2), layout="constrained")
    axes = picture.subplots(2, len(found))
    extent = (float(grid[0, 0]), float(grid[-1, 0])) * 2
    largest = float(max((density - truth).abs().max() for density in found.values()))
    for column, (name, density) in enumerate(found.items()):
        above, below = axes[:, column]
        gap = density - truth
        ise = UNIT * float(gap.square().sum() * cell)
        error = "" if name == TRUTH else f"\nsquared error {ise:.1f}e-4"
        images = [
            panel.imshow(
                values.reshape(side, side).mT.numpy(),
                origin="lower",
                extent=extent,
                interpolation="bilinear",
                **style,
            )
            for panel, values, style in (
                (above, density, {"cmap": "viridis", "vmin": 0, "vmax": float(truth.max())}),
                (below, gap, {"cmap": "PuOr", "vmin": -largest, "vmax": largest}),
            )
        ]
        above.set_title(name + error, fontsize=9.5)
        below.set_xlabel("$x_1$")
        for panel in (above, below):
            panel.set(xlim=(-5, 5), ylim=(-5, 5))
    sample = draw_sample(mixtures()[MIXTURE], size_of(context))
    axes[1, 0].scatter(sample[:, 0], sample[:, 1], s=3, color="black", alpha=0.4, linewidth=0)
    axes[1, 0].set_title("sample", fontsize=9.5)
    axes[0, 0].set_ylabel("$x_2$")
    axes[1, 0].set_ylabel("$x_2$")
    picture.colorbar(images[0], ax=axes[0, :], label="density", pad=0.01)
    picture.colorbar(images[1], ax=axes[1, :], label="density minus the true one", pad=0.01)
    return picture


EXPERIMENT = Experiment(
    name="sdkde_overview",
    title="SD-KDE in the plane",
    source="Figure 7",
    shows="A density and its error by KDE, Emp-SD-KDE and SD-KDE with a learned score, by Scott's rule.",
    keys=KEYS,
    values=VALUES,
    seeds=20,
    run=run,
    summary=summary,
    figure=figure,
)

"""Figure 7: the density of a mixture in the plane by KDE, by Emp-SD-KDE and by SD-KDE with a learned score.

The mixture `plane` of `sdkde_variants`, n = 2048; integrated squared errors in percent of those of Scott's
kernel density estimate.  The numbers of the paper are read off its figure: 12.41e-4 for Scott's KDE, 9.81e-4
for Emp-SD-KDE, 7.98e-4 with the learned and 6.17e-4 with the true score.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from discoformer.baselines import kde
from discoformer.baselines.sdkde import SDKDE
from discoformer.core.fields import Method
from discoformer_paper.experiments import sdkde_variants as sdkde
from discoformer_paper.experiments.sdkde_variants import EMPIRICAL, EXACT, TRUTH
from discoformer_paper.harness.figures import Figure, title_of
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.labels import KDE, PUBLISHED
from discoformer_paper.harness.summary import Summary

KEYS, VALUES = ("n", "seed", "method", "variant", "rule"), ("ise",)
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
    size = sdkde.size_of(context)
    return sdkde.jobs(context, MIXTURE, size, size)


def summary(rows: Rows, ours: str) -> Summary:
    lines = sdkde.shares_of_kde(rows, ours, 2, PUBLISHED_SHARES)
    return Summary(
        "integrated squared error of the density, % of KDE's on the same samples",
        lines,
        [sdkde.beats_kernels("paper", lines), sdkde.beats_kernels("ours", lines)],
        rivals=(EMPIRICAL, KDE),
    )


def figure(rows: Rows, context: Context) -> Figure:
    methods: dict[str, Method] = {"KDE, Scott": kde.KDE(), EMPIRICAL: SDKDE()}
    for contestant in reversed(context.networks.for_dim(2)):
        methods[f"SD-KDE, {title_of(contestant.label)}"] = SDKDE(contestant.method)
    law, size = sdkde.mixtures()[MIXTURE], sdkde.size_of(context)
    grid, cell = sdkde.grid_of(2)
    side = round(len(grid) ** 0.5)
    found = sdkde.densities(methods, law, size, grid)
    truth = found[TRUTH]
    picture = Figure(figsize=(2.75 * len(found) + 0.8, 6.2), layout="constrained")
    axes = picture.subplots(2, len(found))
    extent = (float(grid[0, 0]), float(grid[-1, 0])) * 2
    largest = float(max((density - truth).abs().max() for density in found.values()))
    for column, (name, density) in enumerate(found.items()):
        above, below = axes[:, column]
        gap = density - truth
        ise = 1e4 * float(gap.square().sum() * cell)
        error = "" if name == TRUTH else f"\nsquared error {ise:.1f}e-4"
        place: Any = {"origin": "lower", "extent": extent, "interpolation": "bilinear"}
        images = [
            panel.imshow(values.reshape(side, side).mT.numpy(), cmap=colours, vmin=low, vmax=high, **place)
            for panel, values, colours, low, high in (
                (above, density, "viridis", 0.0, float(truth.max())),
                (below, gap, "PuOr", -largest, largest),
            )
        ]
        above.set_title(name + error, fontsize=9.5)
        below.set_xlabel("$x_1$")
        for panel in (above, below):
            panel.set(xlim=(-5, 5), ylim=(-5, 5))
    sample = sdkde.draw_sample(law, size)
    axes[1, 0].scatter(sample[:, 0], sample[:, 1], s=3, color="black", alpha=0.4, linewidth=0)
    axes[1, 0].set_title("sample", fontsize=9.5)
    axes[0, 0].set_ylabel("$x_2$")
    axes[1, 0].set_ylabel("$x_2$")
    picture.colorbar(images[0], ax=axes[0, :], label="density", pad=0.01)
    picture.colorbar(images[1], ax=axes[1, :], label="density minus the true one", pad=0.01)
    return picture

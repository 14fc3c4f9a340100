"""Figure 8: a mixture of two modes in one dimension, n = 2048: histogram, KDE, SD-KDE and direct density.

The mixture `gauss1` of `sdkde_variants`, the first of the SD-KDE authors; integrated squared errors in
percent of those of Scott's kernel density estimate.  The numbers of the paper are read off its figure:
mean squared error 4.9e-4 for KDE, 2.2e-4 for the direct density, 1.47e-4 for SD-KDE with the learned score
and 1.57e-4 with autograd's.  (Divided by the length of the grid, 16, the integrated error of KDE on this
mixture comes close to the paper's.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from discoformer.baselines import kde
from discoformer.baselines.sdkde import SDKDE
from discoformer.core.fields import Method
from discoformer_paper.experiments import sdkde_variants as sdkde
from discoformer_paper.experiments.sdkde_variants import EMPIRICAL, TITLES, TRUTH
from discoformer_paper.harness.figures import GREY, Figure, finish, panels, style_of, title_of
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.labels import CORE, KDE, PUBLISHED
from discoformer_paper.harness.summary import Summary, judge, least, measured

KEYS, VALUES = ("n", "seed", "method", "variant", "rule"), ("ise",)
MIXTURE = "gauss1"
PUBLISHED_SHARES = {
    variant: {PUBLISHED: 100 * error / 4.9e-4}
    for variant, error in {"score": 1.47e-4, "autograd": 1.57e-4, "direct": 2.2e-4}.items()
}


def run(context: Context) -> Iterator[Job]:
    size = sdkde.size_of(context)
    return sdkde.jobs(context, MIXTURE, size, size)


def summary(rows: Rows, ours: str) -> Summary:
    lines = sdkde.shares_of_kde(rows, ours, 1, PUBLISHED_SHARES)
    # the paper uses one rule for all, so a wider kernel for the same score does not compete
    first, *others = (line for line in lines if not line.what.endswith(TITLES["sd-kde"]))
    rivals = (*(line.found[CORE] for line in others), first.found[EMPIRICAL], first.found[KDE])
    best = measured({TITLES["scott"]: (first.found[CORE], least(*rivals))})
    return Summary(
        "integrated squared error of the density, % of KDE's on the same samples",
        lines,
        [
            judge("paper", "SD-KDE with the learned score is the best approximation", best),
            sdkde.beats_kernels("ours", lines),
        ],
        rivals=(EMPIRICAL, KDE),
    )


def figure(rows: Rows, context: Context) -> Figure:
    truth, size = sdkde.mixtures()[MIXTURE], sdkde.size_of(context)
    methods: dict[str, Method] = {"kde": kde.KDE()}
    labels = {"kde": "KDE, Scott", TRUTH: TRUTH}
    for contestant in context.networks.for_dim(1):
        name, title = contestant.label, title_of(contestant.label)
        methods |= {name: SDKDE(contestant.method), f"{name} direct": contestant.method}
        labels |= {name: f"SD-KDE, score of {title}", f"{name} direct": f"{title}, direct density"}
    fine = torch.linspace(-6, 6, 601, dtype=torch.float64).unsqueeze(-1)
    grid, cell = sdkde.grid_of(1)
    curves = sdkde.densities(methods, truth, size, fine)
    coarse = sdkde.densities(methods, truth, size, grid)
    picture, (whole, gaps) = panels(2, width=6.0)
    bars: Any = {"bins": 60, "range": (-6, 6), "density": True, "color": "#dfe4e8", "label": "histogram"}
    whole.hist(sdkde.draw_sample(truth, size)[:, 0].numpy(), **bars)
    thick = {"color": GREY, "linestyle": "-", "linewidth": 3.2, "alpha": 0.55}
    for name, density in curves.items():
        style = {k: v for k, v in style_of(name).items() if k in ("color", "linestyle")}
        style |= thick if name == TRUTH else {}
        style |= {"linestyle": ":"} if name.endswith("direct") else {}
        error = 1e4 * float((coarse[name] - coarse[TRUTH]).square().sum() * cell)
        label = labels[name] if name == TRUTH else f"{labels[name]}: error {error:.3g}e-4"
        whole.plot(fine[:, 0], density, label=label, **style)
        gaps.plot(fine[:, 0], density - curves[TRUTH], label=label, **style)
    whole.set(title=f"two modes, n = {size}", xlabel="x", ylabel="density", xlim=(-5, 6))
    gaps.set(title="difference from the true density", xlabel="x", ylabel="error of the density")
    gaps.set_xlim(-5, 6)
    return finish(picture, [whole, gaps])

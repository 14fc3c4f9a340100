"""Figure 8: a mixture of two modes in one dimension, n = 2048: histogram, KDE, SD-KDE and direct density.

The mixture `gauss1` of `discoformer_paper.sdkde`, the first of the SD-KDE authors; integrated squared
errors in percent of those of Scott's kernel density estimate.  The numbers of the paper are read off its
figure: mean squared error 4.9e-4 for KDE, 2.2e-4 for the direct density, 1.47e-4 for SD-KDE with the
learned score and 1.57e-4 with autograd's.  (Divided by the length of the grid, 16, the integrated error of
KDE on this mixture comes close to the paper's.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from discoformer.baselines import kde
from discoformer.baselines.sdkde import SDKDE
from discoformer.core.fields import Method
from discoformer_paper.harness import Context, Experiment, Job
from discoformer_paper.ledger import Rows
from discoformer_paper.pictures import finish, panels, style_of, title_of
from discoformer_paper.sdkde import grid_of, mixtures
from discoformer_paper.sdkde_single import (
    EMPIRICAL,
    KEYS,
    TITLES,
    TRUTH,
    VALUES,
    beats_kernels,
    densities,
    draw_sample,
    jobs,
    lines_of,
    size_of,
)
from discoformer_paper.summary import CORE, KDE, PUBLISHED, Summary, every, least, measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

MIXTURE = "gauss1"
PUBLISHED_SHARES = {
    variant: {PUBLISHED: 100 * error / 4.9e-4}
    for variant, error in {"score": 1.47e-4, "autograd": 1.57e-4, "direct": 2.2e-4}.items()
}


def run(context: Context) -> Iterator[Job]:
    return jobs(context, MIXTURE)


def summary(rows: Rows, ours: str) -> Summary:
    lines = lines_of(rows, ours, 1, PUBLISHED_SHARES)
    # the paper has one rule for all: a wider kernel for the same score is no rival
    first, *others = (line for line in lines if not line.what.endswith(TITLES["sd-kde"]))
    rivals = (*(line.found[CORE] for line in others), first.found[EMPIRICAL], first.found[KDE])
    best = measured({TITLES["scott"]: (first.found[CORE], least(*rivals))})
    return Summary(
        "integrated squared error of the density, % of KDE's on the same samples",
        lines,
        [
            every("paper", "SD-KDE with the learned score is the best approximation", best),
            beats_kernels("ours", lines),
        ],
        rivals=(EMPIRICAL, KDE),
    )


def figure(rows: Rows, context: Context) -> Figure:
    truth, size = mixtures()[MIXTURE], size_of(context)
    methods: dict[str, Method] = {"kde": kde.KDE()}
    labels = {"kde": "KDE, Scott", TRUTH: TRUTH}
    for contestant in context.networks.for_dim(1):
        methods |= {
            contestant.label: SDKDE(contestant.method),
            f"{contestant.label} direct": contestant.method,
        }
        labels[contestant.label] = f"SD-KDE, score of {title_of(contestant.label)}"
        labels[f"{contestant.label} direct"] = f"{title_of(contestant.label)}, direct density"
    fine = torch.linspace(-6, 6, 601, dtype=torch.float64).unsqueeze(-1)
    grid, cell = grid_of(1)
    curves = densities(methods, truth, size, fine)
    coarse = densities(methods, truth, size, grid)
    picture, (whole, gaps) = panels(2, width=6.0)
    whole.hist(
        draw_sample(truth, size)[:, 0].numpy(),
        bins=60,
        range=(-6, 6),
        density=True,
        color="#dfe4e8",
        label="histogram",
    )
    for name, density in curves.items():
        style = {k: v for k, v in style_of(name).items() if k in ("color", "linestyle")}
        style |= (
            {"color": "#7A7A7A", "linestyle": "-", "linewidth": 3.2, "alpha": 0.55} if name == TRUTH else {}
        )
        style |= {"linestyle": ":"} if name.endswith("direct") else {}
        error = 1e4 * float((coarse[name] - coarse[TRUTH]).square().sum() * cell)
        label = labels[name] if name == TRUTH else f"{labels[name]}: error {error:.3g}e-4"
        whole.plot(fine[:, 0], density, label=label, **style)
        gaps.plot(fine[:, 0], density - curves[TRUTH], label=label, **style)
    whole.set(title=f"two modes, n = {size}", xlabel="x", ylabel="density", xlim=(-5, 6))
    gaps.set(
        title="difference from the true density", xlabel="x", ylabel="error of the density", xlim=(-5, 6)
    )
    return finish(picture, [whole, gaps])


EXPERIMENT = Experiment(
    name="sdkde_histogram",
    title="SD-KDE in one dimension",
    source="Figure 8",
    shows="Histogram, kernel density, SD-KDE with a learned score and the network's own density.",
    keys=KEYS,
    values=VALUES,
    seeds=20,
    run=run,
    summary=summary,
    figure=figure,
)

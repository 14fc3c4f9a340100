"""Figure 1: does the attention of the paper's core agree with the weights of a kernel estimate?

Diagonal Gaussian mixtures with 1 to 10 modes in turn, n = 512, d = 1 and 2.  The attention of a layer,
averaged over its heads, is an n x n matrix whose rows sum to one; it is compared with the kernel that the
paper prints, exp(-|x - y|^2) in the units of the data, and with the Gaussian kernel of the bandwidth that
agrees best, in whitened coordinates.  The heads of our training of the core have Gaussian kernels built in
(the paper's Proposition 3.5) and so cannot tell whether attention learns to be one: the paper's claims are
judged by `ablation-whiten` (d = 1), a plain Transformer.  Our own network looks at the sample through the
components of its mixture (see `discoformer_paper.maps`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from discoformer_paper.contestants import CORE_NAME, Contestant
from discoformer_paper.harness import Context, Experiment, Job
from discoformer_paper.ledger import Rows
from discoformer_paper.maps import (
    BANDWIDTHS,
    best_kernel,
    correlation,
    kernel_map,
    map_shape,
    maps_of,
    neighbour_order,
    printed_kernel,
    scott_kernel,
    whitened,
)
from discoformer_paper.pictures import curve, finish, panels, title_of
from discoformer_paper.settings import gmm_setting, seed_of
from discoformer_paper.summary import CORE, KDE, OURS, PUBLISHED, Line, Summary, every, measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "LOOKED_AT"]

DIMS = (1, 2)
SIZE = 512
PLAIN, WITHOUT, BUILT_IN = "ablation-whiten", "core without kernels", "kernels built in"
SCOTT = "kde-scott"
PUBLISHED_CORRELATION = 0.93  # read off the figure
HIGH = 0.9  # what "very high agreement" is taken to be
VALUES = ("correlation", "best_correlation", "bandwidth")
KERNELS = {"correlation": "printed kernel", "best_correlation": "best bandwidth"}
CLAIMS = {
    "correlation": "attention in layer 0 agrees with the kernel exp(-|x - y|^2)",
    "best_correlation": "attention in layer 0 agrees with a Gaussian kernel of some bandwidth",
}
LOOKED_AT = 2  # the data set of the pictures: three modes


def measure(maps: Tensor, sample: Tensor) -> list[dict[str, float]]:
    """Agreement of the layers of maps (layers, n, n) with kernels."""
    found = []
    for layer in maps:
        best, bandwidth = best_kernel(layer, sample)
        numbers = (correlation(layer, printed_kernel(sample)), best, bandwidth)
        found.append(dict(zip(VALUES, numbers, strict=True)))
    return found


def by_network(contestant: Contestant, dim: int, size: int, index: int) -> list[dict[str, float]]:
    sample = gmm_setting("diagonal", dim, size).draw(index).context
    return measure(maps_of(contestant.method, sample).mean(1), sample)


def by_scott(dim: int, size: int, index: int) -> list[dict[str, float]]:
    sample = gmm_setting("diagonal", dim, size).draw(index).context
    return measure(scott_kernel(sample)[None], sample)


def run(context: Context) -> Iterator[Job]:
    size = 64 if context.quick else SIZE
    for dim in DIMS:
        networks = context.networks.for_dim(dim)
        plain = context.networks.shipped(PLAIN, single=True) if dim == 1 else None
        for index in range(context.seeds):
            at = (dim, size, seed_of(index))
            for contestant in (*networks, *([plain] if plain else [])):
                layers, _ = map_shape(contestant.method)
                keys = [(*at, contestant.identity, layer) for layer in range(layers)]
                yield Job(keys, partial(by_network, contestant, dim, size, index))
            yield Job([(*at, SCOTT, 0)], partial(by_scott, dim, size, index))


def summary(rows: Rows, ours: str) -> Summary:
    lines = []
    cases: dict[str, dict[str, tuple[float, float]]] = {value: {} for value in CLAIMS}
    for dim in DIMS:
        columns = {CORE: f"{CORE_NAME}{dim}", OURS: ours, WITHOUT: PLAIN, KDE: SCOTT}
        for layer in rows.where(d=dim).numbers("layer"):
            at = rows.where(d=dim, layer=layer)
            # the paper compares layer 0 with the kernel that it prints
            for value in KERNELS if layer == 0 else ("best_correlation",):
                found = {c: 1 - at.where(method=method).mean(value) for c, method in columns.items()}
                if layer == 0:
                    cases[value][f"d={dim}"] = (found[WITHOUT], 1 - HIGH)
                if dim == 2 and value == "correlation":
                    found[PUBLISHED] = 1 - PUBLISHED_CORRELATION
                lines.append(Line(f"d={dim}, layer {layer}, {KERNELS[value]}", found))
    bound = f"(core without kernels: one minus the correlation at most {1 - HIGH:.1g})"
    return Summary(
        "one minus the correlation of the weights of all pairs with those of a Gaussian kernel (such kernels "
        "are built into the paper's core, as trained by us, and so it is not judged here)",
        lines,
        [every("paper", f"{text} {bound}", measured(cases[value])) for value, text in CLAIMS.items()],
        rivals=(),
        reasons={PUBLISHED: "ours is no kernel: it looks through components, whose widths differ"},
    )


def agreement_of(contestant: Contestant, sample: Tensor) -> dict[float, float]:
    """Correlation of layer 0 with the kernels of all bandwidths."""
    weights, points = maps_of(contestant.method, sample)[0].mean(0), whitened(sample)
    return {h: correlation(weights, kernel_map(points, h)) for h in BANDWIDTHS}


def figure(rows: Rows, context: Context) -> Figure:
    from matplotlib.ticker import MaxNLocator

    size = 64 if context.quick else SIZE
    found = context.networks.core(2) or context.networks.ours()
    sample = gmm_setting("diagonal", 2, size).draw(LOOKED_AT).context
    weights = maps_of(found.method, sample)[0].mean(0)
    _, bandwidth = best_kernel(weights, sample)
    points = whitened(sample)
    kernel = kernel_map(points, bandwidth)
    name = f"{title_of(found.label)}, {BUILT_IN}" if found.label != context.networks.label else found.label
    query = int(points.norm(dim=1).argsort()[size // 3])

    picture, axes = panels(6, columns=3, width=4.9)
    order = neighbour_order(points)
    titles = (f"attention, {name}", f"Gaussian kernel, h = {bandwidth:g}")
    for column, (map_, title) in enumerate(zip((weights, kernel), titles, strict=True)):
        dots = axes[column].scatter(points[:, 0], points[:, 1], c=map_[query], s=12, cmap="viridis")
        axes[column].scatter(
            points[query, 0],
            points[query, 1],
            marker="x",
            s=70,
            linewidth=2.2,
            color="#D55E00",
            label="query",
        )
        axes[column].set(title=title, xlabel="whitened $x_1$", ylabel="whitened $x_2$", aspect="equal")
        picture.colorbar(dots, ax=axes[column], label="share in the query's answer")
        ordered = map_[order][:, order].clamp_min(1e-6)
        shown = axes[3 + column].imshow(ordered.log10().numpy(), cmap="viridis", vmin=-5, vmax=-1)
        axes[3 + column].set(xlabel="context point, neighbours in order", ylabel="query point")
        picture.colorbar(shown, ax=axes[3 + column], label="log$_{10}$ of the share", extend="both")
    spot = torch.randperm(size**2, generator=torch.Generator().manual_seed(0))[:4000]
    axes[2].scatter(kernel.flatten()[spot], weights.flatten()[spot], s=4, alpha=0.4, color="#0072B2")
    top = float(torch.maximum(kernel.flatten()[spot].max(), weights.flatten()[spot].max()))
    axes[2].plot([0, top], [0, top], color="#7A7A7A", linewidth=0.9)
    axes[2].xaxis.set_major_locator(MaxNLocator(5))
    agreement = correlation(weights, kernel)
    axes[2].set(
        title=f"all pairs: correlation {agreement:.2f}", xlabel="kernel's share", ylabel="attention's share"
    )
    for contestant in context.networks.for_dim(2):
        curve(axes[5], agreement_of(contestant, sample), contestant.label, markersize=0)
    plain = context.networks.shipped(PLAIN, single=True)
    if plain:
        line = gmm_setting("diagonal", 1, size).draw(LOOKED_AT).context
        found_ = agreement_of(plain, line)
        curve(axes[5], found_, PLAIN, f"{WITHOUT}, d = 1", markersize=0, linestyle="--")
    axes[5].axhline(PUBLISHED_CORRELATION, color="#7A7A7A", linestyle=":", label="published correlation")
    axes[5].set(
        xscale="log", xlabel="bandwidth h of the kernel, whitened", ylabel="correlation", ylim=(-0.02, 1.02)
    )
    return finish(picture, [axes[0], axes[5]])


EXPERIMENT = Experiment(
    name="attention_kde",
    title="Attention against the weights of a kernel estimate",
    source="Figure 1",
    shows="Whether points attend to one another as a kernel density estimate would weigh them; the heads of "
    "our core have Gaussian kernels built in, those of the core without kernels do not.",
    keys=("d", "n", "seed", "method", "layer"),
    values=VALUES,
    seeds=10,
    run=run,
    summary=summary,
    figure=figure,
)

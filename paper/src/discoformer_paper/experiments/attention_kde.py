"""Figure 1: does the attention of the paper's core agree with the weights of a kernel estimate?

Diagonal Gaussian mixtures with 1 to 10 modes in turn, n = 512, d = 1 and 2.  The attention of a layer,
averaged over its heads, is an n x n matrix whose rows sum to one; it is compared with the kernel that the
paper prints, exp(-|x - y|^2) in the units of the data, and with the Gaussian kernel of the bandwidth that
agrees best, in whitened coordinates.  The heads of the core as we trained it have Gaussian kernels built in
(the paper's Proposition 3.5), so they cannot show whether attention learns to be one.  The paper's claims are
judged by a plain Transformer without kernels, in two dimensions, as in the paper, if there is one.  Our own
network looks at the sample through the components of its mixture (see `attention_maps`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from discoformer_paper.experiments import attention_maps as maps
from discoformer_paper.harness.contestants import Contestant, core_name, network_name
from discoformer_paper.harness.figures import GREY, Figure, curve, finish, panels, title_of
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.labels import CORE, KDE, OURS, PUBLISHED
from discoformer_paper.harness.problems import gmm_problem, seed_of
from discoformer_paper.harness.summary import Cases, Line, Summary, judge, measured

__all__ = ["BUILT_IN", "DIMS", "LOOKED_AT", "SCOTT", "SIZE", "WITHOUT", "look_at"]

KEYS = ("d", "n", "seed", "method", "layer")
DIMS = (1, 2)
SIZE = 512
WITHOUT, BUILT_IN = "core without kernels", "kernels built in"
SCOTT = "kde-scott"
PUBLISHED_CORRELATION = 0.93  # read off the figure
HIGH = 0.9  # what we take "very high agreement" to be
VALUES = ("correlation", "best_correlation", "bandwidth")
KERNELS = {"correlation": "printed kernel", "best_correlation": "best bandwidth"}
CLAIMS = {
    "correlation": "attention in layer 0 agrees with the kernel exp(-|x - y|^2)",
    "best_correlation": "attention in layer 0 agrees with a Gaussian kernel of some bandwidth",
}
LOOKED_AT = 2  # the data set of the pictures: three modes


def measure(layers: Tensor, sample: Tensor) -> list[dict[str, float]]:
    """Agreement of layers (layers, n, n) with kernels."""
    found = []
    for layer in layers:
        best, bandwidth = maps.best_kernel(layer, sample)
        numbers = (maps.correlation(layer, maps.printed_kernel(sample)), best, bandwidth)
        found.append(dict(zip(VALUES, numbers, strict=True)))
    return found


def by_network(contestant: Contestant, dim: int, size: int, index: int) -> list[dict[str, float]]:
    sample = gmm_problem("diagonal", dim, size).draw(index).context
    return measure(maps.maps_of(contestant.method, sample).mean(1), sample)


def by_scott(dim: int, size: int, index: int) -> list[dict[str, float]]:
    sample = gmm_problem("diagonal", dim, size).draw(index).context
    return measure(maps.scott_kernel(sample)[None], sample)


def run(context: Context) -> Iterator[Job]:
    size = 64 if context.quick else SIZE
    for dim in DIMS:
        networks = context.networks.for_dim(dim)
        plain = context.networks.named("plain", dim)
        for index in range(context.seeds):
            at = (dim, size, seed_of(index))
            for contestant in (*networks, *([plain] if plain else [])):
                layers, _ = maps.map_shape(contestant.method)
                keys = [(*at, contestant.identity, layer) for layer in range(layers)]
                yield Job(keys, partial(by_network, contestant, dim, size, index))
            yield Job([(*at, SCOTT, 0)], partial(by_scott, dim, size, index))


def summary(rows: Rows, ours: str) -> Summary:
    lines = []
    cases: dict[str, dict[str, tuple[float, float]]] = {value: {} for value in CLAIMS}
    for dim in DIMS:
        methods = {CORE: core_name(dim), OURS: ours, KDE: SCOTT}
        methods[WITHOUT] = network_name("plain", dim)
        for layer in rows.where(d=dim).numbers("layer"):
            at = rows.where(d=dim, layer=layer)
            # the paper compares layer 0 with the kernel that it prints
            for value in KERNELS if layer == 0 else ("best_correlation",):
                found = {column: 1 - x for column, x in at.columns(methods, value).items()}
                if layer == 0:
                    cases[value][f"d={dim}"] = (found[WITHOUT], 1 - HIGH)
                if dim == 2 and value == "correlation":
                    found[PUBLISHED] = 1 - PUBLISHED_CORRELATION
                lines.append(Line(f"d={dim}, layer {layer}, {KERNELS[value]}", found))
    bound = (
        f"({WITHOUT}; the paper sees very high agreement, {PUBLISHED_CORRELATION} in its figure: our bound "
        f"for one minus the correlation is {1 - HIGH:.1g})"
    )
    judged = {value: in_plane(measured(found)) for value, found in cases.items()}
    return Summary(
        "one minus the correlation of the weights of all pairs with those of a Gaussian kernel (such kernels "
        "are built into the paper's core, as trained by us, and so it is not judged here)",
        lines,
        [judge("paper", f"{text} {bound}", judged[value]) for value, text in CLAIMS.items()],
        rivals=(),
        reasons={PUBLISHED: "ours is no kernel: it looks through components, whose widths differ"},
    )


def in_plane(cases: Cases) -> Cases:
    """The case of two dimensions, as in the paper, if it was measured."""
    return {name: case for name, case in cases.items() if name == "d=2"} or cases


def look_at(context: Context) -> tuple[Contestant, str]:
    """The network whose attention in the plane is drawn, and what it is called: plain if there is one."""
    plain = context.networks.named("plain", 2)
    if plain:
        return plain, WITHOUT
    found = context.networks.core(2) or context.networks.ours()
    built_in = found.label != context.networks.label
    return found, f"{title_of(found.label)}, {BUILT_IN}" if built_in else found.label


def agreement_of(contestant: Contestant, sample: Tensor) -> dict[float, float]:
    """Correlation of layer 0 with the kernels of all bandwidths."""
    weights, points = maps.maps_of(contestant.method, sample)[0].mean(0), maps.whitened(sample)
    return {h: maps.correlation(weights, maps.kernel_map(points, h)) for h in maps.BANDWIDTHS}


def figure(rows: Rows, context: Context) -> Figure:
    size = 64 if context.quick else SIZE
    found, name = look_at(context)
    sample = gmm_problem("diagonal", 2, size).draw(LOOKED_AT).context
    weights = maps.maps_of(found.method, sample)[0].mean(0)
    _, bandwidth = maps.best_kernel(weights, sample)
    points = maps.whitened(sample)
    kernel = maps.kernel_map(points, bandwidth)
    query = int(points.norm(dim=1).argsort()[size // 3])

    picture, axes = panels(6, columns=3, width=4.9)
    order = maps.neighbour_order(points)
    cross: Any = {"marker": "x", "s": 70, "linewidth": 2.2, "color": "#D55E00", "label": "query"}
    titles = (f"attention, {name}", f"Gaussian kernel, h = {bandwidth:g}")
    for above, below, map_, title in zip(axes, axes[3:5], (weights, kernel), titles, strict=False):
        dots = above.scatter(points[:, 0], points[:, 1], c=map_[query], s=12, cmap="viridis")
        above.scatter(*points[query], **cross)
        above.set(title=title, xlabel="whitened $x_1$", ylabel="whitened $x_2$", aspect="equal")
        picture.colorbar(dots, ax=above, label="share in the query's answer")
        ordered = map_[order][:, order].clamp_min(1e-6)
        shown = below.imshow(ordered.log10().numpy(), cmap="viridis", vmin=-5, vmax=-1)
        below.set(xlabel="context point, neighbours in order", ylabel="query point")
        picture.colorbar(shown, ax=below, label="log$_{10}$ of the share", extend="both")
    spot = torch.randperm(size**2, generator=torch.Generator().manual_seed(0))[:4000]
    x, y = (part.flatten()[spot] for part in (kernel, weights))
    axes[2].scatter(x, y, s=4, alpha=0.4, color="#0072B2")
    top = float(torch.maximum(x, y).max())
    axes[2].plot([0, top], [0, top], color=GREY, linewidth=0.9)
    axes[2].xaxis.set_major_locator(MaxNLocator(5))
    title = f"all pairs: correlation {maps.correlation(weights, kernel):.2f}"
    axes[2].set(title=title, xlabel="kernel's share", ylabel="attention's share")
    for contestant in context.networks.for_dim(2):
        curve(axes[5], agreement_of(contestant, sample), contestant.label, markersize=0)
    for dim in DIMS:
        plain = context.networks.named("plain", dim)
        if plain:
            agreement = agreement_of(plain, gmm_problem("diagonal", dim, size).draw(LOOKED_AT).context)
            dashes = {1: ":", 2: "--"}[dim]
            curve(axes[5], agreement, CORE, f"{WITHOUT}, d = {dim}", markersize=0, linestyle=dashes)
    axes[5].axhline(PUBLISHED_CORRELATION, color=GREY, linestyle=":", label="published correlation")
    axes[5].set(xscale="log", xlabel="bandwidth h of the kernel, whitened", ylabel="correlation")
    axes[5].set_ylim(-0.02, 1.02)
    return finish(picture, [axes[0], axes[5]])

"""Figures 12 and 13: the eight heads of layer 0, near, far and directed.

Diagonal Gaussian mixtures, 1 to 10 modes in turn, n = 512, in the plane.  Measured for every head: its reach
(mean squared distance of what it attends to, relative to all pairs), its pull (how far the mean of what it
attends to is from the mean of the sample, in standard deviations), and the Gaussian kernel that agrees best
with it.  Our own network has no heads; it stands beside their mean, and so does Scott's kernel.  The heads of
the core as we trained it have Gaussian kernels built in, with learned bandwidths, and so look near by
construction.  The paper's claims are therefore judged by a plain Transformer without kernels, in two
dimensions if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

from torch import Tensor

from discoformer_paper.experiments import attention_maps as maps
from discoformer_paper.experiments.attention_kde import (
    BUILT_IN,
    DIMS,
    LOOKED_AT,
    SCOTT,
    SIZE,
    WITHOUT,
    look_at,
)
from discoformer_paper.harness.contestants import Contestant, core_name, network_name
from discoformer_paper.harness.figures import Figure
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.labels import CORE, KDE, OURS
from discoformer_paper.harness.measured import error_of
from discoformer_paper.harness.problems import gmm_problem, seed_of
from discoformer_paper.harness.summary import Claim, Line, Summary, Verdict, number

KEYS = ("d", "n", "seed", "method", "head")
MEAN = "mean"
VALUES = ("reach", "pull", "best_correlation", "bandwidth")
# reach of a near and of a far head (1: all points equally), pull of a directed one; the paper has no numbers
NEAR, FAR, DIRECTED = 0.25, 1.0, 0.5


def measure(find_maps: Callable[[Tensor], Tensor], dim: int, size: int, index: int) -> list[dict[str, float]]:
    """Numbers of the mean over heads and, if there are several, of every head."""
    sample = gmm_problem("diagonal", dim, size).draw(index).context
    heads = find_maps(sample)
    found = []
    for map_ in (heads.mean(0), *(heads if len(heads) > 1 else ())):
        numbers = (*maps.reach_and_pull(map_, sample), *maps.best_kernel(map_, sample))
        found.append(dict(zip(VALUES, numbers, strict=True)))
    return found


def by_network(contestant: Contestant, sample: Tensor) -> Tensor:
    return maps.maps_of(contestant.method, sample)[0]


def by_scott(sample: Tensor) -> Tensor:
    return maps.scott_kernel(sample)[None]


def run(context: Context) -> Iterator[Job]:
    size = 64 if context.quick else SIZE
    networks = [(2, contestant) for contestant in context.networks.for_dim(2)]
    networks += [(dim, plain) for dim in DIMS if (plain := context.networks.named("plain", dim))]
    for index in range(context.seeds):
        for dim, contestant in networks:
            _, heads = maps.map_shape(contestant.method)
            names = (MEAN, *(range(heads) if heads > 1 else ()))
            keys = [(dim, size, seed_of(index), contestant.identity, name) for name in names]
            yield Job(keys, partial(measure, partial(by_network, contestant), dim, size, index))
        yield Job([(2, size, seed_of(index), SCOTT, MEAN)], partial(measure, by_scott, 2, size, index))


def summary(rows: Rows, ours: str) -> Summary:
    methods = {CORE: core_name(2), OURS: ours, KDE: SCOTT}
    lines = [Line("mean over heads", rows.where(d=2, head=MEAN).columns(methods, "reach"))]
    reach: dict[str, float] = {}  # of the core without kernels, by head
    pull: dict[str, float] = {}
    trainings = [(WITHOUT, network_name("plain", dim), f"d={dim}, {WITHOUT}") for dim in DIMS]
    for column, method, whose in (*trainings, (CORE, methods[CORE], f"d=2, {BUILT_IN}")):
        at = rows.where(method=method)
        heads = {head: at.where(head=head) for head in at.entries("head") if head != MEAN}
        if heads and column == WITHOUT:
            reach, pull = ({head: found.mean(v) for head, found in heads.items()} for v in ("reach", "pull"))
        for head, found in heads.items():
            told = {column: found.mean("reach"), "pull": found.mean("pull")}
            lines.append(Line(f"{whose}, head {head}", told | {"best bandwidth": found.mean("bandwidth")}))
    claims = [
        _some("some heads attend to near points", "reach", reach, "<", NEAR, "our bound"),
        _some("some heads attend to far points", "reach", reach, ">", FAR, "farther than everything alike"),
        _some("some heads attend in a direction", "pull", pull, ">", DIRECTED, "our bound"),
    ]
    return Summary(
        "reach: mean squared distance of what is attended to, relative to all pairs; neither end is better",
        lines,
        claims,
        rivals=(),
    )


def _some(
    what: str, unit: str, found: dict[str, float], sign: Literal["<", ">"], bound: float, why: str
) -> Claim:
    """The claim that some heads do, by more than the standard error."""
    text = f"{what} ({WITHOUT}: {unit} {sign} {bound:g}, {why}; the paper gives no number)"
    if not found:
        return Claim("paper", text, "not tested", "not measured")
    beyond = {head: (x - bound) * (-1 if sign == "<" else 1) for head, x in found.items()}
    kept = [head for head, x in beyond.items() if x > 0 and not x <= error_of(x)]
    near = [head for head, x in beyond.items() if abs(x) <= error_of(x)]
    lowest, highest = min(found.values()), max(found.values())
    told = f"heads {', '.join(kept or near)}" if kept or near else "none"
    verdict: Verdict = "shown" if kept else "undecided" if near else "not shown"
    return Claim("paper", text, verdict, f"{told}; {unit} from {number(lowest)} to {number(highest)}")


def figure(rows: Rows, context: Context) -> Figure:
    size = 64 if context.quick else SIZE
    found, name = look_at(context)
    sample = gmm_problem("diagonal", 2, size).draw(LOOKED_AT).context
    heads, points = maps.maps_of(found.method, sample)[0], maps.whitened(sample)
    looks = [(name.replace(", ", ",\n"), heads, sample)]
    line_network = context.networks.named("plain", 1)
    if line_network:
        line = gmm_problem("diagonal", 1, size).draw(LOOKED_AT).context
        looks.append((f"{WITHOUT},\nd = 1", maps.maps_of(line_network.method, line)[0], line))
    far = points.norm(dim=1).argsort()
    queries = [int(far[round(share * (size - 1))]) for share in (0.1, 0.6, 0.95)]

    columns, lines = max(len(found) for _, found, _ in looks), len(looks) + len(queries)
    picture = Figure(figsize=(max(3.6, 1.75 * columns + 1.2), 1.75 * lines), layout="constrained")
    axes = picture.subplots(lines, columns, squeeze=False)
    for panel in axes.flat:
        panel.set_visible(False)  # until it shows something
        panel.set(xticks=[], yticks=[])
        panel.spines[:].set_visible(True)
    for row, (name, shown, at) in enumerate(looks):
        order = maps.neighbour_order(maps.whitened(at))
        for head, map_ in enumerate(shown):
            reach, pull = maps.reach_and_pull(map_, at)
            ordered = map_[order][:, order].clamp_min(1e-6).log10().numpy()
            heat = axes[row, head].imshow(ordered, cmap="viridis", vmin=-5, vmax=-1)
            axes[row, head].set_title(f"head {head}\nreach {reach:.2f}, pull {pull:.2f}", fontsize=9)
            axes[row, head].set_visible(True)
        axes[row, 0].set_ylabel(f"{name}\nquery point", fontsize=9)
    axes[len(looks) - 1, 0].set_xlabel("context point")
    for row, query in enumerate(queries, len(looks)):
        for head, map_ in enumerate(heads):
            panel = axes[row, head]
            share = map_[query] / map_[query].max()
            front = share.argsort()  # the strongest on top
            dots = panel.scatter(*points[front].T, c=share[front], s=5, cmap="viridis", vmin=0, vmax=1)
            panel.scatter(*points[query], marker="x", s=55, linewidth=2, color="#D55E00")
            panel.set_aspect("equal")
            panel.set_visible(True)
        axes[row, 0].set_ylabel(f"{looks[0][0]}\nwhitened $x_2$", fontsize=9)
    axes[-1, 0].set_xlabel("whitened $x_1$")
    picture.colorbar(heat, ax=axes[: len(looks), :], label="log$_{10}$ of the share", pad=0.01, extend="both")
    label = "share in the answer of the query x, largest = 1"
    picture.colorbar(dots, ax=axes[len(looks) :, :], label=label, pad=0.01, aspect=50)
    return picture

"""Figures 12 and 13: the eight heads of layer 0, near, far and directed.

Diagonal Gaussian mixtures, 1 to 10 modes in turn, n = 512, in the plane.  Of every head: its reach (mean
squared distance of what it attends to, relative to all pairs), its pull (how far the mean of what it
attends to is from the mean of the sample, in standard deviations), and the Gaussian kernel that agrees
best with it.  Our own network has no heads; it stands beside their mean, and so does Scott's kernel.  The
heads of our training of the core have Gaussian kernels built in, whose bandwidths are learned, and so look
near by construction: the paper's claims are judged by `ablation-whiten`, a plain Transformer in one
dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

from torch import Tensor

from discoformer_paper.experiments import attention_maps as maps
from discoformer_paper.experiments.attention_kde import BUILT_IN, LOOKED_AT, PLAIN, SCOTT, SIZE, WITHOUT
from discoformer_paper.harness.contestants import CORE_NAME, Contestant
from discoformer_paper.harness.figures import Figure, title_of
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.labels import CORE, KDE, OURS
from discoformer_paper.harness.problems import gmm_problem, seed_of
from discoformer_paper.harness.summary import Claim, Line, Summary, number

KEYS = ("d", "n", "seed", "method", "head")
MEAN = "mean"
VALUES = ("reach", "pull", "best_correlation", "bandwidth")
# reach of a near and of a far head (1 is everything alike), pull of a directed one
NEAR, FAR, DIRECTED = 0.25, 1.1, 0.5


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
    plain = context.networks.shipped(PLAIN, single=True)
    for index in range(context.seeds):
        for dim, contestant in (*networks, *([(1, plain)] if plain else [])):
            _, heads = maps.map_shape(contestant.method)
            names = (MEAN, *(range(heads) if heads > 1 else ()))
            keys = [(dim, size, seed_of(index), contestant.identity, name) for name in names]
            yield Job(keys, partial(measure, partial(by_network, contestant), dim, size, index))
        yield Job([(2, size, seed_of(index), SCOTT, MEAN)], partial(measure, by_scott, 2, size, index))


def summary(rows: Rows, ours: str) -> Summary:
    methods = {CORE: f"{CORE_NAME}2", OURS: ours, KDE: SCOTT}
    lines = [Line("mean over heads", rows.where(d=2, head=MEAN).columns(methods, "reach"))]
    reach: dict[str, float] = {}  # of the core without kernels, by head
    pull: dict[str, float] = {}
    trainings = ((WITHOUT, PLAIN, f"d=1, {WITHOUT}"), (CORE, methods[CORE], f"d=2, {BUILT_IN}"))
    for column, method, whose in trainings:
        at = rows.where(method=method)
        heads = {head: at.where(head=head) for head in at.entries("head") if head != MEAN}
        for head, found in heads.items():
            told = {column: found.mean("reach"), "pull": found.mean("pull")}
            lines.append(Line(f"{whose}, head {head}", told | {"best bandwidth": found.mean("bandwidth")}))
            if column == WITHOUT:
                reach[head], pull[head] = told[column], told["pull"]
    claims = [
        _some("some heads attend to near points", "reach", reach, "<=", NEAR),
        _some("some heads attend to far points", "reach", reach, ">=", FAR),
        _some("some heads attend in a direction", "pull", pull, ">=", DIRECTED),
    ]
    return Summary(
        "reach: mean squared distance of what is attended to, relative to all pairs; neither end is better",
        lines,
        claims,
        rivals=(),
    )


def _some(what: str, unit: str, found: dict[str, float], sign: Literal["<=", ">="], bound: float) -> Claim:
    """The claim that some heads do."""
    text = f"{what} ({WITHOUT}: {unit} {sign} {bound:g})"
    if not found:
        return Claim("paper", text, None, "not measured")
    kept = [head for head, value in found.items() if (value <= bound if sign == "<=" else value >= bound)]
    lowest, highest = min(found.values()), max(found.values())
    told = f"heads {', '.join(kept)}" if kept else "none"
    return Claim("paper", text, bool(kept), f"{told}; {unit} from {number(lowest)} to {number(highest)}")


def figure(rows: Rows, context: Context) -> Figure:
    size = 64 if context.quick else SIZE
    found = context.networks.core(2) or context.networks.ours()
    sample = gmm_problem("diagonal", 2, size).draw(LOOKED_AT).context
    heads, points = maps.maps_of(found.method, sample)[0], maps.whitened(sample)
    name = f"{title_of(found.label)},\n{BUILT_IN}" if len(heads) > 1 else found.label
    looks = [(name, heads, sample)]
    plain = context.networks.shipped(PLAIN, single=True)
    if plain:
        line = gmm_problem("diagonal", 1, size).draw(LOOKED_AT).context
        looks.append(("core without\nkernels, d = 1", maps.maps_of(plain.method, line)[0], line))
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

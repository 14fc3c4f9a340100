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
from typing import TYPE_CHECKING, Literal

from torch import Tensor

from discoformer_paper.attention_kde import BUILT_IN, LOOKED_AT, PLAIN, SCOTT, SIZE, WITHOUT
from discoformer_paper.contestants import CORE_NAME, Contestant
from discoformer_paper.harness import Context, Experiment, Job
from discoformer_paper.ledger import Rows
from discoformer_paper.maps import (
    best_kernel,
    map_shape,
    maps_of,
    neighbour_order,
    reach_and_pull,
    scott_kernel,
    whitened,
)
from discoformer_paper.pictures import title_of
from discoformer_paper.settings import gmm_setting, seed_of
from discoformer_paper.summary import CORE, KDE, OURS, Claim, Line, Summary, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

MEAN = "mean"
VALUES = ("reach", "pull", "best_correlation", "bandwidth")
# reach of a near and of a far head (1 is everything alike), pull of a directed one
NEAR, FAR, DIRECTED = 0.25, 1.1, 0.5


def measure(maps: Callable[[Tensor], Tensor], dim: int, size: int, index: int) -> list[dict[str, float]]:
    """Numbers of the mean over heads and, if there are several, of every head."""
    sample = gmm_setting("diagonal", dim, size).draw(index).context
    heads = maps(sample)
    found = []
    for map_ in (heads.mean(0), *(heads if len(heads) > 1 else ())):
        numbers = (*reach_and_pull(map_, sample), *best_kernel(map_, sample))
        found.append(dict(zip(VALUES, numbers, strict=True)))
    return found


def by_network(contestant: Contestant, sample: Tensor) -> Tensor:
    return maps_of(contestant.method, sample)[0]


def by_scott(sample: Tensor) -> Tensor:
    return scott_kernel(sample)[None]


def run(context: Context) -> Iterator[Job]:
    size = 64 if context.quick else SIZE
    networks = [(2, contestant) for contestant in context.networks.for_dim(2)]
    plain = context.networks.shipped(PLAIN, single=True)
    for index in range(context.seeds):
        for dim, contestant in (*networks, *([(1, plain)] if plain else [])):
            _, heads = map_shape(contestant.method)
            names = (MEAN, *(range(heads) if heads > 1 else ()))
            keys = [(dim, size, seed_of(index), contestant.identity, name) for name in names]
            yield Job(keys, partial(measure, partial(by_network, contestant), dim, size, index))
        yield Job([(2, size, seed_of(index), SCOTT, MEAN)], partial(measure, by_scott, 2, size, index))


def summary(rows: Rows, ours: str) -> Summary:
    columns = {CORE: f"{CORE_NAME}2", OURS: ours, KDE: SCOTT}
    mean = rows.where(d=2, head=MEAN)
    lines = [Line("mean over heads", {c: mean.where(method=m).mean("reach") for c, m in columns.items()})]
    reach: dict[str, float] = {}  # of the core without kernels, by head
    pull: dict[str, float] = {}
    for column, method, whose in (
        (WITHOUT, PLAIN, f"d=1, {WITHOUT}"),
        (CORE, columns[CORE], f"d=2, {BUILT_IN}"),
    ):
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
    from matplotlib.figure import Figure

    size = 64 if context.quick else SIZE
    found = context.networks.core(2) or context.networks.ours()
    sample = gmm_setting("diagonal", 2, size).draw(LOOKED_AT).context
    heads, points = maps_of(found.method, sample)[0], whitened(sample)
    name = f"{title_of(found.label)},\n{BUILT_IN}" if len(heads) > 1 else found.label
    looks = [(name, heads, sample)]
    plain = context.networks.shipped(PLAIN, single=True)
    if plain:
        line = gmm_setting("diagonal", 1, size).draw(LOOKED_AT).context
        looks.append(("core without\nkernels, d = 1", maps_of(plain.method, line)[0], line))
    far = points.norm(dim=1).argsort()
    queries = [int(far[round(share * (size - 1))]) for share in (0.1, 0.6, 0.95)]

    columns, lines = max(len(maps) for _, maps, _ in looks), len(looks) + len(queries)
    picture = Figure(figsize=(max(3.6, 1.75 * columns + 1.2), 1.75 * lines), layout="constrained")
    axes = picture.subplots(lines, columns, squeeze=False)
    for panel in axes.flat:
        panel.set_visible(False)  # until it shows something
        panel.set(xticks=[], yticks=[])
        panel.spines[:].set_visible(True)
    for row, (name, maps, at) in enumerate(looks):
        order = neighbour_order(whitened(at))
        for head, map_ in enumerate(maps):
            reach, pull = reach_and_pull(map_, at)
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
    picture.colorbar(
        dots,
        ax=axes[len(looks) :, :],
        label="share in the answer of the query x, largest = 1",
        pad=0.01,
        aspect=50,
    )
    return picture


EXPERIMENT = Experiment(
    name="attention_heads",
    title="What the heads attend to",
    source="Figures 12 and 13",
    shows="Attention of the single heads of layer 0: how far they look, and whether in a direction; heads of "
    "our core have Gaussian kernels built in, those of the core without kernels do not.",
    keys=("d", "n", "seed", "method", "head"),
    values=VALUES,
    seeds=10,
    run=run,
    summary=summary,
    figure=figure,
)

"""Figure 6: relative Fisher information, the score of one sample at the points of another.

Two Gaussian mixtures f and g in the plane, 1000 points of each.  A network fitted to the sample of g
answers at the points of f; the relative Fisher information E_f |grad log f - grad log g|^2 follows, by the
paper's scheme (both scores from one fit each) and by that of `discoformer.functionals` (cross-fitting for
the score of f).  The truth is an integral over a grid.  The paper's figure shows the method and claims no
accuracy.  `divergences` has random pairs and more sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

import torch
from matplotlib.lines import Line2D
from torch import Tensor

from discoformer.core.fields import Method
from discoformer.functionals import relative_fisher_information
from discoformer.priors import LocationScaleMixture
from discoformer_paper.harness.contestants import Contestant, rival
from discoformer_paper.harness.figures import Figure, arrows, panels, title_of
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.labels import IN_FAMILY, KDE, OURS, columns
from discoformer_paper.harness.problems import fixed_mixture, functional_seeds
from discoformer_paper.harness.summary import Line, Summary, against, judge

KEYS = ("n", "seed", "method")
SIZE, QUICK_SIZE = 1000, 100
VALUES = ("cross_error", "paper_value", "paper_error", "value", "error")
LINES = {
    "cross_error": "score of g at the points of f",
    "paper_error": "relative Fisher information, paper's scheme",
    "error": "relative Fisher information, default scheme",
}
SHOWN = 50  # arrows in a panel
CONTEXT, EXACT, ESTIMATED = "#56B4E9", "#b9bec2", "#D55E00"


def pair() -> tuple[LocationScaleMixture, LocationScaleMixture]:
    """The two truths, f and g."""
    means, std = [[-1.6, 0.8], [0.4, -1.2], [1.8, 1.2]], [[0.9, 0.8], [0.8, 0.9], [0.8, 0.8]]
    return (
        fixed_mixture([0.5, 0.5], [[-1.0, -0.6], [1.0, 0.9]], [[0.6, 0.5], [0.5, 0.7]]),
        fixed_mixture([0.4, 0.3, 0.3], means, std),
    )


@cache
def true_value() -> float:
    """Relative Fisher information of f with respect to g, by the trapezoidal rule."""
    f, g = pair()
    axis = torch.linspace(-6, 6, 401, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    gap = (f.score(grid) - g.score(grid)).square().sum(-1)
    return float((f.log_density(grid).exp() * gap).sum() * (axis[1] - axis[0]) ** 2)


def draw(size: int, seed: int) -> tuple[Tensor, Tensor]:
    """Samples of f and of g."""
    generator = torch.Generator().manual_seed(seed)
    f, g = pair()
    return f.sample(size, generator), g.sample(size, generator)


def cross_score(method: Method, x: Tensor, y: Tensor) -> Tensor:
    """The score of y's density at the points of x."""
    with torch.no_grad():
        return method.fit(y).score(x)


def measure(method: Method, size: int, seed: int) -> dict[str, float]:
    """Errors of the score in between, and of both estimates."""
    x, y = draw(size, seed)
    exact = pair()[1].score(x)
    gap = (cross_score(method, x, y) - exact).square().sum() / exact.square().sum()
    with torch.no_grad():
        paper = float(relative_fisher_information(x, y, method, split="none").value)
        value = float(relative_fisher_information(x, y, method).value)
    paper_error, error = (abs(found / true_value() - 1) for found in (paper, value))
    return dict(zip(VALUES, (float(gap), paper, paper_error, value, error), strict=True))


def contestants(context: Context) -> list[Contestant]:
    return [*context.networks.for_dim(2), rival("kde-scott"), rival("gmm-full")]


def run(context: Context) -> Iterator[Job]:
    size = QUICK_SIZE if context.quick else SIZE
    for seed in functional_seeds(context.seeds):
        for contestant in contestants(context):
            key = (size, seed, contestant.identity)
            yield Job.single(key, partial(measure, contestant.method, size, seed))


def summary(rows: Rows, ours: str) -> Summary:
    methods = columns(2, ours, "gmm-full")
    lines = [Line(what, rows.columns(methods, value, 100)) for value, what in LINES.items()]
    text = "a context from g and queries from f give both with less error than KDE"
    claims = [judge("ours", text, against(lines, OURS, KDE))]
    return Summary("relative error, %", lines, claims, reasons=IN_FAMILY)


def figure(rows: Rows, context: Context) -> Figure:
    size = QUICK_SIZE if context.quick else SIZE
    x, y = draw(size, functional_seeds(1)[0])
    exact = pair()[1].score(x)
    shown = [c for c in contestants(context) if c.label != "gmm-full"]
    picture, axes = panels(len(shown), width=4.0, height=4.8)
    few = slice(SHOWN)
    for panel, contestant in zip(axes, reversed(shown), strict=True):
        score = cross_score(contestant.method, x, y)
        panel.scatter(y[:, 0], y[:, 1], s=6, color=CONTEXT, alpha=0.4, linewidth=0)
        arrows(panel, x[few], exact[few], unit=2.0, color=EXACT, width=0.012)
        arrows(panel, x[few], score[few], unit=2.0, color=ESTIMATED, width=0.005, zorder=3)
        panel.scatter(x[few, 0], x[few, 1], s=10, color="black", linewidth=0, zorder=4)
        value = rows.where(method=contestant.label).mean("paper_value")
        title = f"{title_of(contestant.label)}\nI(f|g): {value:.2f}, exact {true_value():.2f}"
        panel.set(title=title, xlabel="$x_1$", ylabel="$x_2$", xlim=(-3.4, 3.4), ylim=(-3.2, 3.2))
    dots = {"context, from g": CONTEXT, f"{min(SHOWN, size)} of {size} queries, from f": "black"}
    lines = {"score of g there, half its length: exact": EXACT, "estimated": ESTIMATED}
    handles = [Line2D([], [], color=c, marker="o", markersize=4, linestyle="none") for c in dots.values()]
    handles += [Line2D([], [], color=colour, linewidth=3) for colour in lines.values()]
    picture.legend(handles, [*dots, *lines], loc="outside lower center", ncols=4, frameon=False)
    return picture

"""Figure 6: relative Fisher information, the score of one sample at the points of another.

Two Gaussian mixtures f and g in the plane, 1000 points of each.  A network that was given the sample of g
answers at the points of f; the relative Fisher information E_f |grad log f - grad log g|^2 follows, by the
paper's scheme (both scores from one fit each) and by that of `discoformer.functionals` (cross-fitting for
the score of f).  The truth is an integral over a grid.  The paper's figure shows how it is done and claims no
accuracy.  `divergences` has random pairs and more sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from discoformer.core.fields import Method
from discoformer.functionals import relative_fisher_information
from discoformer.priors import LocationScaleMixture
from discoformer_paper.contestants import Contestant, rival
from discoformer_paper.entropy_fisher import FUNCTIONAL_SEED
from discoformer_paper.harness import Context, Experiment, Job
from discoformer_paper.ledger import Rows
from discoformer_paper.pictures import arrows, panels, title_of
from discoformer_paper.summary import GMM, KDE, OURS, Line, Summary, columns, every

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "true_value"]

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
    return (
        _mixture([0.5, 0.5], [[-1.0, -0.6], [1.0, 0.9]], [[0.6, 0.5], [0.5, 0.7]]),
        _mixture(
            [0.4, 0.3, 0.3], [[-1.6, 0.8], [0.4, -1.2], [1.8, 1.2]], [[0.9, 0.8], [0.8, 0.9], [0.8, 0.8]]
        ),
    )


def _mixture(weights: list[float], means: list[list[float]], std: list[list[float]]) -> LocationScaleMixture:
    w, m, s = (torch.tensor(values, dtype=torch.float64) for values in (weights, means, std))
    return LocationScaleMixture(w, m, s)


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
    errors = (abs(found / true_value() - 1) for found in (paper, value))
    return dict(zip(VALUES, (float(gap), paper, next(errors), value, next(errors)), strict=True))


def contestants(context: Context) -> list[Contestant]:
    return [*context.networks.for_dim(2), rival("kde-scott"), rival("gmm-full")]


def run(context: Context) -> Iterator[Job]:
    size = QUICK_SIZE if context.quick else SIZE
    for seed in range(FUNCTIONAL_SEED, FUNCTIONAL_SEED + context.seeds):
        for contestant in contestants(context):
            key = (size, seed, contestant.identity)
            yield Job.single(key, partial(measure, contestant.method, size, seed))


def summary(rows: Rows, ours: str) -> Summary:
    lines = []
    below = {}
    for value, what in LINES.items():
        usual = columns(2, ours, "gmm-full")
        found = {c: 100 * rows.where(method=method).mean(value) for c, method in usual.items()}
        lines.append(Line(what, found))
        below[what] = (found[OURS], found[KDE])
    return Summary(
        "relative error, %",
        lines,
        [every("ours", "a context from g and queries from f give both with less error than KDE", below)],
        reasons={GMM: "whose family holds the truth"},
    )


def figure(rows: Rows, context: Context) -> Figure:
    size = QUICK_SIZE if context.quick else SIZE
    x, y = draw(size, FUNCTIONAL_SEED)
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
    _legend(picture, size)
    return picture


def _legend(picture: Figure, size: int) -> None:
    from matplotlib.lines import Line2D

    dots = {"context, from g": CONTEXT, f"{min(SHOWN, size)} of {size} queries, from f": "black"}
    lines = {"score of g there, half its length: exact": EXACT, "estimated": ESTIMATED}
    handles = [Line2D([], [], color=c, marker="o", markersize=4, linestyle="none") for c in dots.values()]
    handles += [Line2D([], [], color=colour, linewidth=3) for colour in lines.values()]
    picture.legend(handles, [*dots, *lines], loc="outside lower center", ncols=4, frameon=False)


EXPERIMENT = Experiment(
    name="relative_fisher",
    title="Relative Fisher information",
    source="Figure 6",
    shows="A sample of g as the context, the points of f as queries: the score of g where f lives.",
    keys=("n", "seed", "method"),
    values=VALUES,
    seeds=20,
    run=run,
    summary=summary,
    figure=figure,
)

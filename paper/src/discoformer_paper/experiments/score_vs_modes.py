"""Figure 4, right: score error against the number of modes, 1 to 19; training has seen at most 10.

Diagonal Gaussian mixtures in the plane, n = 2048, standard deviations in [0.2, 1], at the sample points.
The error is the mean of |s_hat - s|^2 over points and data sets, divided by d, as on the left.  The paper
prints no numbers for this figure, and does not name its dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from discoformer_paper.harness.contestants import rival
from discoformer_paper.harness.figures import Figure, curve, finish, panels
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.labels import CORE, IN_FAMILY, KDE, OURS, columns
from discoformer_paper.harness.problems import gmm_problem, score_jobs
from discoformer_paper.harness.summary import Claim, Line, Summary, Whose, against, judge, trend

DIM, SIZE = 2, 2048
MODES = tuple(range(1, 20))
SEEN = 10  # the largest number of modes in training
JUMP = 1.25  # excess over the straight line that is a jump


def run(context: Context) -> Iterator[Job]:
    size = 64 if context.quick else SIZE
    contestants = [*context.networks.for_dim(DIM, size), rival("kde-scott"), rival("gmm-diag")]
    for modes in (1, 19) if context.quick else MODES:
        problem = gmm_problem("diagonal", DIM, size, modes=(modes,))
        yield from score_jobs(problem, contestants, range(context.seeds))


def by_modes(rows: Rows, method: str) -> dict[float, float]:
    """Mean squared error of the score per coordinate, by number of modes."""
    found = rows.where(method=method)
    problems = sorted((int(name.partition("k=")[2]), name) for name in found.entries("setting"))
    return {float(modes): found.where(setting=name).mean("score_mse") / DIM for modes, name in problems}


def summary(rows: Rows, ours: str) -> Summary:
    curves = {column: by_modes(rows, method) for column, method in columns(DIM, ours).items()}
    lines = [
        Line(
            f"{k:g} mode{'s' * (k != 1)}",
            {column: points.get(k, np.nan) for column, points in curves.items()},
        )
        for k in sorted({k for points in curves.values() for k in points})
    ]
    mine = [line for line in lines if not np.isnan(line.found[OURS])]
    claims = [
        _monotone(curves[CORE]),
        _stable("paper", "the paper's core", curves[CORE]),
        _stable("ours", ours, curves[OURS]),
        judge("ours", "below KDE for every number of modes", against(mine, OURS, KDE)),
    ]
    return Summary("mean squared error of the score, per coordinate", lines, claims, reasons=IN_FAMILY)


def _monotone(points: Mapping[float, float]) -> Claim:
    """Whether more modes are harder: the slope of the error in their number is positive."""
    text = "the error is monotone in the number of modes (our reading: its trend rises)"
    cases = {"minus the slope": (-1 * trend(points), 0.0)} if len(points) > 2 else {}
    return judge("paper", text, cases)


def _stable(whose: Whose, name: str, points: Mapping[float, float]) -> Claim:
    """No jump beyond the modes of training: the curve continues the straight line up to ten modes."""
    text = (
        f"{name}: the error is stable beyond the modes of the training (our bound, the paper has none: from "
        f"11 modes on at most {JUMP:g} times the straight line through 1 to {SEEN} modes)"
    )
    inside = {k: error for k, error in points.items() if k <= SEEN}
    outside = {k: error for k, error in points.items() if k > SEEN}
    if len(inside) < 2 or not outside:
        return judge(whose, text, {})
    slope, middle = trend(inside), sum(inside) / len(inside)
    start = sum(inside.values()) / len(inside) - slope * middle
    ratio = sum(outside.values()) / sum(start + slope * k for k in outside)
    return judge(whose, text, {"ratio": (ratio, JUMP)})


def figure(rows: Rows, context: Context) -> Figure:
    picture, (axes,) = panels(1, width=7)
    for method in rows.entries("method"):
        curve(axes, by_modes(rows, method), method)
    axes.axvspan(SEEN + 0.5, MODES[-1] + 0.5, color="#eef1f3", zorder=0)
    axes.text(SEEN + 0.8, 0.98, "more modes than in training", transform=axes.get_xaxis_transform(), va="top")
    axes.set(xlabel="modes", ylabel="squared score error per coordinate", xlim=(0.5, MODES[-1] + 0.5))
    axes.set_ylim(0, None)
    axes.set_xticks(MODES[::2])
    return finish(picture, [axes])

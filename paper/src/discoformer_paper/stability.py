"""Theorem B.2: how much one point of the sample changes an answer.

The theorem carries the error on Gaussian mixtures over to any other density.  It assumes that an answer
changes by at most L / n if one of n points is another one, and the paper says that this is an assumption
on the trained network, not a property of attention.  Here a point is drawn anew from the same Gaussian
mixture, and scores at other points of the sample are compared; densities, the theorem's other half, are
not.  The largest change of all trials stands for the bound, which is one over all samples and cannot be
measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import torch

from discoformer_paper.contestants import Contestant, rival
from discoformer_paper.harness import Context, Experiment, Job
from discoformer_paper.ledger import Rows
from discoformer_paper.pictures import GREY, curve, finish, panels, title_of
from discoformer_paper.settings import KEYS, MODES, Setting, gmm_setting, seed_of
from discoformer_paper.summary import CORE, KDE, OURS, Line, Summary, columns, every, slope

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

DIMS = (2, 10)
SIZES = tuple(2**k for k in range(7, 14))
TRIALS = 8  # points that are drawn anew in a sample, one at a time
WATCHED = 32  # points whose scores are compared
SLOPE = -0.9  # a largest change is noisy: so much counts as 1 / n
VALUES = ("square", "largest", "score_square")


def measure(setting: Setting, contestant: Contestant, index: int) -> dict[str, float]:
    """Mean square and largest change of a score when one point is drawn anew, and the mean square score.

    A setting has fresh points of the same distribution, as many as there are trials.
    """
    sample, other, _ = setting.draw(index)
    watched = sample[:WATCHED]
    with torch.no_grad():
        before = contestant.method.fit(sample).score(watched)
        changes = []
        for trial in range(TRIALS):
            changed = sample.clone()
            changed[WATCHED + trial] = other[trial]  # the order of a sample is random
            changes.append((contestant.method.fit(changed).score(watched) - before).norm(dim=-1))
    length = torch.stack(changes)
    return {
        "square": float(length.square().mean()),
        "largest": float(length.max()),
        "score_square": float(before.square().sum(-1).mean()),
    }


def run(context: Context) -> Iterator[Job]:
    for dim in DIMS:
        for size in SIZES[:2] if context.quick else SIZES:
            setting = gmm_setting("diagonal", dim, size, fresh=TRIALS)
            for index in range(context.seeds):
                for contestant in (*context.networks.for_dim(dim, size), rival("kde-scott")):
                    key = ("diagonal", dim, size, seed_of(index), contestant.identity)
                    yield Job.single(key, partial(measure, setting, contestant, index))


def usual_change(rows: Rows) -> float:
    """Root of the mean square change, relative to that of the score."""
    return math.sqrt(rows.sum("square") / rows.sum("score_square")) if len(rows) else math.nan


def largest_change(rows: Rows) -> float:
    """Largest change, relative to the root mean square score of its sample."""
    shares = [row.values["largest"] / math.sqrt(row.values["score_square"]) for row in rows]
    return max(shares, default=math.nan)


MEASURES = {"usual": usual_change, "largest": largest_change}


def summary(rows: Rows, ours: str) -> Summary:
    lines = []
    falls: dict[str, dict[str, tuple[float, float]]] = {CORE: {}, OURS: {}}
    for dim in DIMS:
        names = columns(dim, ours)
        for kind, measure_change in MEASURES.items():
            changes: dict[str, dict[float, float]] = {column: {} for column in (CORE, OURS, KDE)}
            for size in rows.where(d=dim).numbers("n"):
                found = {c: measure_change(rows.where(d=dim, n=size, method=names[c])) for c in changes}
                lines.append(Line(f"d={dim}, n={size}, {kind}", found))
                for column, value in found.items():
                    if value > 0:
                        changes[column][size] = value
            slopes = {column: slope(found) for column, found in changes.items()}
            lines.append(Line(f"d={dim}, slope, {kind}", slopes))
            if kind == "largest":
                for column, cases in falls.items():
                    cases[f"d={dim}"] = (slopes[column], SLOPE)
    text = (
        f"one point of n changes an answer by O(1 / n) (slope of the largest change at most {SLOPE}, log-log)"
    )
    return Summary(
        "change of scores, over the root mean square score, when one point of the sample is drawn anew "
        f"(usual: root mean square; largest: of {WATCHED} points, {TRIALS} trials and all data sets; slope: "
        "of log change in log n)",
        lines,
        [every("paper", f"assumed: {text}", falls[CORE]), every("ours", text, falls[OURS])],
        rivals=(KDE,),
        reasons={CORE: "it decides nothing", KDE: "a smoother estimate, whatever its error"},
    )


def figure(rows: Rows, context: Context) -> Figure:
    picture, axes = panels(len(DIMS), width=5.0)
    for panel, dim in zip(axes, DIMS, strict=True):
        for method in rows.where(d=dim).entries("method"):
            at = rows.where(d=dim, method=method)
            for kind, measure_change in MEASURES.items():
                points = {float(n): measure_change(at.where(n=n)) for n in at.numbers("n")}
                dashes = "-" if kind == "largest" else ":"
                curve(panel, points, method, f"{title_of(method)}, {kind}", linestyle=dashes)
        sizes = rows.numbers("n")
        panel.plot(sizes, [sizes[0] / n for n in sizes], color=GREY, linewidth=0.8, label="slope -1")
        panel.set(
            title=f"1 to {MODES[-1]} modes, d = {dim}", xlabel="n", ylabel="relative change of the score"
        )
    return finish(picture, axes, log="xy", base=2)


EXPERIMENT = Experiment(
    name="stability",
    title="What one point changes",
    source="Theorem B.2",
    shows="Whether an answer depends on every single point by 1 / n only, which the theorem assumes.",
    keys=KEYS,
    values=VALUES,
    seeds=10,
    run=run,
    summary=summary,
    figure=figure,
)

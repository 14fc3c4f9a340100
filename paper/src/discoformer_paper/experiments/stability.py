"""Theorem B.2: how much one point of the sample changes an answer.

The theorem carries the error on Gaussian mixtures over to any other density.  It assumes that an answer
changes by at most L / n if one of n points is replaced, and the paper says that this is an assumption on
the trained network, not a property of attention.  Here a point is drawn again from the same Gaussian
mixture, and scores at other points of the sample are compared; densities, the theorem's other half, are
not.  The bound is over all samples and cannot be measured; the largest change of all trials stands for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from discoformer_paper.harness.contestants import Contestant, rival
from discoformer_paper.harness.figures import GREY, Figure, curve, finish, panels, title_of
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.labels import CORE, GMM, KDE, OURS, columns
from discoformer_paper.harness.problems import MODES, Problem, gmm_problem, seed_of
from discoformer_paper.harness.summary import Line, Summary, judge, slope

DIMS = (2, 10)
SIZES = tuple(2**k for k in range(7, 14))
TRIALS = 8  # points that are replaced in a sample, one at a time
WATCHED = 32  # points whose scores are compared
SLOPE = -0.9  # the largest change is noisy: this slope counts as 1 / n
VALUES = ("square", "largest", "score_square")


def measure(problem: Problem, contestant: Contestant, index: int) -> dict[str, float]:
    """Mean square and largest change of a score when one point is replaced, and the mean square score.

    The problem has fresh points of the same distribution, as many as there are trials.
    """
    sample, other, _ = problem.draw(index)
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
            problem = gmm_problem("diagonal", dim, size, fresh=TRIALS)
            for index in range(context.seeds):
                for contestant in (*context.networks.for_dim(dim, size), rival("kde-scott")):
                    key = ("diagonal", dim, size, seed_of(index), contestant.identity)
                    yield Job.single(key, partial(measure, problem, contestant, index))


def usual_change(rows: Rows) -> float:
    """Root of the mean square change, relative to that of the score."""
    return math.sqrt(rows.sum("square") / rows.sum("score_square")) if len(rows) else math.nan


def largest_change(rows: Rows) -> float:
    """Largest change, relative to the root mean square score of its sample."""
    shares = rows.values("largest") / np.sqrt(rows.values("score_square"))
    return max(map(float, shares), default=math.nan)


MEASURES = {"usual": usual_change, "largest": largest_change}


def summary(rows: Rows, ours: str) -> Summary:
    lines = []
    falls: dict[str, dict[str, tuple[float, float]]] = {CORE: {}, OURS: {}}
    for dim in DIMS:
        methods = {column: method for column, method in columns(dim, ours).items() if column != GMM}
        for kind, change in MEASURES.items():
            found = {
                n: rows.where(d=dim, n=n).columns(methods, change) for n in rows.where(d=dim).numbers("n")
            }
            lines += [Line(f"d={dim}, n={n}, {kind}", changes) for n, changes in found.items()]
            slopes = {
                column: slope({n: changes[column] for n, changes in found.items() if changes[column] > 0})
                for column in methods
            }
            lines.append(Line(f"d={dim}, slope, {kind}", slopes))
            if kind == "largest":
                for column, cases in falls.items():
                    cases[f"d={dim}"] = (slopes[column], SLOPE)
    text = (
        "one point of n changes an answer by O(1 / n) (slope of the largest change, log-log; it is noisy, "
        f"and our bound is {SLOPE})"
    )
    return Summary(
        "change of scores, over the root mean square score, when one point of the sample is drawn again "
        f"(usual: root mean square; largest: of {WATCHED} points, {TRIALS} trials and all data sets; slope: "
        "of log change in log n)",
        lines,
        [judge("assumption", text, falls[CORE]), judge("assumption", f"{ours}: {text}", falls[OURS])],
        rivals=(KDE,),
        reasons={CORE: "it decides nothing", KDE: "a smoother estimate, whatever its error"},
    )


def figure(rows: Rows, context: Context) -> Figure:
    picture, axes = panels(len(DIMS), width=5.0)
    for panel, dim in zip(axes, DIMS, strict=True):
        for method in rows.where(d=dim).entries("method"):
            at = rows.where(d=dim, method=method)
            for kind, change in MEASURES.items():
                dashes = "-" if kind == "largest" else ":"
                label = f"{title_of(method)}, {kind}"
                curve(panel, at.by("n", change), method, label, linestyle=dashes)
        sizes = rows.numbers("n")
        panel.plot(sizes, [sizes[0] / n for n in sizes], color=GREY, linewidth=0.8, label="slope -1")
        title = f"1 to {MODES[-1]} modes, d = {dim}"
        panel.set(title=title, xlabel="n", ylabel="relative change of the score")
    return finish(picture, axes, log="xy", base=2)

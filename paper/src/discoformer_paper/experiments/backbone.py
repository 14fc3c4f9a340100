"""Does one backbone for density and score help?  Two heads against a network for each, with the same steps.

The paper says that a shared backbone improves accuracy and sample efficiency, and shows no comparison.  The
recipes `backbone-both`, `backbone-score` and `backbone-density` differ in their heads alone.  Diagonal
Gaussian mixtures in the plane with 1 to 10 modes in turn, at the sample points.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from discoformer_paper.harness.contestants import network_name, rival
from discoformer_paper.harness.figures import Figure, curve, finish, panels
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.labels import CORE, KDE, OURS
from discoformer_paper.harness.problems import gmm_problem, relative_error, score_jobs
from discoformer_paper.harness.summary import Line, Summary, judge, measured

DIM, SIZES = 2, (256, 512, 1024)
ALONE = "a network for each"
HEADS = ("both", "score", "density")
NAMES = {heads: network_name("backbone", heads) for heads in HEADS}


def run(context: Context) -> Iterator[Job]:
    found = [context.networks.named("backbone", heads) for heads in HEADS]
    contestants = [context.networks.ours(), rival("kde-scott"), *filter(None, found)]
    for size in (64,) if context.quick else SIZES:
        problem = gmm_problem("diagonal", DIM, size)
        yield from score_jobs(problem, contestants, range(context.seeds))


def score_error(rows: Rows) -> float:
    """In percent."""
    return 100 * relative_error(rows)


def density_error(rows: Rows) -> float:
    return rows.mean("log_density_mse")


PARTS = {"score": score_error, "density": density_error}
TITLES = {"score": "relative score error, %", "density": "squared error of the log density"}


def summary(rows: Rows, ours: str) -> Summary:
    lines, cases = [], {}
    for part, error in PARTS.items():
        methods = {CORE: NAMES["both"], ALONE: NAMES[part], OURS: ours, KDE: "kde-scott"}
        for size in rows.numbers("n"):
            found = rows.where(n=size).columns(methods, error)
            what = f"{TITLES[part]}, n={size}"
            lines.append(Line(what, found))
            if not math.isnan(found[ALONE]):
                cases[what] = (found[CORE], found[ALONE])
    text = "a shared backbone improves accuracy (two heads against a network for each, same steps)"
    return Summary(
        "errors of a small training (the paper's core: with two heads on one backbone)",
        lines,
        [judge("paper", text, measured(cases))],
        rivals=(KDE,),
    )


def figure(rows: Rows, context: Context) -> Figure:
    picture, axes = panels(len(PARTS))
    for panel, (part, error) in zip(axes, PARTS.items(), strict=True):
        names = {NAMES["both"]: "two heads", NAMES[part]: f"{part} alone"}
        for method in rows.entries("method"):
            if method in names or method not in NAMES.values():
                dashes = "--" if method == NAMES[part] else "-"
                points = rows.where(method=method).by("n", error)
                style = CORE if method in names else method
                curve(panel, points, style, names.get(method), linestyle=dashes)
        panel.set(title=TITLES[part], xlabel="n")
    return finish(picture, axes, log="xy", base=2)

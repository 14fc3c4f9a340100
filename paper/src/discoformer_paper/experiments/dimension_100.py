"""Table 5: score and log density in a hundred dimensions.

Two components with diagonal covariances, n = 2048, answers at 256 fresh points.  The paper does not say
whether [0.2, 1] are standard deviations or variances, so both are measured; with variances, Scott's KDE has
about the error that the paper reports for it.  Score errors are mean squares per coordinate, as in the paper.
The oracles have the bandwidth that is best in hindsight, as a multiple of Scott's: one for the score,
another for the log density.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Literal

from discoformer.baselines import kde
from discoformer.baselines.best_bandwidth import oracle_bandwidth
from discoformer_paper.harness.adapters import KnownAnswers
from discoformer_paper.harness.contestants import core_name, rival
from discoformer_paper.harness.figures import Figure, finish, panels, style_of, title_of
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.labels import CORE, GMM, IN_FAMILY, KDE, OURS, PUBLISHED, PUBLISHED_KDE
from discoformer_paper.harness.problems import Problem, gmm_problem, measure_errors, score_jobs, seed_of
from discoformer_paper.harness.summary import Line, Summary, judge, least

__all__ = ["BARS", "DIM", "SIZE", "problem"]

DIM, SIZE, QUERIES = 100, 2048, 256
ORACLE = "kde-oracle"  # the best bandwidth for the score
DENSITY_ORACLE = "kde-oracle-density"  # and for the log density
BEST_KDE = "KDE, oracle h"
PUBLISHED_ERRORS = {  # the paper's model, its KDE with Scott's rule, its KDE with the best bandwidth
    "score": (0.167, 1.155, 1.090),
    "log density": (20.8, 967.0, 781.0),
}
BARS = {"score": 0.05, "log density": 2.0}
Reading = Literal["std", "variance"]
READINGS: dict[Reading, str] = {"std": "standard deviations", "variance": "variances"}


def problem(
    dim: int, size: int, covariance: Literal["diagonal", "rotated"] = "diagonal", reading: Reading = "std"
) -> Problem:
    """Two components, answers at fresh points."""
    return gmm_problem(covariance, dim, size, modes=(2,), reading=reading, fresh=QUERIES)


def _oracle_errors(of: Problem, index: int, method: str) -> dict[str, float]:
    case = of.draw(index)
    by: Literal["score", "log_density"] = "score" if method == ORACLE else "log_density"
    bandwidth = oracle_bandwidth(case.context, KnownAnswers(case.truth), case.queries, by=by)
    return measure_errors(kde.KDE(bandwidth), case, method)


def run(context: Context) -> Iterator[Job]:
    dim, size = (5, 128) if context.quick else (DIM, SIZE)
    contestants = [*context.networks.for_dim(dim), *map(rival, ("kde-scott", "gmm-full", "gmm-diag"))]
    for reading in READINGS:
        of = problem(dim, size, reading=reading)
        for index in range(context.seeds):
            yield from score_jobs(of, contestants, [index])
            for method in (ORACLE, DENSITY_ORACLE):
                key = (of.name, dim, size, seed_of(index), method)
                yield Job.single(key, partial(_oracle_errors, of, index, method))


def reading_of(name: str) -> str:
    """How the range was read in the problem of this name."""
    return READINGS["variance" if "variance" in name else "std"]


def errors(rows: Rows, what: str, method: str) -> float:
    """Mean squared error of the score per coordinate, or of the log density; each has its own oracle."""
    if method == ORACLE and what == "log density":
        method = DENSITY_ORACLE
    found = rows.where(method=method)
    if what == "log density" or not len(found):
        return found.mean("log_density_mse")
    return found.mean("score_mse") / float(found.numbers("d")[0])


def summary(rows: Rows, ours: str) -> Summary:
    lines, core, far, mine = [], {}, {}, {}
    methods = {CORE: core_name(DIM), OURS: ours, KDE: "kde-scott", BEST_KDE: ORACLE}
    for name in rows.entries("setting"):
        at = rows.where(setting=name)
        for what, (model, scott, oracle) in PUBLISHED_ERRORS.items():
            found = {column: errors(at, what, method) for column, method in methods.items()}
            found[GMM] = least(*(errors(at, what, method) for method in ("gmm-full", "gmm-diag")))
            published = {PUBLISHED: model, PUBLISHED_KDE: scott, f"published {BEST_KDE}": oracle}
            label = f"{what}, {reading_of(name)} in [0.2, 1]"
            lines.append(Line(label, published | found))
            bound = found[BEST_KDE] * model / oracle
            if not math.isnan(found[CORE]):
                core[label] = (found[CORE], bound)
            far[label] = (found[OURS], bound)
            mine[label] = (found[OURS], BARS[what])
    less = {what: f"{oracle / model:.3g} times" for what, (model, _, oracle) in PUBLISHED_ERRORS.items()}
    text = " and ".join(f"{factor} ({what})" for what, factor in less.items())
    text += " less error than KDE with the best bandwidth"
    paper = judge("paper", text, core)
    if not core:
        paper = paper._replace(evidence=f"there is no core for {DIM} dimensions; see the next line")
    bars = judge("ours", "score error below 0.05 and log-density error below 2", mine)
    return Summary(
        "mean squared error (score: per coordinate)",
        lines,
        [paper, judge("ours", text, far), bars],
        rivals=(KDE, BEST_KDE, GMM),
        reasons=IN_FAMILY,
    )


def figure(rows: Rows, context: Context) -> Figure:
    names = rows.entries("setting")
    published = {
        CORE: "the paper, published",
        "kde": "the paper's KDE, Scott, published",
        ORACLE: "the paper's KDE, oracle, published",
    }
    picture, axes = panels(len(PUBLISHED_ERRORS))
    for panel, what in zip(axes, PUBLISHED_ERRORS, strict=True):
        methods = [method for method in rows.entries("method") if method != DENSITY_ORACLE]
        for index, method in enumerate(methods):
            values = [errors(rows.where(setting=name), what, method) for name in names]
            places = [x + 0.07 * (index - (len(methods) - 1) / 2) for x in range(len(names))]  # side by side
            panel.plot(places, values, label=title_of(method), **style_of(method) | {"linestyle": "none"})
        for value, (method, label) in zip(PUBLISHED_ERRORS[what], published.items(), strict=True):
            panel.axhline(value, label=label, **style_of(method) | {"marker": None, "linewidth": 1.0})
        panel.set_xticks(range(len(names)), [reading_of(name).replace("standard", "std.") for name in names])
        panel.set(title=what, xlabel="reading of [0.2, 1]", ylabel="mean squared error")
        panel.set_xlim(-0.6, len(names) - 0.4)
    return finish(picture, axes, log="y")

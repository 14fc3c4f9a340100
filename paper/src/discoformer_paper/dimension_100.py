"""Table 5: score and log density in a hundred dimensions.

Two components with diagonal covariances, n = 2048, answers at 256 fresh points.  The paper does not say
whether [0.2, 1] are standard deviations or variances: both are measured; with variances, Scott's KDE has
about the error that the paper reports for it.  Score errors are mean squares per coordinate, as there.
The oracles have the bandwidth that is best in hindsight, as a multiple of Scott's: one for the score,
another for the log density.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from torch import Tensor

from discoformer.baselines import kde
from discoformer.baselines.oracle import oracle_bandwidth
from discoformer.core.fields import Estimate, Field
from discoformer_paper.contestants import CORE_NAME, rival
from discoformer_paper.harness import Context, Experiment, Job
from discoformer_paper.ledger import Rows
from discoformer_paper.pictures import finish, panels, style_of, title_of
from discoformer_paper.settings import (
    ERRORS,
    KEYS,
    Setting,
    gmm_setting,
    measure_errors,
    score_jobs,
    seed_of,
)
from discoformer_paper.summary import (
    CORE,
    GMM,
    KDE,
    OURS,
    PUBLISHED,
    PUBLISHED_KDE,
    Line,
    Summary,
    every,
    least,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DIM", "EXPERIMENT", "SIZE", "setting"]

DIM, SIZE, QUERIES = 100, 2048, 256
ORACLE = "kde-oracle"  # the best bandwidth for the score
DENSITY_ORACLE = "kde-oracle-density"  # and for the log density
PUBLISHED_ERRORS = {  # the paper's model, its KDE with Scott's rule, its KDE with the best bandwidth
    "score": (0.167, 1.155, 1.090),
    "log density": (20.8, 967.0, 781.0),
}
Reading = Literal["std", "variance"]


def setting(
    dim: int, size: int, covariance: Literal["diagonal", "rotated"] = "diagonal", reading: Reading = "std"
) -> Setting:
    """Two components, answers at fresh points."""
    return gmm_setting(covariance, dim, size, modes=(2,), reading=reading, fresh=QUERIES)


@dataclass(frozen=True)
class _Told(Field):
    """The exact answers at the queries of a case, and nowhere else."""

    truth: Estimate[Tensor]

    @property
    def dim(self) -> int:
        return self.truth.score.shape[-1]

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        return self.truth


def _oracle_errors(of: Setting, index: int, method: str) -> dict[str, float]:
    case = of.draw(index)
    by: Literal["score", "log_density"] = "score" if method == ORACLE else "log_density"
    bandwidth = oracle_bandwidth(case.context, _Told(case.truth), case.queries, by=by)
    return measure_errors(kde.KDE(bandwidth), case, method)


def run(context: Context) -> Iterator[Job]:
    dim, size = (5, 128) if context.quick else (DIM, SIZE)
    readings: tuple[Reading, ...] = ("std", "variance")
    contestants = [*context.networks.for_dim(dim), *map(rival, ("kde-scott", "gmm-full", "gmm-diag"))]
    for reading in readings:
        of = setting(dim, size, reading=reading)
        for index in range(context.seeds):
            yield from score_jobs(of, contestants, [index])
            for method in (ORACLE, DENSITY_ORACLE):
                key = (of.name, dim, size, seed_of(index), method)
                yield Job.single(key, partial(_oracle_errors, of, index, method))


def errors(rows: Rows, what: str, method: str) -> float:
    """Mean squared error of the score per coordinate, or of the log density; each has its own oracle."""
    if method == ORACLE and what == "log density":
        method = DENSITY_ORACLE
    found = rows.where(method=method)
    if what == "log density" or not len(found):
        return found.mean("log_density_mse")
    return found.mean("score_mse") / float(found.numbers("d")[0])


def summary(rows: Rows, ours: str) -> Summary:
    lines = []
    core: dict[str, tuple[float, float]] = {}
    far: dict[str, tuple[float, float]] = {}
    mine: dict[str, tuple[float, float]] = {}
    bars = {"score": 0.05, "log density": 2.0}
    for name in rows.entries("setting"):
        at = rows.where(setting=name)
        reading = "variances" if "variance" in name else "standard deviations"
        for what, (model, scott, oracle) in PUBLISHED_ERRORS.items():
            columns = {CORE: f"{CORE_NAME}{DIM}", OURS: ours, KDE: "kde-scott", "KDE, oracle h": ORACLE}
            found = {column: errors(at, what, method) for column, method in columns.items()}
            found[GMM] = least(*(errors(at, what, method) for method in ("gmm-full", "gmm-diag")))
            published = {PUBLISHED: model, PUBLISHED_KDE: scott, "published KDE, oracle h": oracle}
            label = f"{what}, {reading} in [0.2, 1]"
            lines.append(Line(label, published | found))
            bound = found["KDE, oracle h"] * model / oracle
            if not math.isnan(found[CORE]):
                core[label] = (found[CORE], bound)
            far[label] = (found[OURS], bound)
            mine[label] = (found[OURS], bars[what])
    less = {what: f"{oracle / model:.3g} times" for what, (model, _, oracle) in PUBLISHED_ERRORS.items()}
    text = " and ".join(f"{factor} ({what})" for what, factor in less.items())
    text += " less error than KDE with the best bandwidth"
    paper = every("paper", text, core)
    if not core:
        paper = paper._replace(evidence=f"there is no core for {DIM} dimensions; see the next line")
    claims = [
        paper,
        every("ours", text, far),
        every("ours", "score error below 0.05 and log-density error below 2", mine),
    ]
    return Summary(
        "mean squared error (score: per coordinate)",
        lines,
        claims,
        rivals=(KDE, "KDE, oracle h", GMM),
        reasons={GMM: "whose family holds the truth"},
    )


def figure(rows: Rows, context: Context) -> Figure:
    names = rows.entries("setting")
    picture, axes = panels(len(PUBLISHED_ERRORS))
    for panel, what in zip(axes, PUBLISHED_ERRORS, strict=True):
        methods = [method for method in rows.entries("method") if method != DENSITY_ORACLE]
        for index, method in enumerate(methods):
            values = [errors(rows.where(setting=name), what, method) for name in names]
            places = [x + 0.07 * (index - (len(methods) - 1) / 2) for x in range(len(names))]  # side by side
            panel.plot(places, values, label=title_of(method), **style_of(method) | {"linestyle": "none"})
        for value, method, label in zip(
            PUBLISHED_ERRORS[what],
            (CORE_NAME, "kde", ORACLE),
            ("the paper", "the paper's KDE, Scott", "the paper's KDE, oracle"),
            strict=True,
        ):
            style = style_of(method) | {"marker": None, "linewidth": 1.0}
            panel.axhline(value, label=f"{label}, published", **style)
        panel.set_xticks(
            range(len(names)), ["variances" if "variance" in name else "std. deviations" for name in names]
        )
        panel.set(
            title=what,
            xlabel="reading of [0.2, 1]",
            ylabel="mean squared error",
            xlim=(-0.6, len(names) - 0.4),
        )
    return finish(picture, axes, log="y")


EXPERIMENT = Experiment(
    name="dimension_100",
    title="A hundred dimensions",
    source="Table 5",
    shows="Score and log density where kernels see nothing: 2048 points in 100 dimensions.",
    keys=KEYS,
    values=ERRORS,
    seeds=10,
    run=run,
    summary=summary,
    figure=figure,
)

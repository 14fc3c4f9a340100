"""Figure 4, left: score error against n on mixtures of three modes, in 1 and 10 dimensions.

Diagonal Gaussian mixtures, standard deviations in [0.2, 1], at the sample points.  The error is the mean
of |s_hat - s|^2 over points and data sets, divided by d.  The paper prints no numbers for this figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from discoformer_paper.contestants import rival
from discoformer_paper.harness import Context, Experiment, Job
from discoformer_paper.ledger import Rows
from discoformer_paper.pictures import curve, finish, panels
from discoformer_paper.settings import ERRORS, KEYS, gmm_setting, score_jobs
from discoformer_paper.summary import CORE, GMM, KDE, OURS, Line, Summary, columns, every, slope

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

DIMS = (1, 10)
SIZES = tuple(2**k for k in range(7, 14))


def run(context: Context) -> Iterator[Job]:
    for dim in DIMS:
        for size in SIZES[:2] if context.quick else SIZES:
            contestants = context.networks.for_dim(dim, size)
            contestants += [rival("kde-scott"), rival("gmm-diag")]
            yield from score_jobs(
                gmm_setting("diagonal", dim, size, modes=(3,)), contestants, range(context.seeds)
            )


def summary(rows: Rows, ours: str) -> Summary:
    lines = []
    below: dict[str, tuple[float, float]] = {}
    mine: dict[str, tuple[float, float]] = {}
    shares: dict[int, dict[int | float, float]] = {dim: {} for dim in DIMS}  # of KDE's error, by n
    slopes: dict[str, tuple[float, float]] = {}
    for dim in DIMS:
        usual = columns(dim, ours)
        errors: dict[int | float, tuple[float, float]] = {}  # of the core and of KDE, by n
        for size in rows.where(d=dim).numbers("n"):
            at = rows.where(d=dim, n=size)
            found = {c: at.where(method=method).mean("score_mse") / dim for c, method in usual.items()}
            what = f"d={dim}, n={size}"
            lines.append(Line(what, found))
            if not math.isnan(found[CORE]):
                below[what] = (found[CORE], found[KDE])
                errors[size], shares[dim][size] = below[what], found[CORE] / found[KDE]
            mine[what] = (found[OURS], found[KDE])
        if len(errors) > 1:
            curves = ({n: pair[who] for n, pair in errors.items()} for who in (0, 1))
            core, kde = map(slope, curves)
            slopes[f"d={dim}"] = (core, kde)
    low, high = DIMS
    especially = {f"n={n}": (shares[high][n], shares[low][n]) for n in shares[high] if n in shares[low]}
    claims = [
        every("paper", "the Transformer beats KDE in 1 and in 10 dimensions, at every n", below),
        every("paper", "excellent scaling in n: the error falls faster than KDE's (slopes, log-log)", slopes),
        every("paper", "more accurate especially in 10 dimensions (error over that of KDE)", especially),
        every("ours", "below KDE in 1 and in 10 dimensions, at every n", mine),
    ]
    return Summary(
        "mean squared error of the score, per coordinate",
        lines,
        claims,
        reasons={GMM: "whose family holds the truth"},
    )


def figure(rows: Rows, context: Context) -> Figure:
    picture, axes = panels(len(DIMS))
    for panel, dim in zip(axes, DIMS, strict=True):
        for method in rows.where(d=dim).entries("method"):
            at = rows.where(d=dim, method=method)
            points = {float(n): at.where(n=n).mean("score_mse") / dim for n in at.numbers("n")}
            curve(panel, points, method)
        panel.set(title=f"three modes, d = {dim}", xlabel="n", ylabel="squared score error per coordinate")
    return finish(picture, axes, log="xy", base=2)


EXPERIMENT = Experiment(
    name="score_vs_n",
    title="Score error against the size of the sample",
    source="Figure 4, left",
    shows="How the score error falls with n in 1 and 10 dimensions.",
    keys=KEYS,
    values=ERRORS,
    seeds=10,
    run=run,
    summary=summary,
    figure=figure,
)

"""Figure 4, right: score error against the number of modes, 1 to 19; training has seen at most 10.

Diagonal Gaussian mixtures in the plane, n = 2048, standard deviations in [0.2, 1], at the sample points.
The paper prints no numbers for this figure, and does not name its dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from discoformer.experiments.contestants import rival
from discoformer.experiments.harness import Context, Experiment, Job
from discoformer.experiments.ledger import Rows
from discoformer.experiments.pictures import curve, finish, panels
from discoformer.experiments.settings import ERRORS, KEYS, gmm_setting, relative_error, score_jobs
from discoformer.experiments.summary import CORE, GMM, KDE, OURS, Claim, Line, Summary, Whose, columns, every

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

DIM, SIZE = 2, 2048
MODES = tuple(range(1, 20))
SEEN = 10  # the largest number of modes in training


def run(context: Context) -> Iterator[Job]:
    size = 64 if context.quick else SIZE
    contestants = [*context.networks.for_dim(DIM, size), rival("kde-scott"), rival("gmm-diag")]
    for modes in (1, 19) if context.quick else MODES:
        yield from score_jobs(
            gmm_setting("diagonal", DIM, size, modes=(modes,)), contestants, range(context.seeds)
        )


def by_modes(rows: Rows, method: str) -> dict[float, float]:
    """Relative score error in percent by number of modes."""
    found = rows.where(method=method)
    settings = sorted((int(name.partition("k=")[2]), name) for name in found.entries("setting"))
    return {float(modes): 100 * relative_error(found, setting=name) for modes, name in settings}


def summary(rows: Rows, ours: str) -> Summary:
    curves = {column: by_modes(rows, method) for column, method in columns(DIM, ours).items()}
    modes = sorted({k for points in curves.values() for k in points})
    lines = [
        Line(f"{k:g} modes", {column: points.get(k, np.nan) for column, points in curves.items()})
        for k in modes
    ]
    below = {f"{k:g} modes": (curves[OURS][k], curves[KDE][k]) for k in curves[OURS]}
    claims = [
        _stable("paper", "the paper's core", curves[CORE]),
        _stable("ours", ours, curves[OURS]),
        every("ours", "below KDE for every number of modes", below),
    ]
    return Summary(
        "relative mean squared error of the score, %",
        lines,
        claims,
        reasons={GMM: "whose family holds the truth"},
    )


def _stable(whose: Whose, name: str, points: Mapping[float, float]) -> Claim:
    """No jump past the modes of training: the curve continues as the straight line up to ten modes does."""
    text = f"{name}: the error is stable in the number of modes, beyond those of the training too"
    inside = {k: error for k, error in points.items() if k <= SEEN}
    outside = {k: error for k, error in points.items() if k > SEEN}
    if len(inside) < 2 or not outside:
        return Claim(whose, text, None, "not measured")
    slope, start = np.polyfit(list(inside), list(inside.values()), 1)
    ratio = sum(outside.values()) / sum(start + slope * k for k in outside)
    evidence = f"from 11 modes on {ratio:.2f} times the straight line through 1 to 10 modes"
    return Claim(whose, text, bool(ratio < 1.25), evidence)


def figure(rows: Rows, context: Context) -> Figure:
    picture, (axes,) = panels(1, width=7)
    for method in rows.entries("method"):
        curve(axes, by_modes(rows, method), method)
    axes.axvspan(SEEN + 0.5, MODES[-1] + 0.5, color="#eef1f3", zorder=0)
    axes.text(SEEN + 0.8, 0.98, "more modes than in training", transform=axes.get_xaxis_transform(), va="top")
    axes.set(xlabel="modes", ylabel="relative score error, %", xlim=(0.5, MODES[-1] + 0.5), ylim=(0, None))
    axes.set_xticks(MODES[::2])
    return finish(picture, [axes])


EXPERIMENT = Experiment(
    name="score_vs_modes",
    title="Score error against the number of modes",
    source="Figure 4, right",
    shows="Whether the error stays in bounds for mixtures of more modes than any in training.",
    keys=KEYS,
    values=ERRORS,
    seeds=10,
    run=run,
    summary=summary,
    figure=figure,
)

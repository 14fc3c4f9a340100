"""Figure 14: score matching, which trains a network for every data set, against one that is trained once.

A mixture of two Gaussians in the plane, n = 1000.  Score matching trains for 10, 100 and 1000 steps
(4 hidden layers of 128, SiLU, AdamW 1e-3, clipped gradient, a = 0.05, in the coordinates of the data); the
kernel estimators and our network need no training.  Relative squared error of the score in percent at the
sample and at new points, and seconds to fit and to answer at the sample.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch

from discoformer.baselines import kde
from discoformer.baselines.score_matching import ScoreMatching
from discoformer.baselines.stein import NuMethod, SpectralStein, SteinGradient
from discoformer.experiments.contestants import CORE_NAME, rival
from discoformer.experiments.entropy_fisher import FUNCTIONAL_SEED
from discoformer.experiments.harness import Context, Experiment, Job
from discoformer.experiments.ledger import Rows
from discoformer.experiments.pictures import curve, finish, panels
from discoformer.experiments.summary import CORE, GMM, KDE, OURS, Line, Summary, every, measured
from discoformer.fields import Method
from discoformer.priors import LocationScaleMixture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

STEPS = (10, 100, 1000)
LOSSES = ("implicit", "sliced")
VALUES = ("sample_error", "new_error", "seconds")


def two_modes() -> LocationScaleMixture:
    """The truth."""
    return LocationScaleMixture(
        weights=torch.tensor([0.5, 0.5], dtype=torch.float64),
        means=torch.tensor([[-1.5, 0.0], [1.5, 0.5]], dtype=torch.float64),
        std=torch.tensor([[0.6, 1.0], [0.9, 0.5]], dtype=torch.float64),
    )


def methods(context: Context, steps: Sequence[int]) -> dict[str, Method]:
    """Who takes part."""
    found: dict[str, Method] = {c.identity: c.method for c in context.networks.for_dim(2)}
    for count in steps:
        found[f"implicit-{count}"] = ScoreMatching(count, "implicit", frame="identity")
        found[f"sliced-{count}"] = ScoreMatching(count, "sliced", frame="identity")
    found |= {"kde": kde.KDE(), "gmm-full": rival("gmm-full").method}
    return found | {"stein": SteinGradient(), "ssge": SpectralStein(), "nu-method": NuMethod()}


def measure(method: Method, size: int, seed: int) -> dict[str, float]:
    """Errors and time on one sample."""
    truth, generator = two_modes(), torch.Generator().manual_seed(seed)
    sample, new = truth.sample(size, generator), truth.sample(4096, generator)
    start = time.perf_counter()
    with torch.no_grad():  # those who train turn it on themselves
        field = method.fit(sample)
        field.score(sample)
    seconds = time.perf_counter() - start
    errors = []
    for points in (sample, new):
        exact = truth.score(points)
        with torch.no_grad():
            gap = field.score(points) - exact
        errors.append(float(gap.square().sum() / exact.square().sum()))
    return dict(zip(VALUES, (*errors, seconds), strict=True))


def run(context: Context) -> Iterator[Job]:
    size, steps = (100, (5, 10)) if context.quick else (1000, STEPS)
    for name, method in methods(context, steps).items():
        for seed in range(FUNCTIONAL_SEED, FUNCTIONAL_SEED + context.seeds):
            yield Job.single((size, seed, name), partial(measure, method, size, seed))


def median_seconds(rows: Rows, method: str) -> float:
    """Median, because the first call pays for what torch does once; NaN without rows."""
    found = rows.where(method=method).values("seconds")
    return float(np.median(found)) if len(found) else math.nan


def summary(rows: Rows, ours: str) -> Summary:
    names = rows.entries("method")
    matched = [name for name in names if name.startswith(LOSSES)]
    columns = {CORE: f"{CORE_NAME}2", OURS: ours, KDE: "kde", GMM: "gmm-full"}
    columns |= {name: name for name in (*matched, "stein", "ssge", "nu-method")}
    lines = []
    for value, what in (("sample_error", "at the sample"), ("new_error", "at new points")):
        lines.append(Line(what, {c: 100 * rows.where(method=m).mean(value) for c, m in columns.items()}))
    at_new = lines[1].found
    lines.append(Line("seconds per data set", {c: median_seconds(rows, m) for c, m in columns.items()}))
    core, our = ({name: (at_new[c], at_new[name]) for name in matched} for c in (CORE, OURS))
    return Summary(
        "relative mean squared error of the score, %; then seconds to fit and to answer, median",
        lines,
        [
            every("paper", "superior to score matching with any number of steps", measured(core)),
            every("ours", "below score matching with any number of steps, at new points", our),
        ],
        rivals=(KDE, GMM, *matched, "stein", "ssge", "nu-method"),
        reasons={GMM: "whose family holds the truth"},
    )


def figure(rows: Rows, context: Context) -> Figure:
    picture, (axes,) = panels(1, width=7.5)
    places = {}
    for method in rows.entries("method"):
        error = 100 * rows.where(method=method).mean("new_error")
        places[method] = (median_seconds(rows, method), error)
    for loss, side in zip(LOSSES, ("left", "right"), strict=True):  # numbers apart: on either side
        trained = {name: place for name, place in places.items() if name.startswith(loss)}
        curve(axes, dict(trained.values()), loss, f"{loss} score matching", markersize=8)
        for name, place in trained.items():
            label, shift = name.partition("-")[2], (7, 5) if side == "left" else (-7, 5)
            axes.annotate(label, place, shift, textcoords="offset points", fontsize=8, ha=side)
    for method, place in places.items():
        if not method.startswith(LOSSES):
            curve(axes, dict([place]), method, linestyle="none", markersize=8)
    axes.set(
        title="two modes, d = 2; numbers are steps of training",
        xlabel="seconds to fit and to answer at the sample",
        ylabel="score error at new points, %",
    )
    return finish(picture, [axes], log="xy")


EXPERIMENT = Experiment(
    name="score_matching",
    title="Score matching, one network per data set",
    source="Figure 14",
    shows="Error and time of score matching with 10, 100 and 1000 steps against networks trained once.",
    keys=("n", "seed", "method"),
    values=VALUES,
    seeds=20,
    run=run,
    summary=summary,
    figure=figure,
    alone=True,
)

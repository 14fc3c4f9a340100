"""Figure 14: score matching, which trains a network for every data set, against one that is trained once.

A mixture of two Gaussians in the plane, n = 1000.  Score matching trains for 10, 100 and 1000 steps
(4 hidden layers of 128, SiLU, AdamW 1e-3, clipped gradient, a = 0.05, in the coordinates of the data); the
kernel estimators and our network need no training.  Relative squared error of the score in percent at the
sample and at new points, and seconds to fit and to answer at the sample.  Like the paper's, the picture has
the scores of sliced score matching and of the networks as arrows, for the first sample.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from discoformer.baselines import kde
from discoformer.baselines.score_matching import ScoreMatching
from discoformer.baselines.stein import NuMethod, SpectralStein, SteinGradient
from discoformer.core.fields import Field, Method
from discoformer.priors import LocationScaleMixture
from discoformer_paper.harness.contestants import core_name, rival
from discoformer_paper.harness.figures import Figure, arrows, curve, finish, title_of
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.labels import CORE, GMM, IN_FAMILY, KDE, OURS
from discoformer_paper.harness.problems import fixed_mixture, functional_seeds
from discoformer_paper.harness.summary import Line, Summary, judge, measured

KEYS = ("n", "seed", "method")
STEPS = (10, 100, 1000)
LOSSES = ("implicit", "sliced")
VALUES = ("sample_error", "new_error", "seconds")
SHOWN = 150  # arrows in a panel
NUMBERS = {  # where the steps are written: beside the points and off the curves, which fall and rise
    "implicit": (((6, 4), "left"), ((5, -12), "left"), ((0, 7), "center")),
    "sliced": (((-6, 4), "right"), ((-5, -12), "right"), ((7, -9), "left")),
}
TITLES = {"stein": "Stein gradient", "nu-method": "nu method"}


def two_modes() -> LocationScaleMixture:
    """The truth."""
    return fixed_mixture([0.5, 0.5], [[-1.5, 0.0], [1.5, 0.5]], [[0.6, 1.0], [0.9, 0.5]])


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
    with torch.no_grad():  # methods that train turn gradients on themselves
        field = method.fit(sample)
        field.score(sample)
    seconds = time.perf_counter() - start
    errors = [relative_error(field, points) for points in (sample, new)]
    return dict(zip(VALUES, (*errors, seconds), strict=True))


def relative_error(field: Field, points: Tensor) -> float:
    """Squared error of the score, over the squared score."""
    exact = two_modes().score(points)
    with torch.no_grad():
        return float((field.score(points) - exact).square().sum() / exact.square().sum())


def sizes_of(context: Context) -> tuple[int, tuple[int, ...]]:
    """How many points, and after how many steps."""
    return (100, (3, 5, 10)) if context.quick else (1000, STEPS)


def run(context: Context) -> Iterator[Job]:
    size, steps = sizes_of(context)
    for name, method in methods(context, steps).items():
        for seed in functional_seeds(context.seeds):
            yield Job.single((size, seed, name), partial(measure, method, size, seed))


def median_seconds(rows: Rows, method: str) -> float:
    """Median, because the first call includes one-time work of torch; NaN without rows."""
    found = rows.where(method=method).values("seconds")
    return float(np.median(found)) if len(found) else math.nan


def summary(rows: Rows, ours: str) -> Summary:
    matched = [name for name in rows.entries("method") if name.startswith(LOSSES)]
    others = ("stein", "ssge", "nu-method")
    methods = {CORE: core_name(2), OURS: ours, KDE: "kde", GMM: "gmm-full"}
    methods |= {name: name for name in (*matched, *others)}
    at_sample, at_new = (rows.columns(methods, value, 100) for value in VALUES[:2])
    seconds = {column: median_seconds(rows, method) for column, method in methods.items()}
    lines = [Line("at the sample", at_sample), Line("at new points", at_new)]
    lines.append(Line("seconds per data set", seconds))
    core, our = ({name: (at_new[c], at_new[name]) for name in matched} for c in (CORE, OURS))
    misfits: dict[str, tuple[float, float]] = {}
    for loss in LOSSES:
        trained = [name for name in matched if name.startswith(loss)]
        if len(trained) > 2:
            few, *_, some, many = trained
            misfits[f"{few} under, against {some}"] = (at_new[some], at_new[few])
            misfits[f"{many} over, against {some}"] = (at_new[some], at_new[many])
            misfits[f"{many} over, against its sample"] = (at_sample[many], at_new[many])
    misfit = "score matching is easy to under- or over-fit (error at new points)"
    return Summary(
        "relative mean squared error of the score, %; then seconds to fit and to answer, median",
        lines,
        [
            judge("paper", "superior to score matching with any number of steps", measured(core)),
            judge("paper", misfit, misfits),
            judge("ours", "below score matching with any number of steps, at new points", our),
        ],
        rivals=(KDE, GMM, *matched, *others),
        reasons=IN_FAMILY,
    )


def figure(rows: Rows, context: Context) -> Figure:
    size, steps = sizes_of(context)
    sample = two_modes().sample(size, torch.Generator().manual_seed(functional_seeds(1)[0]))
    fields: dict[str, Field] = {"exact": two_modes()}
    fields |= {f"{n} steps": ScoreMatching(n, "sliced", frame="identity").fit(sample) for n in steps}
    for contestant in reversed(context.networks.for_dim(2)):
        fields[title_of(contestant.label)] = contestant.method.fit(sample)
    count = -(-len(fields) // 2)  # panels in each of two lines
    picture = Figure(figsize=(2.9 * count + 6.3, 6.6), layout="constrained")
    grid = picture.add_gridspec(2, count + 2)
    scatter = picture.add_subplot(grid[:, count:])
    maps = [picture.add_subplot(grid[index // count, index % count]) for index in range(len(fields))]
    for panel, (name, field) in zip(maps, fields.items(), strict=True):
        with torch.no_grad():  # the paper plots the negated score, which points outwards
            arrows(panel, sample[:SHOWN], -field.score(sample[:SHOWN]), unit=6.0, color="#0072B2")
        error = "" if name == "exact" else f", error {100 * relative_error(field, sample):.3g}%"
        panel.set_title(name + error, fontsize=10)
        panel.set(xlim=(-4.2, 4.8), ylim=(-3.4, 4.2), xticks=(-3, 0, 3), yticks=(-3, 0, 3))
        panel.label_outer()
    places = {
        method: (median_seconds(rows, method), 100 * rows.where(method=method).mean("new_error"))
        for method in rows.entries("method")
    }
    for loss in LOSSES:
        trained = {name: place for name, place in places.items() if name.startswith(loss)}
        curve(scatter, dict(trained.values()), loss, f"{loss} score matching", markersize=8)
        for (name, place), (shift, side) in zip(trained.items(), NUMBERS[loss], strict=True):
            label = name.partition("-")[2]
            scatter.annotate(label, place, shift, textcoords="offset points", fontsize=8, ha=side)
    for method, place in places.items():
        if not method.startswith(LOSSES):
            curve(scatter, dict([place]), method, TITLES.get(method), linestyle="none", markersize=8)
    scatter.margins(0.1)
    scatter.set(
        title="error and time; numbers are steps of training",
        xlabel="seconds to fit and to answer at the sample",
        ylabel="score error at new points, %",
    )
    finish(picture, [scatter], log="xy")
    where = f"at {min(SHOWN, size)} of {size} sample points; errors are those at all of them"
    picture.suptitle(
        f"negated score, a sixth of its length, {where}; steps: sliced score matching", fontsize=11
    )
    return picture

"""The BKW solution of Maxwell molecules: relative L2 error of the score against the number of particles.

Particles start from the exact solution (d = 2 at t = 8.4, d = 3 at t = 5.5) and run for 50 steps of 0.1,
forward Euler, with each oracle.  At the start, the middle and the end the oracle's score at the particles
is compared with the exact score there, sqrt(sum |s_hat - s|^2 / sum |s|^2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import torch

from discoformer.experiments.contestants import CORE_NAME
from discoformer.experiments.harness import Context, Experiment, Job
from discoformer.experiments.ledger import Rows
from discoformer.experiments.oracles import SEED, Source, sources
from discoformer.experiments.pictures import curve, finish, panels
from discoformer.experiments.summary import CORE, KDE, OURS, Line, Summary, every
from discoformer.particles import BKW, Landau, integrate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

STARTS = {2: 8.4, 3: 5.5}
SIZES = (500, 1000, 2000, 4000, 8000)
RIVALS = ("kde", "blob", "gaussian")
TIMES = ("start", "middle", "end")
DT, STEPS = 0.1, 50


def errors(source: Source, dim: int, size: int, seed: int, steps: int) -> dict[str, float]:
    """Relative L2 error of the score at three times, and the relative error of E|v|^4 at the end."""
    begin = STARTS[dim]
    points = BKW(begin, dim).sample(size, torch.Generator().manual_seed(seed))
    times = [begin, begin + DT * (steps // 2), begin + DT * steps]
    oracle = source.make(BKW(begin, dim))
    history = integrate(Landau(), points, oracle, dt=DT, steps=steps, time=begin, frames=times)
    line = {}
    with torch.no_grad():
        for name, time, frame in zip(TIMES, history.frame_times.tolist(), history.frames, strict=True):
            exact = BKW(time, dim).score(frame)
            guess = oracle.estimate(frame, time).score
            line[name] = float((guess - exact).norm() / exact.norm())
    k = 1 - math.exp(-2 * (dim - 1) * Landau().strength * times[-1])
    exact_fourth = dim * (dim + 2) * k * (2 - k)
    fourth = float(history.points.square().sum(-1).square().mean())
    return {**line, "fourth_moment": abs(fourth / exact_fourth - 1)}


def run(context: Context) -> Iterator[Job]:
    steps = 3 if context.quick else STEPS
    for dim in STARTS:
        for size in (60, 120) if context.quick else SIZES:
            # 51 scores of a quadratic network: the core takes part up to half of its largest n
            for source in sources(context.networks.for_dim(dim, 2 * size), RIVALS):
                for seed in range(SEED, SEED + context.seeds):
                    key = (dim, size, source.identity, seed)
                    yield Job.single(key, partial(errors, source, dim, size, seed, steps))


def score_error(rows: Rows, method: str) -> float:
    """Mean over samples and the three times, in percent."""
    return 100 * sum(rows.where(method=method).mean(time) for time in TIMES) / len(TIMES)


def summary(rows: Rows, ours: str) -> Summary:
    lines = []
    below = {}
    for dim in STARTS:
        for size in rows.where(d=dim).numbers("n"):
            at = rows.where(d=dim, n=size)
            columns = {CORE: f"{CORE_NAME}{dim}", OURS: ours, "blob": "blob"}
            columns |= {"Gaussian closure": "gaussian", KDE: "kde"}
            found = {column: score_error(at, method) for column, method in columns.items()}
            what = f"d={dim}, n={size}"
            lines.append(Line(what, found))
            below[what] = (found[OURS], found[KDE])
    return Summary(
        "relative L2 error of the score, %",
        lines,
        [every("ours", "below KDE at every n", below)],
        rivals=("blob", "Gaussian closure", KDE),
    )


def figure(rows: Rows, context: Context) -> Figure:
    picture, axes = panels(len(STARTS))
    for panel, dim in zip(axes, STARTS, strict=True):
        for method in rows.where(d=dim).entries("method"):
            at = rows.where(d=dim, method=method)
            points = {float(n): score_error(at.where(n=n), method) for n in at.numbers("n")}
            curve(panel, points, method)
        panel.set(
            title=f"BKW solution, d = {dim}", xlabel="particles", ylabel="relative error of the score, %"
        )
    return finish(picture, axes, log="xy", ticks=rows.numbers("n"))


EXPERIMENT = Experiment(
    name="bkw",
    title="The BKW solution",
    source="ours",
    shows="Score error along an exact solution of Landau's equation, against the number of particles.",
    keys=("d", "n", "method", "seed"),
    values=(*TIMES, "fourth_moment"),
    seeds=5,
    run=run,
    summary=summary,
    figure=figure,
)

"""The BKW solution of Maxwell molecules: relative L2 error of the score against the number of particles.

Particles start from the exact solution (d = 2 at t = 8.4, d = 3 at t = 5.5) and run for 20 steps of 0.25,
forward Euler, with each oracle.  Networks are fitted every 5 steps and carried along with the particles in
between.  Ours is calibrated to the particles of every step (`discoformer.particles.Calibrated`), as in
`discoformer landau`, and also measured without.  At the start, the middle and the end the score of a
fit to the particles is compared with the exact score, sqrt(sum |s_hat - s|^2 / sum |s|^2): on the particles
as each oracle has moved them, and on independent exact samples at the same times (the blob method up to
n = 4000).  The former are no longer samples: an oracle that smooths evens the particles out, which makes
its own task easier.  The latter are the same for all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from discoformer.particles import BKW, Landau, integrate
from discoformer_paper.experiments.particle_scores import CALIBRATED, PLAIN, SEED, Source, calibrated, sources
from discoformer_paper.harness.contestants import core_name
from discoformer_paper.harness.figures import Figure, curves, finish, panels
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.labels import CORE, KDE, OURS
from discoformer_paper.harness.summary import Line, Summary, against, judge

KEYS = ("d", "n", "method", "seed")
STARTS = {2: 8.4, 3: 5.5}
SIZES = (500, 1000, 2000, 4000, 8000)
RIVALS = ("kde", "blob", "gaussian")
LARGEST_BLOB = 4000  # beyond this, its pairs take a third of the whole experiment
TIMES = ("start", "middle", "end")
EXACT = ("start", "exact_middle", "exact_end")  # the particles of the start are an exact sample
MEASURES = {"particles": TIMES, "exact samples": EXACT}
VALUES = (*TIMES, *EXACT[1:], "fourth_moment")
DT, STEPS = 0.25, 20
EVERY = 5  # steps per fit of a network


def errors(source: Source, dim: int, size: int, seed: int, steps: int) -> dict[str, float]:
    """Relative L2 errors of the score at three times, and the relative error of E|v|^4 at the end."""
    begin = STARTS[dim]
    points = BKW(begin, dim).sample(size, torch.Generator().manual_seed(seed))
    times = [begin, begin + DT * (steps // 2), begin + DT * steps]
    law = BKW(begin, dim)
    history = integrate(Landau(), points, source.make(law), dt=DT, steps=steps, time=begin, frames=times)

    def error(points: Tensor, time: float) -> float:
        exact = BKW(time, dim).score(points)
        guess = source.make(law).estimate(points, time).score
        return float((guess - exact).norm() / exact.norm())

    line = {}
    with torch.no_grad():
        for name, time, frame in zip(TIMES, history.frame_times.tolist(), history.frames, strict=True):
            line[name] = error(frame, time)
        for place, (name, time) in enumerate(zip(EXACT[1:], times[1:], strict=True), 1):
            generator = torch.Generator().manual_seed(seed + 1000 * place)
            line[name] = error(BKW(time, dim).sample(size, generator), time)
    k = 1 - math.exp(-2 * (dim - 1) * Landau().strength * times[-1])
    exact_fourth = dim * (dim + 2) * k * (2 - k)
    fourth = float(history.points.square().sum(-1).square().mean())
    return {**line, "fourth_moment": abs(fourth / exact_fourth - 1)}


def run(context: Context) -> Iterator[Job]:
    steps = 3 if context.quick else STEPS
    for dim in STARTS:
        for size in (60, 120) if context.quick else SIZES:
            rivals = [name for name in RIVALS if name != "blob" or size <= LARGEST_BLOB]
            # a quadratic network takes part up to half of its largest n
            contestants = sources(context.networks.for_dim(dim, 2 * size), rivals, every=EVERY)
            contestants.append(calibrated(context.networks.ours(), every=EVERY))
            for source in contestants:
                for seed in range(SEED, SEED + context.seeds):
                    key = (dim, size, source.identity, seed)
                    yield Job.single(key, partial(errors, source, dim, size, seed, steps))


def score_error(times: Sequence[str], rows: Rows) -> float:
    """Mean over samples and times, in percent."""
    return 100 * sum(rows.mean(time) for time in times) / len(times)


def summary(rows: Rows, ours: str) -> Summary:
    lines, claims = [], []
    methods = {OURS: f"{ours}, {CALIBRATED}", f"{ours}, {PLAIN}": ours}
    methods |= {"blob": "blob", "Gaussian closure": "gaussian", KDE: "kde"}
    for measure, times in MEASURES.items():
        found = [
            Line(
                f"{measure}, d={dim}, n={size}",
                rows.where(d=dim, n=size).columns(
                    {CORE: core_name(dim), **methods}, partial(score_error, times)
                ),
            )
            for dim in STARTS
            for size in rows.where(d=dim).numbers("n")
        ]
        lines += found
        claims.append(judge("ours", f"below KDE at every n ({measure})", against(found, OURS, KDE)))
    rivals = ("blob", "Gaussian closure", KDE)
    return Summary("relative L2 error of the score, %", lines, claims, rivals=rivals)


def figure(rows: Rows, context: Context) -> Figure:
    picture, axes = panels(2 * len(STARTS), columns=2, width=4.8)
    cells = [(measure, dim) for measure in MEASURES for dim in STARTS]
    ours = context.networks.label
    names = {ours: f"{ours}, {PLAIN}", f"{ours}, {CALIBRATED}": ours}
    for panel, (measure, dim) in zip(axes, cells, strict=True):
        curves(panel, rows.where(d=dim), partial(score_error, MEASURES[measure]), names=names)
        title = f"BKW solution, d = {dim}: {measure}"
        panel.set(title=title, xlabel="particles", ylabel="relative error of the score, %")
    return finish(picture, axes, log="xy", ticks=rows.numbers("n"))

"""The BKW solution of Maxwell molecules: relative L2 error of the score against the number of particles.

Particles start from the exact solution (d = 2 at t = 8.4, d = 3 at t = 5.5) and run for 20 steps of 0.25,
forward Euler, with each oracle; networks are fitted every 5 steps and carried along with the particles in
between, ours calibrated to the particles of every step (`discoformer.particles.Calibrated`), as
`discoformer landau` runs it, and also not calibrated.
At the start, the middle and the end the score of a fit to the particles there is compared with the exact
score, sqrt(sum |s_hat - s|^2 / sum |s|^2): of the particles as each oracle has moved them, and of
independent exact samples at the same times (the blob method up to n = 4000).  The first are no samples
any more: a flow that smooths evens the particles out, and so helps its own oracle; the second are the
same for all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from discoformer.particles import BKW, Landau, integrate
from discoformer_paper.contestants import CORE_NAME
from discoformer_paper.harness import Context, Experiment, Job
from discoformer_paper.ledger import Rows
from discoformer_paper.oracles import CALIBRATED, PLAIN, SEED, Source, calibrated, sources
from discoformer_paper.pictures import curve, finish, panels
from discoformer_paper.summary import CORE, KDE, OURS, Line, Summary, every

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

STARTS = {2: 8.4, 3: 5.5}
SIZES = (500, 1000, 2000, 4000, 8000)
RIVALS = ("kde", "blob", "gaussian")
LARGEST_BLOB = 4000  # beyond, its pairs take a third of the whole experiment
TIMES = ("start", "middle", "end")
EXACT = ("start", "exact_middle", "exact_end")  # the particles of the start are an exact sample
MEASURES = {"particles": TIMES, "exact samples": EXACT}
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


def score_error(rows: Rows, method: str, times: Sequence[str]) -> float:
    """Mean over samples and times, in percent."""
    return 100 * sum(rows.where(method=method).mean(time) for time in times) / len(times)


def summary(rows: Rows, ours: str) -> Summary:
    lines = []
    claims = []
    for measure, times in MEASURES.items():
        below = {}
        for dim in STARTS:
            for size in rows.where(d=dim).numbers("n"):
                at = rows.where(d=dim, n=size)
                columns = {CORE: f"{CORE_NAME}{dim}", OURS: f"{ours}, {CALIBRATED}"}
                columns |= {f"{ours}, {PLAIN}": ours, "blob": "blob"}
                columns |= {"Gaussian closure": "gaussian", KDE: "kde"}
                found = {column: score_error(at, method, times) for column, method in columns.items()}
                what = f"{measure}, d={dim}, n={size}"
                lines.append(Line(what, found))
                below[what] = (found[OURS], found[KDE])
        claims.append(every("ours", f"below KDE at every n ({measure})", below))
    return Summary(
        "relative L2 error of the score, %",
        lines,
        claims,
        rivals=("blob", "Gaussian closure", KDE),
    )


def figure(rows: Rows, context: Context) -> Figure:
    picture, axes = panels(2 * len(STARTS), columns=2, width=4.8)
    cells = [(measure, dim) for measure in MEASURES for dim in STARTS]
    ours = context.networks.label
    names = {ours: f"{ours}, {PLAIN}", f"{ours}, {CALIBRATED}": ours}
    for panel, (measure, dim) in zip(axes, cells, strict=True):
        for method in rows.where(d=dim).entries("method"):
            at = rows.where(d=dim, method=method)
            sizes = at.numbers("n")
            errors_by_size = {float(n): score_error(at.where(n=n), method, MEASURES[measure]) for n in sizes}
            curve(panel, errors_by_size, names.get(method, method))
        title = f"BKW solution, d = {dim}: {measure}"
        panel.set(title=title, xlabel="particles", ylabel="relative error of the score, %")
    return finish(picture, axes, log="xy", ticks=rows.numbers("n"))


EXPERIMENT = Experiment(
    name="bkw",
    title="The BKW solution",
    source="ours",
    shows="Score error along an exact solution of Landau's equation, against the number of particles.",
    keys=("d", "n", "method", "seed"),
    values=(*TIMES, *EXACT[1:], "fourth_moment"),
    seeds=10,
    run=run,
    summary=summary,
    figure=figure,
)

"""Ornstein-Uhlenbeck from two modes: covariance and entropy against the closed form.

The start is 1/2 N(+-2 e_1, I/4) in d = 2; rate 1, diffusion 1, 1000 particles, 200 steps of 0.01 with
Heun's method; networks are fitted every 5 steps and carried along with the particles in between.  The
closed form is a mixture of two Gaussians at all times.  Errors of Sigma_11, Sigma_22 and of the entropy
(minus the mean estimated log density at the particles) are root mean squares over the samples.  The
sampling error is that of independent exact samples of the same size, whose entropy uses the exact density.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any

import torch

from discoformer.particles import OrnsteinUhlenbeck, integrate, ornstein_uhlenbeck
from discoformer.particles.history import covariance
from discoformer_paper.experiments.particle_scores import SEED, Source, batches, sources
from discoformer_paper.harness.contestants import core_name
from discoformer_paper.harness.figures import GREY, Figure, curve, finish, panels
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.labels import CORE, KDE, OURS
from discoformer_paper.harness.problems import fixed_mixture
from discoformer_paper.harness.summary import Line, Summary, judge

KEYS, VALUES = ("method", "seed", "time", "quantity"), ("value", "exact")
RIVALS = ("kde", "gaussian")
EVERY = 10  # scores per fit of a network; Heun's method asks for two a step
TIMES = (0.0, 0.25, 0.5, 1.0, 2.0)
QUANTITIES = ("sigma_11", "sigma_22", "entropy")
SAMPLING = "independent"  # exact samples, for the sampling error
LABELS = {  # title and axis
    "sigma_11": ("variance along the modes", r"$\Sigma_{11}$"),
    "sigma_22": ("variance across the modes", r"$\Sigma_{22}$"),
    "entropy": ("entropy", "entropy, nats"),
}

START = fixed_mixture([0.5, 0.5], [[2.0, 0.0], [-2.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]])


@cache
def exact_values(time: float, draws: int) -> tuple[float, ...]:
    """Sigma_11, Sigma_22 and the entropy of the closed form, the last from many draws."""
    law = ornstein_uhlenbeck(START, time)
    spread = law.std[0].square() + law.means[0].square()
    entropy = -law.log_density(law.sample(draws, torch.Generator().manual_seed(1))).mean()
    return float(spread[0]), float(spread[1]), float(entropy)


def follow(source: Source, batch: Sequence[int], size: int, steps: int, draws: int) -> list[dict[str, float]]:
    """Run an oracle from every start; values by sample, time and quantity."""
    generators = (torch.Generator().manual_seed(SEED + seed) for seed in batch)
    start = torch.stack([START.sample(size, generator) for generator in generators])
    dt = TIMES[-1] / steps
    run = integrate(OrnsteinUhlenbeck(), start, source.make(START), dt=dt, steps=steps, scheme="heun")
    columns = (run.covariance[..., 0, 0], run.covariance[..., 1, 1], run.entropy)
    return [
        {"value": float(column[round(time / dt), row]), "exact": exact}
        for row in range(len(batch))
        for time in TIMES
        for column, exact in zip(columns, exact_values(time, draws), strict=True)
    ]


def independent(seed: int, size: int, draws: int) -> list[dict[str, float]]:
    """Values of an exact sample, by time and quantity."""
    lines = []
    for time in TIMES:
        law = ornstein_uhlenbeck(START, time)
        x = law.sample(size, torch.Generator().manual_seed(seed))
        spread = covariance(x)
        values = (float(spread[0, 0]), float(spread[1, 1]), -float(law.log_density(x).mean()))
        pairs = zip(values, exact_values(time, draws), strict=True)
        lines += [{"value": value, "exact": exact} for value, exact in pairs]
    return lines


def run(context: Context) -> Iterator[Job]:
    size, steps, draws = (60, 8, 10**4) if context.quick else (1000, 200, 10**6)
    cells = [(f"{time:g}", quantity) for time in TIMES for quantity in QUANTITIES]
    for source in sources(context.networks.for_dim(2), RIVALS, every=EVERY):
        for batch in batches(context.seeds):
            keys = [(source.identity, SEED + seed, *cell) for seed in batch for cell in cells]
            yield Job(keys, partial(follow, source, batch, size, steps, draws))
    for seed in range(SEED + 5000, SEED + 5000 + 20 * context.seeds):
        keys = [(SAMPLING, seed, *cell) for cell in cells]
        yield Job(keys, partial(independent, seed, size, draws))


def rms(rows: Rows) -> float:
    """Root mean square of the errors; NaN without rows."""
    squares = (rows.values("value") - rows.values("exact")) ** 2
    return math.sqrt(math.fsum(squares) / len(rows)) if len(rows) else math.nan


def summary(rows: Rows, ours: str) -> Summary:
    lines, cases = [], {}
    methods = {CORE: core_name(2), OURS: ours, "sampling error": SAMPLING}
    methods |= {"Gaussian closure": "gaussian", KDE: "kde"}
    for time in rows.entries("time"):
        for quantity in QUANTITIES:
            at, what = rows.where(time=time, quantity=quantity), f"{quantity}, t={time}"
            found = at.columns(methods, rms)
            lines.append(Line(what, found))
            # a root mean square over k samples has a relative standard error of sqrt(1 / 2k)
            slack = 1 + 2 / math.sqrt(2 * max(1, len(at.where(method=ours))))
            cases[what] = (found[OURS], slack * found["sampling error"])
    return Summary(
        "root mean square error",
        lines,
        [judge("ours", "within the sampling error and two of its standard errors", cases)],
        rivals=("Gaussian closure", KDE),
        reasons={"Gaussian closure": "its moments are exact here, and the solution turns Gaussian"},
    )


def figure(rows: Rows, context: Context) -> Figure:
    picture, axes = panels(len(QUANTITIES), width=4.2)
    times = rows.entries("time")
    fine = [TIMES[-1] * k / 80 for k in range(81)]
    exact = [exact_values(time, 10**4 if context.quick else 10**5) for time in fine]
    for panel, quantity, values in zip(axes, QUANTITIES, zip(*exact, strict=True), strict=True):
        panel.plot(fine, values, color=GREY, linewidth=4, alpha=0.5, label="exact")
        for method in rows.entries("method"):
            if method != SAMPLING:
                found = rows.where(quantity=quantity, method=method)
                means = {float(time): found.where(time=time).mean("value") for time in times}
                ring: dict[str, Any] = {"markersize": 11, "markerfacecolor": "none"}  # others lie inside
                curve(panel, means, method, linestyle="none", **(ring if method == "gaussian" else {}))
        title, axis = LABELS[quantity]
        panel.set(title=title, xlabel="time", ylabel=f"{axis}, mean over samples")
    return finish(picture, axes)

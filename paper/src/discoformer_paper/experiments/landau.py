"""Figure 11: relaxation of a plasma, the homogeneous Landau equation with a plug-in score.

n = 500 particles, forward Euler; Maxwell dt = .01 to T = 4 in d = 3 and 10, Coulomb dt = 1 to T = 300 in
d = 3; from N(0, diag(1.8, .2, 1, ...)) and from two modes with the same covariance.  The error of a run is
the maximum over t of |Sigma_11 - reference|, the reference started from the sample's own covariance:
closed form (Maxwell), pair Monte Carlo of 50,000 particles with matched moments (Coulomb).  Networks are
fitted every 25 steps and carried along with the particles in between (`discoformer.particles.Carried`).
Ours runs as in `discoformer landau`: in three dimensions it is calibrated to the particles of every step
(`Calibrated`), and also measured without calibration.  The other oracles are fitted at every step.
Samples run in batches of five.  Times are wall times per step and sample, without the first step (where
SBTM is fitted to the exact score of the start); with several workers they are those of one thread next to
other jobs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import torch
from torch import Tensor

from discoformer.particles import (
    History,
    Landau,
    calibration_pays,
    integrate,
    landau_start,
    match_moments,
    maxwell_covariance,
    pair_monte_carlo,
)
from discoformer.particles.history import covariance
from discoformer.particles.references import STARTS
from discoformer_paper.experiments.particle_scores import (
    CALIBRATED,
    PLAIN,
    SEED,
    Source,
    batches,
    calibrated,
    sources,
)
from discoformer_paper.harness.contestants import core_name
from discoformer_paper.harness.figures import GREY, Figure, curve, finish, panels
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.labels import CORE, KDE, OURS
from discoformer_paper.harness.summary import Line, Summary, Whose, judge, number

KEYS = ("case", "start", "method", "seed", "time")
RIVALS = ("kde", "blob", "gaussian", "sbtm")
VALUES = ("sigma_11", "reference", "error", "momentum", "energy", "entropy_drop", "seconds_per_step")
ROUNDS = 4  # of pairs per step of the reference
EVERY = 25  # steps per fit of a network
TICKS = (-0.1, -0.05, -0.025, 0, 0.025, 0.05, 0.1, 0.5, 1)  # of the picture
REPORTS = 20  # intervals between the times that are kept
COMPARABLE = 2.0  # times SBTM's error
WELL = 0.05  # error of Sigma_11, which falls from 1.8 to 1


@dataclass(frozen=True)
class Case:
    """A kernel in some dimension, with its time grid."""

    name: str
    gamma: float
    dim: int
    dt: float
    steps: int
    particles: int = 500
    reference_particles: int = 50_000


CASES = (
    Case("maxwell-3", 0.0, 3, 0.01, 400),
    Case("maxwell-10", 0.0, 10, 0.01, 400),
    Case("coulomb-3", -3.0, 3, 1.0, 300),
)
DIMS = {case.name: case.dim for case in CASES}
# as on the command line: where there are enough particles for a calibration
CALIBRATING = {case.name for case in CASES if calibration_pays(case.particles, case.dim)}


def samples(case: Case, start: str, batch: Sequence[int]) -> Tensor:
    """Starts (seeds, n, d)."""
    law = landau_start(start, case.dim)
    generators = (torch.Generator().manual_seed(SEED + seed) for seed in batch)
    return torch.stack([law.sample(case.particles, generator) for generator in generators])


@lru_cache(maxsize=1)  # the oracles are measured in turn against one reference
def reference(case: Case, start: str, batch: tuple[int, ...]) -> Tensor:
    """Sigma_11 (steps + 1, seeds) from each sample's own moments."""
    points = samples(case, start, batch)
    initial = covariance(points)
    if case.gamma == 0:
        times = case.dt * torch.arange(case.steps + 1, dtype=torch.float64)
        return maxwell_covariance(initial, times)[..., 0, 0]
    columns = []
    for row, seed in enumerate(batch):
        generator = torch.Generator().manual_seed(SEED + 1000 + seed)
        large = landau_start(start, case.dim).sample(case.reference_particles, generator)
        matched = match_moments(large, points[row].mean(0), initial[row])
        run = pair_monte_carlo(
            matched, dt=case.dt, steps=case.steps, gamma=case.gamma, rounds=ROUNDS, seed=seed
        )
        columns.append(run.covariance[:, 0, 0])
    return torch.stack(columns, -1)


def reported(case: Case) -> list[int]:
    """Numbers of the steps that are kept."""
    count = min(REPORTS, case.steps)
    return [round(case.steps * k / count) for k in range(count + 1)]


def follow(
    case: Case, start: str, batch: tuple[int, ...], source: Source, context: Context
) -> list[dict[str, float]]:
    """Run an oracle from every start; values by sample and time, errors and drifts so far."""
    checkpoint = context.scratch / f"{case.name} {start} {source.identity} {batch[0]}.npz"
    history = integrate(
        Landau(case.gamma),
        samples(case, start, batch),
        source.make(landau_start(start, case.dim)),
        dt=case.dt,
        steps=case.steps,
        checkpoint=checkpoint,
        resume=checkpoint.exists(),
    )
    columns = values_of(history, reference(case, start, batch))
    return [
        {name: float(column[step, row]) for name, column in columns.items()}
        for row in range(len(batch))
        for step in reported(case)
    ]


def values_of(history: History, exact: Tensor) -> dict[str, Tensor]:
    """Columns (steps + 1, seeds) of a history."""
    sigma = history.covariance[..., 0, 0]
    drop = torch.cummax(history.entropy, 0).values - history.entropy
    steps = len(history.times) - 1
    seconds = float(history.seconds[-1] - history.seconds[1]) / max(1, steps - 1) / sigma.shape[1]
    return {
        "sigma_11": sigma,
        "reference": exact,
        "error": torch.cummax((sigma - exact).abs(), 0).values,
        "momentum": torch.cummax((history.mean - history.mean[0]).abs().amax(-1), 0).values,
        "energy": torch.cummax((history.energy / history.energy[0] - 1).abs(), 0).values,
        "entropy_drop": torch.cummax(drop, 0).values,
        "seconds_per_step": torch.full_like(sigma, seconds),
    }


def run(context: Context) -> Iterator[Job]:
    for full in CASES:
        case = replace(full, steps=3, particles=40, reference_particles=200) if context.quick else full
        contestants = sources(context.networks.for_dim(case.dim), RIVALS, every=EVERY, quick=context.quick)
        if case.name in CALIBRATING:
            contestants.append(calibrated(context.networks.ours(), every=EVERY))
        for start in STARTS:
            for batch in batches(context.seeds):
                for source in contestants:
                    times = [f"{case.dt * step:g}" for step in reported(case)]
                    keys = [(case.name, start, source.identity, SEED + s, t) for s in batch for t in times]
                    yield Job(keys, partial(follow, case, start, batch, source, context))


def as_run(case: str, ours: str) -> str:
    """What our network is called in the measurements when it runs as in `discoformer landau`."""
    return f"{ours}, {CALIBRATED}" if case in CALIBRATING else ours


def at_end(rows: Rows) -> Rows:
    """The last time of every run; its errors and drifts are those of the whole run."""
    last = max(rows.numbers("time"), default=0)
    return Rows(rows.frame[rows.frame["time"].astype(float) == last])


def paired(rows: Rows, method: str, other: str) -> Rows:
    """Differences of two methods' errors, ``gap``, on the samples that both have run."""
    both = (rows.where(method=name).frame[["seed", "error"]] for name in (method, other))
    merged = next(both).merge(next(both), on="seed")
    return Rows(merged.assign(gap=merged["error_x"] - merged["error_y"]))


SBTM_TEXT = "not worse than SBTM{} (mean difference of the errors at most its standard error)"
CLAIMS: dict[str, tuple[Whose, str]] = {
    "core kde": ("paper", "the Transformer outperforms KDE (error over KDE's)"),
    "core sbtm": (
        "paper",
        f"the Transformer is comparable in quality to SBTM (our bound: {COMPARABLE:g} times its error)",
    ),
    "core exact": (
        "paper",
        f"the Transformer matches the analytic covariance well (Maxwell; our bound: error {WELL:g})",
    ),
    "ours kde": ("ours", "at most half of KDE's error"),
    "plain kde": ("ours", "at most half of KDE's error without calibration"),
    "ours sbtm": ("ours", SBTM_TEXT.format("")),
    "plain sbtm": ("ours", SBTM_TEXT.format(" without calibration")),
    "time": ("ours", "a tenth of SBTM's time per step"),
    "momentum": ("ours", "momentum is conserved to 1e-12"),
    "energy": ("ours", "the energy drifts by less than 1%"),
    "entropy": ("ours", "the entropy falls by no more than its sampling noise"),
}


def summary(rows: Rows, ours: str) -> Summary:
    lines = []
    cases: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for case, dim in DIMS.items():
        for start in STARTS:
            ends = at_end(rows.where(case=case, start=start))
            what, core, best = f"{case}, {start} start", core_name(dim), as_run(case, ours)
            methods = {CORE: core, OURS: best, f"{ours}, {PLAIN}": ours, "SBTM": "sbtm", "blob": "blob"}
            methods |= {"Gaussian closure": "gaussian", KDE: "kde"}
            found = ends.columns(methods, "error")
            lines.append(Line(what, found))
            for method, key in ((core, "core"), (ours, "plain"), (best, "ours")):
                mine = ends.where(method=method)
                if not len(mine):
                    continue
                share = mine.mean("error") / found[KDE]
                cases[f"{key} kde"][what] = (share, 1.0 if key == "core" else 0.5)
                gap = paired(ends, method, "sbtm")
                if len(gap) and key == "core":
                    both = f"{what} (SBTM {number(found['SBTM'])})"
                    cases["core sbtm"][both] = (found[CORE], COMPARABLE * found["SBTM"])
                elif len(gap):
                    cases[f"{key} sbtm"][what] = (float(gap.mean("gap")), gap.standard_error("gap"))
                if key == "core" and case.startswith("maxwell"):  # Coulomb has no closed form
                    cases["core exact"][what] = (found[CORE], WELL)
            mine, rival = ends.where(method=best), ends.where(method="sbtm")
            if not len(mine):
                continue
            if len(rival):
                ratio = mine.mean("seconds_per_step") / rival.mean("seconds_per_step")
                cases["time"][what] = (ratio, 0.1)
            cases["momentum"][what] = (float(mine.values("momentum").max()), 1e-12)
            cases["energy"][what] = (float(mine.values("energy").max()), 0.01)
            # one estimate of the entropy from n points has a standard deviation of about sqrt(d / 2n)
            cases["entropy"][what] = (mine.mean("entropy_drop"), math.sqrt(dim / 1000))
    return Summary(
        "largest error of Sigma_11 over time, mean over samples",
        lines,
        [judge(whose, text, cases[key]) for key, (whose, text) in CLAIMS.items()],
        rivals=("SBTM", "blob", "Gaussian closure", KDE),
        reasons={
            "SBTM": "it starts from the exact score and trains at every step",
            "Gaussian closure": "exact for a Gaussian, and these solutions tend to one",
        },
    )


def figure(rows: Rows, context: Context) -> Figure:
    picture, axes = panels(2 * len(DIMS), columns=len(DIMS), width=4.2)
    settings = [(start, case) for start in STARTS for case in DIMS]
    ours = context.networks.label
    for panel, (start, case) in zip(axes, settings, strict=True):
        at = rows.where(case=case, start=start)
        times = at.numbers("time")
        panel.axhline(0, color=GREY, linewidth=4, alpha=0.5, label="reference")
        names = {ours: f"{ours}, {PLAIN}"} | {as_run(case, ours): ours}
        for method in at.entries("method"):
            found = [at.where(method=method, time=f"{t:g}") for t in times]
            gaps = [here.mean("sigma_11") - here.mean("reference") for here in found]
            name = names.get(method, method)
            curve(panel, dict(zip(times, gaps, strict=True)), name, markevery=4, markersize=4)
        panel.set_yscale("symlog", linthresh=0.05)  # the rivals' errors are up to a hundred times ours
        panel.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
        panel.set_yticks([], minor=True)
        title = case.replace("-", " molecules, d = " if "maxwell" in case else " collisions, d = ")
        who = start.replace("gaussian", "Gaussian")
        panel.set(title=f"{title.capitalize()}\n{who} start", xlabel="time", ylim=(-0.15, 1))
        panel.set_ylabel("mean of $\\Sigma_{11}$ minus reference\n(logarithmic beyond 0.05)")
    return finish(picture, axes)

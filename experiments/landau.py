"""Relaxation of a plasma (the paper's Landau figure): error of Sigma_11 for every score oracle.

    python experiments/landau.py                          # everything; SBTM takes most of the time
    python experiments/landau.py --cases maxwell-3        # one case
    python experiments/landau.py --oracles kde gaussian   # some rivals only
    python experiments/landau.py --quick

n = 500 particles, forward Euler; Maxwell dt = .01 to T = 4 in d = 3 and 10, Coulomb dt = 1 to T = 300 in
d = 3; from N(0, diag(1.8, .2, 1, ...)) and from two modes with the same covariance.  The error of a run
is max over t of |Sigma_11 - reference|, the reference started from the sample's own covariance: closed
form (Maxwell), pair Monte Carlo of 50,000 particles with matched moments (Coulomb).  All samples of a
setting run as one batch, for every oracle alike; times are wall times per step and sample, without the
first step (where SBTM is fitted to the exact score of the start).

Lines go to results/landau.csv as they are made, and an interrupted run goes on where it stopped; the
table is results/landau_table.csv.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from particle_runs import SEED, Bars, Ledger, make_parser, results_folder, write_rows
from torch import Tensor

from discoformer.particles import (
    History,
    Landau,
    integrate,
    landau_start,
    match_moments,
    maxwell_covariance,
    pair_monte_carlo,
)
from discoformer.particles.choices import choose_oracle
from discoformer.particles.history import covariance
from discoformer.particles.references import STARTS

RIVALS = ("kde", "blob", "gaussian", "sbtm-1", "sbtm")
VALUES = ("error", "end", "reference", "momentum", "energy", "entropy_drop", "seconds_per_step")


@dataclass(frozen=True)
class Case:
    """A kernel in some dimension, with its time grid."""

    gamma: float
    dim: int
    dt: float
    steps: int
    particles: int = 500
    reference_particles: int = 50_000

    @property
    def equation(self) -> Landau:
        return Landau(self.gamma)


CASES = {
    "maxwell-3": Case(0.0, 3, 0.01, 400),
    "maxwell-10": Case(0.0, 10, 0.01, 400),
    "coulomb-3": Case(-3.0, 3, 1.0, 300),
}


def samples(case: Case, start: str, seeds: int) -> Tensor:
    """Starts (seeds, n, d)."""
    law = landau_start(start, case.dim)
    generators = (torch.Generator().manual_seed(SEED + seed) for seed in range(seeds))
    return torch.stack([law.sample(case.particles, generator) for generator in generators])


def reference(case: Case, start: str, points: Tensor, path: Path) -> Tensor:
    """Sigma_11 (steps + 1, seeds) from each sample's own moments; Monte Carlo is kept in a file."""
    initial = covariance(points)
    times = case.dt * torch.arange(case.steps + 1, dtype=torch.float64)
    if case.gamma == 0:
        return maxwell_covariance(initial, times)[..., 0, 0]
    shape = (case.steps + 1, len(points))
    if path.exists() and (kept := np.load(path)).shape == shape:
        return torch.from_numpy(kept)
    columns = []
    for seed in range(len(points)):
        generator = torch.Generator().manual_seed(SEED + 1000 + seed)
        large = landau_start(start, case.dim).sample(case.reference_particles, generator)
        matched = match_moments(large, points[seed].mean(0), initial[seed])
        run = pair_monte_carlo(matched, dt=case.dt, steps=case.steps, gamma=case.gamma, seed=seed)
        columns.append(run.covariance[:, 0, 0])
    result = torch.stack(columns, -1)
    np.save(path, result.numpy())
    return result


def lines(history: History, exact: Tensor) -> list[dict[str, float]]:
    """One line of values per sample."""
    sigma = history.covariance[..., 0, 0]
    drop = (torch.cummax(history.entropy, 0).values - history.entropy).amax(0)
    steps = len(history.times) - 1
    seconds = float(history.seconds[-1] - history.seconds[1]) / max(1, steps - 1) / sigma.shape[1]
    columns = {
        "error": (sigma - exact).abs().amax(0),
        "end": sigma[-1],
        "reference": exact[-1],
        "momentum": (history.mean - history.mean[0]).abs().amax((0, -1)),
        "energy": (history.energy / history.energy[0] - 1).abs().amax(0),
        "entropy_drop": drop,
        "seconds_per_step": torch.full_like(sigma[0], seconds),
    }
    return [{name: float(column[seed]) for name, column in columns.items()} for seed in range(sigma.shape[1])]


def measure(
    case_name: str, start: str, oracles: Sequence[str], seeds: int, ledger: Ledger, quick: bool
) -> dict[str, dict[str, np.ndarray]]:
    """Values (seeds,) of every oracle; only what is missing is computed."""
    case = CASES[case_name]
    if quick:
        case = Case(case.gamma, case.dim, case.dt, 5, 60, 500)
    points = samples(case, start, seeds)
    folder = ledger.path.parent
    exact: Tensor | None = None
    found: dict[str, dict[str, np.ndarray]] = {}
    for oracle in oracles:
        keys = [(case_name, start, oracle, SEED + seed) for seed in range(seeds)]
        kept = [ledger.get(*key) for key in keys]
        if any(line is None for line in kept):
            if exact is None:
                exact = reference(case, start, points, folder / f"landau_{case_name}_{start}_reference.npy")
            # ours is quick, and its weights may have changed since a checkpoint
            checkpoint = folder / f"landau_{case_name}_{start}_{oracle}.npz" if oracle in RIVALS else None
            source = choose_oracle(oracle, landau_start(start, case.dim), seed=SEED)
            history = integrate(
                case.equation,
                points,
                source,
                dt=case.dt,
                steps=case.steps,
                checkpoint=checkpoint,
                resume=checkpoint is not None and checkpoint.exists(),
                label=f"{case_name} {start} {oracle}",
            )
            kept = [ledger.add(key, line) for key, line in zip(keys, lines(history, exact), strict=True)]
            if checkpoint is not None:
                checkpoint.unlink()
        found[oracle] = {name: np.array([line[name] for line in kept if line]) for name in VALUES}
        print(f"{case_name} {start} {oracle}: error {found[oracle]['error'].mean():.4f}", flush=True)
    return found


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def check(bars: Bars, what: str, case: Case, ours: str, found: dict[str, dict[str, np.ndarray]]) -> None:
    """The bars of one setting, as means over the samples."""
    mine = found[ours]
    if "kde" in found:
        bars.check(
            f"{what}: error over Scott KDE's", mine["error"].mean() / found["kde"]["error"].mean(), 0.5
        )
    for rival in ("sbtm", "sbtm-1"):
        if rival in found:
            difference = mine["error"] - found[rival]["error"]
            bars.check(f"{what}: error minus {rival}'s", difference.mean(), standard_error(difference))
            ratio = mine["seconds_per_step"].mean() / found[rival]["seconds_per_step"].mean()
            bars.check(f"{what}: time over {rival}'s", ratio, 0.1)
    bars.check(f"{what}: momentum drift", mine["momentum"].max(), 1e-12)
    bars.check(f"{what}: energy drift", mine["energy"].max(), 0.01)
    # one estimate of the entropy from n points has a standard deviation of about sqrt(d / 2n)
    noise = math.sqrt(case.dim / (2 * case.particles))
    bars.check(f"{what}: mean drop of the entropy", mine["entropy_drop"].mean(), noise)


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=list(STARTS))
    parser.add_argument("--oracles", nargs="*", choices=RIVALS, default=list(RIVALS), help="the rivals")
    args = parser.parse_args(argv)
    seeds = min(args.seeds, 2) if args.quick else args.seeds
    bars = Bars()
    rows = []
    with results_folder(args) as folder:
        ledger = Ledger(folder / "landau.csv", ("case", "start", "oracle", "seed"), VALUES, fresh=args.model)
        for name in args.cases:
            for start in args.starts:
                oracles = [args.model, *(oracle for oracle in args.oracles if oracle != args.model)]
                found = measure(name, start, oracles, seeds, ledger, args.quick)
                for oracle, values in found.items():
                    mean = {key: float(column.mean()) for key, column in values.items()}
                    cells = [f"{mean['error']:.4f}", f"{standard_error(values['error']):.4f}"]
                    cells += [f"{mean['end']:.4f}", f"{mean['reference']:.4f}"]
                    cells += [f"{values['momentum'].max():.1e}", f"{100 * values['energy'].max():.3f}"]
                    cells += [f"{mean['entropy_drop']:.4f}", f"{1000 * mean['seconds_per_step']:.2f}"]
                    rows.append([name, start, oracle, str(seeds), *cells])
                check(bars, f"{name} {start}", CASES[name], args.model, found)
        header = ["case", "start", "oracle", "seeds", "error", "+-", "end", "reference"]
        header += ["momentum drift", "energy drift %", "entropy drop", "ms per step"]
        write_rows(folder / "landau_table.csv", header, rows)
        bars.tell()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

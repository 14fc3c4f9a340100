"""Ornstein-Uhlenbeck from two modes: covariance and entropy against the closed form.

    python experiments/ornstein_uhlenbeck.py
    python experiments/ornstein_uhlenbeck.py --quick

The start is 1/2 N(+-2 e_1, I/4) in d = 2; rate 1, diffusion 1, 1000 particles, 200 steps of 0.01 with
Heun's method.  The closed form is a mixture of two Gaussians at all times.  Errors of Sigma_11, Sigma_22
and of the entropy (minus the mean estimated log density at the particles) are root mean squares over the
samples; sampling error is that of as many independent exact samples of the same size, whose entropy uses
the exact density.  Lines go to results/ornstein_uhlenbeck.csv, the table to
results/ornstein_uhlenbeck_table.csv.  Bar: our error at most the sampling error and two of its standard
errors, which for a root mean square over k samples are sqrt(2/k) of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from particle_runs import SEED, Bars, Ledger, make_parser, results_folder, write_rows

from discoformer.particles import OrnsteinUhlenbeck, integrate, ornstein_uhlenbeck
from discoformer.particles.choices import choose_oracle
from discoformer.particles.history import covariance
from discoformer.priors import LocationScaleMixture

RIVALS = ("kde", "gaussian")
REPORTED = (0.0, 0.25, 0.5, 1.0, 2.0)
QUANTITIES = ("sigma_11", "sigma_22", "entropy")
REPLICATES = 200  # independent exact samples for the sampling error

START = LocationScaleMixture(
    torch.tensor([0.5, 0.5], dtype=torch.float64),
    torch.tensor([[2.0, 0.0], [-2.0, 0.0]], dtype=torch.float64),
    torch.full((2, 2), 0.5, dtype=torch.float64),
)


def exact_values(time: float) -> np.ndarray:
    """Sigma_11, Sigma_22 and the entropy of the closed form, the last from a million draws."""
    law = ornstein_uhlenbeck(START, time)
    spread = law.std[0].square() + law.means[0].square()
    draws = law.sample(10**6, torch.Generator().manual_seed(1))
    return np.array([float(spread[0]), float(spread[1]), -float(law.log_density(draws).mean())])


def sampling_error(time: float, size: int) -> np.ndarray:
    """Root mean square error (3,) of independent exact samples."""
    law, exact = ornstein_uhlenbeck(START, time), exact_values(time)
    errors = []
    for seed in range(REPLICATES):
        x = law.sample(size, torch.Generator().manual_seed(SEED + 5000 + seed))
        s = covariance(x)
        errors.append([float(s[0, 0]), float(s[1, 1]), -float(law.log_density(x).mean())] - exact)
    return np.sqrt(np.mean(np.square(errors), axis=0))


def main(argv: Sequence[str] | None = None) -> int:
    args = make_parser(__doc__).parse_args(argv)
    seeds, size, steps = (2, 60, 8) if args.quick else (args.seeds, 1000, 200)
    dt = REPORTED[-1] / steps
    generators = (torch.Generator().manual_seed(SEED + seed) for seed in range(seeds))
    start = torch.stack([START.sample(size, generator) for generator in generators])
    bars = Bars()
    rows = []
    with results_folder(args) as folder:
        keys, values = ("oracle", "seed", "time"), QUANTITIES
        ledger = Ledger(folder / "ornstein_uhlenbeck.csv", keys, values, fresh=args.model)
        expected = {time: (exact_values(time), sampling_error(time, size)) for time in REPORTED}
        for name in dict.fromkeys([args.model, *RIVALS]):
            if ledger.get(name, SEED + seeds - 1, REPORTED[-1]) is None:
                oracle = choose_oracle(name, START)
                run = integrate(
                    OrnsteinUhlenbeck(), start, oracle, dt=dt, steps=steps, scheme="heun", label=name
                )
                columns = (run.covariance[..., 0, 0], run.covariance[..., 1, 1], run.entropy)
                for time in REPORTED:
                    row = round(time / dt)
                    for seed in range(seeds):
                        line = {q: float(c[row, seed]) for q, c in zip(QUANTITIES, columns, strict=True)}
                        ledger.add((name, SEED + seed, time), line)
            for time, (exact, sampling) in expected.items():
                lines = [ledger.get(name, SEED + seed, time) for seed in range(seeds)]
                found = np.array([[line[q] for q in QUANTITIES] for line in lines if line])
                error = np.sqrt(np.mean((found - exact) ** 2, axis=0))
                for quantity, e, v, f, s in zip(
                    QUANTITIES, exact, error, found.mean(0), sampling, strict=True
                ):
                    cells = [f"{e:.4f}", f"{f:.4f}", f"{v:.4f}", f"{s:.4f}"]
                    rows.append([name, f"{time:g}", quantity, str(seeds), *cells])
                    if name == args.model:
                        bound = s * (1 + 2 * math.sqrt(1 / (2 * seeds)))
                        bars.check(f"{quantity} at t={time:g}: error", v, bound)
        header = ["oracle", "time", "quantity", "seeds", "exact", "mean", "rms error", "sampling error"]
        write_rows(folder / "ornstein_uhlenbeck_table.csv", header, rows)
        bars.tell()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

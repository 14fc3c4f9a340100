"""The BKW solution of Maxwell molecules: relative L2 error of the score against the number of particles.

    python experiments/bkw.py
    python experiments/bkw.py --quick

Particles start from the exact solution (d = 2 at t = 8.4, d = 3 at t = 5.5) and run for 50 steps of 0.1,
forward Euler, with each oracle.  At the start, the middle and the end the oracle's score at the particles
is compared with the exact score there, sqrt(sum |s_hat - s|^2 / sum |s|^2).  Lines go to results/bkw.csv
as they are made; the table is results/bkw_table.csv.  Bar: ours below KDE's, averaged over samples and
over the three times, at every n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from particle_runs import SEED, Bars, Ledger, make_parser, results_folder, write_rows

from discoformer.particles import BKW, Landau, integrate
from discoformer.particles.choices import choose_oracle
from discoformer.particles.oracles import OracleLike, as_oracle

STARTS = {2: 8.4, 3: 5.5}
SIZES = (500, 1000, 2000, 4000, 8000)
RIVALS = ("kde", "blob", "gaussian")
VALUES = ("start", "middle", "end", "fourth_moment")


def errors(oracle: OracleLike, dim: int, size: int, seed: int, steps: int) -> dict[str, float]:
    """Relative L2 error of the score at three times, and the relative error of E|v|^4 at the end."""
    begin, dt = STARTS[dim], 0.1
    points = BKW(begin, dim).sample(size, torch.Generator().manual_seed(seed))
    times = [begin, begin + dt * (steps // 2), begin + dt * steps]
    history = integrate(Landau(), points, oracle, dt=dt, steps=steps, time=begin, frames=times)
    line = {}
    with torch.no_grad():
        for name, time, frame in zip(VALUES, history.frame_times.tolist(), history.frames, strict=False):
            exact = BKW(time, dim).score(frame)
            guess = as_oracle(oracle).estimate(frame, time).score
            line[name] = float((guess - exact).norm() / exact.norm())
    k = 1 - math.exp(-2 * (dim - 1) * Landau().strength * times[-1])
    exact_fourth = dim * (dim + 2) * k * (2 - k)
    fourth = float(history.points.square().sum(-1).square().mean())
    return {**line, "fourth_moment": abs(fourth / exact_fourth - 1)}


def main(argv: Sequence[str] | None = None) -> int:
    args = make_parser(__doc__).parse_args(argv)
    seeds, sizes, steps = (2, (60, 120), 4) if args.quick else (args.seeds, SIZES, 50)
    bars = Bars()
    rows = []
    with results_folder(args) as folder:
        ledger = Ledger(folder / "bkw.csv", ("d", "n", "oracle", "seed"), VALUES, fresh=args.model)
        for dim in STARTS:
            for size in sizes:
                found = {}
                for name in dict.fromkeys([args.model, *RIVALS]):
                    lines = []
                    for seed in range(SEED, SEED + seeds):
                        key = (dim, size, name, seed)
                        line = ledger.get(*key)
                        if line is None:
                            oracle = choose_oracle(name, BKW(STARTS[dim], dim))
                            line = ledger.add(key, errors(oracle, dim, size, seed, steps))
                        lines.append(line)
                    mean = {value: float(np.mean([line[value] for line in lines])) for value in VALUES}
                    found[name] = (mean["start"] + mean["middle"] + mean["end"]) / 3
                    cells = [f"{100 * number:.2f}" for number in (found[name], *mean.values())]
                    rows.append([str(dim), str(size), name, str(seeds), *cells])
                    print(" ".join(rows[-1]), flush=True)
                bars.check(f"d={dim} n={size}: error over KDE's", found[args.model] / found["kde"], 1.0)
        header = ["d", "n", "oracle", "seeds", "score error %", "start %", "middle %", "end %", "E|v|^4 %"]
        write_rows(folder / "bkw_table.csv", header, rows)
        bars.tell()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Coulomb collisions of 20,000 particles: memory of ten steps, and time against a plain numpy pair loop.

    python benchmarks/coulomb.py
    python benchmarks/coulomb.py --quick

Memory is the peak resident size of a fresh process that runs ten steps, imports and score oracle
included.  The numpy loop goes over the particles and sums the pairs of each in whole-array operations;
it is timed on the first rows of the sum and extrapolated to all n, since every row costs the same.  Both
are float64 in one process; ours is the best of a few repeats after a warm-up.  The table goes to
results/coulomb.csv.  Bars: below 2 GB, collisions at least 5 times faster than the loop; the ratio for a
whole step, with an oracle that is fitted anew, stands beside it.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from memory import peak_gigabytes

from discoformer.particles import Landau, integrate, landau_start
from discoformer.particles.choices import choose_oracle

BAR_GB, BAR_RATIO = 2.0, 5.0
DIM, STEPS = 3, 10
STRENGTH = 1 / 24


def plain_loop(v: np.ndarray, s: np.ndarray, rows: int) -> np.ndarray:
    """The first rows of -(1/n) sum_j A(v_i - v_j)(s_i - s_j), one particle after the other."""
    result = np.empty((rows, v.shape[1]))
    for i in range(rows):
        z, ds = v[i] - v, s[i] - s
        square = (z**2).sum(1)
        inner = (z * ds).sum(1)
        power = STRENGTH * (square + 1e-14) ** -1.5
        result[i] = -((power * square)[:, None] * ds - (power * inner)[:, None] * z).mean(0)
    return result


def simulate(oracle: str, n: int) -> None:
    """Ten steps; print seconds per step and the peak memory of the process in GB."""
    start = landau_start("gaussian", DIM)
    points = start.sample(n, torch.Generator().manual_seed(0))
    run = integrate(Landau(-3.0), points, choose_oracle(oracle, start), dt=1.0, steps=STEPS)
    print(float(run.seconds[-1]) / STEPS, peak_gigabytes())


def seconds_of_collisions(n: int, rows: int, repeats: int) -> tuple[float, float, float]:
    """Seconds of our velocity and of the whole numpy loop, and the largest difference of their answers."""
    start = landau_start("gaussian", DIM)
    points = start.sample(n, torch.Generator().manual_seed(0))
    scores = start.score(points)
    velocity = Landau(-3.0).velocity(points, scores)  # warm-up
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        Landau(-3.0).velocity(points, scores)
        times.append(time.perf_counter() - begin)
    v, s = points.numpy(), scores.numpy()
    begin = time.perf_counter()
    plain = plain_loop(v, s, rows)
    whole = (time.perf_counter() - begin) * n / rows
    return min(times), whole, float(np.abs(plain - velocity[:rows].numpy()).max())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--oracle", default="default", help="score oracle (default: default)")
    parser.add_argument("--quick", action="store_true", help="small sizes; nothing is written")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "coulomb.csv")
    parser.add_argument("--simulate", type=int, metavar="N", help="ten steps, print seconds and memory")
    args = parser.parse_args(argv)
    if args.simulate:
        simulate(args.oracle, args.simulate)
        return 0
    n, rows = (1000, 100) if args.quick else (20_000, 500)
    threads = torch.get_num_threads()
    ours, loop, difference = seconds_of_collisions(n, rows, args.repeats)
    command = [sys.executable, __file__, "--simulate", str(n), "--oracle", args.oracle]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    step, gigabytes = map(float, told.split())
    print(f"n={n} d={DIM}, {threads} threads, oracle {args.oracle}")
    print(f"collisions: ours {ours:.3f} s, numpy loop {loop:.2f} s (from {rows} of {n} rows)")
    print(f"ratio {loop / ours:.1f}, largest difference {difference:.1e}")
    print(f"{STEPS} steps in a fresh process: {step:.3f} s per step with the oracle, peak {gigabytes:.2f} GB")
    print(f"the loop alone takes {loop / step:.1f} times as long as such a step")
    if not args.quick:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        header = ["n", "d", "threads", "oracle", "collision s", "numpy loop s", "ratio"]
        header += ["step s", "step ratio", "peak GB"]
        cells = [n, DIM, threads, args.oracle, f"{ours:.4f}", f"{loop:.3f}", f"{loop / ours:.1f}"]
        cells += [f"{step:.4f}", f"{loop / step:.1f}", f"{gigabytes:.3f}"]
        with args.out.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([header, cells])
        fast, small = loop / ours >= BAR_RATIO, gigabytes <= BAR_GB
        print(f"at least {BAR_RATIO:g} times faster than the loop: {'met' if fast else 'MISSED'}")
        print(f"below {BAR_GB:g} GB: {'met' if small else 'MISSED'}")
        return 0 if fast and small else 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Coulomb collisions of 20,000 particles: memory of ten steps, and time against a plain numpy pair loop.

Memory is the peak resident size of a fresh process that runs ten steps, imports and score oracle
included.  The numpy loop goes over the particles and sums the pairs of each in whole-array operations;
it is timed on the first rows of the sum and extrapolated to all n, since every row costs the same.  Both
are float64 in one process; ours is the best of a few repeats after a warm-up.  The table goes to
results/coulomb.csv.  Bars: below 2 GB, collisions at least 5 times faster than the loop; the ratio for a
whole step, with an oracle that is fitted anew, stands beside it.
"""

from __future__ import annotations

import time
from argparse import Namespace

import numpy as np
import torch

from discoformer.particles import Landau, landau_start
from discoformer_paper.harness.benchmark import Session, benchmark, run_fresh, seconds

BAR_GB, BAR_RATIO = 2.0, 5.0
DIM, STEPS = 3, 10
STRENGTH = 1 / 24
HEADER = [
    "n",
    "d",
    "threads",
    "oracle",
    "collision s",
    "numpy loop s",
    "ratio",
    "step s",
    "step ratio",
    "peak GB",
]
SIMULATE = """
import torch
from discoformer.particles import Landau, integrate, landau_start
from discoformer.particles.choices import choose_oracle
from discoformer_paper.harness.memory import peak_gigabytes
start = landau_start("gaussian", {dim})
points = start.sample({n}, torch.Generator().manual_seed(0))
run = integrate(Landau(-3.0), points, choose_oracle({oracle!r}, start), dt=1.0, steps={steps})
print(float(run.seconds[-1]) / {steps}, peak_gigabytes())
"""


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


def seconds_of_collisions(n: int, rows: int, repeats: int) -> tuple[float, float, float]:
    """Seconds of our velocity and of the whole numpy loop, and the largest difference of their answers."""
    start = landau_start("gaussian", DIM)
    points = start.sample(n, torch.Generator().manual_seed(0))
    scores = start.score(points)
    velocity = Landau(-3.0).velocity(points, scores)  # warm-up
    ours = seconds(lambda: Landau(-3.0).velocity(points, scores), repeats)
    begin = time.perf_counter()
    plain = plain_loop(points.numpy(), scores.numpy(), rows)
    loop = (time.perf_counter() - begin) * n / rows
    return ours, loop, float(np.abs(plain - velocity[:rows].numpy()).max())


@benchmark(__doc__, options={"--repeats": {"type": int, "default": 3}})
def main(run: Session, args: Namespace) -> None:
    n, rows = (1000, 100) if args.quick else (20_000, 500)
    ours, loop, difference = seconds_of_collisions(n, rows, args.repeats)
    print(f"numpy loop: from {rows} of {n} rows; largest difference of the answers {difference:.1e}")
    program = SIMULATE.format(dim=DIM, n=n, oracle=args.model, steps=STEPS)
    step, gigabytes = map(float, run_fresh("-c", program).split())
    cells = [n, DIM, torch.get_num_threads(), args.model, f"{ours:.4f}", f"{loop:.3f}", f"{loop / ours:.1f}"]
    cells += [f"{step:.4f}", f"{loop / step:.1f}", f"{gigabytes:.3f}"]
    run.bar("collisions, times faster than the loop", loop / ours, BAR_RATIO, below=False)
    run.bar("peak resident GB", gigabytes, BAR_GB)
    run.finish("coulomb", HEADER, [cells], by_model=False)


if __name__ == "__main__":
    raise SystemExit(main())

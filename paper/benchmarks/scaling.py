"""Time and peak memory against the number of points n, for ours and for what people use instead.

A task is to fit a sample of n points, drawn from a mixture of five Gaussians, and to answer at all of them.
Ours give log density and score, as do our chunked kernel density estimate, the same estimate as one call of
torch's fused attention (whose log-normalizer is the log density) and scikit-learn's mixtures (1 to 20
components, by BIC); the other kernel estimates give the density alone, KDEpy by FFT on a grid of 512 x 512.
All in double precision, after a small warm-up, each in a fresh process, whose peak resident memory counts
imports and data.

A size that would take more than --cap seconds, by the slope so far, is not measured in full, and neither is
one whose process has to be stopped, after twice the cap and 30 seconds to start.  Methods that answer each
point by itself are then measured at some of the points, times the ratio (kind "m of n"); the others are
extrapolated by their slope (kind "slope"; 2 is taken where one size alone is measured).  The model has a cap
of its own, twice its bar.  Only full measurements have a memory.

Measurements are kept in results/scaling_unfinished.csv as they are made, so an interrupted run continues
where it stopped; the file goes when the table is written: results/scaling.csv, and docs/images/scaling.png.

Bars for the model: the largest n in d = 10 within 60 s and 4 GB; slope of time from the middle of the range
on at most 1.1; at n = 2^17 50 times faster than our kernel estimate, 500 times faster than scipy's, for the
model and for the single network `mixture`.
"""

from __future__ import annotations

import math
import subprocess
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch
from fresh_scaling import ATTENTION, BIC, FFT, FUSED, MIXTURE, MODEL, OURS, SCIPY, TREE, measure

from discoformer.core.checks import DataError
from discoformer.models.registry import list_models
from discoformer_paper.harness import summary
from discoformer_paper.harness.benchmark import Session, benchmark, run_fresh, unfinished
from discoformer_paper.harness.contestants import core_name
from discoformer_paper.harness.figures import finish, panels
from discoformer_paper.harness.ledger import Ledger

TASK = Path(__file__).with_name("fresh_scaling.py")
BAR_SECONDS, BAR_GB, BAR_SLOPE, BAR_KDE, BAR_SCIPY = 60.0, 4.0, 1.1, 50.0, 500.0
NAMES = (MODEL, MIXTURE, ATTENTION, OURS, FUSED, SCIPY, TREE, FFT, BIC)
POINTWISE = {OURS, FUSED, SCIPY, TREE}  # every point costs the same, whatever the others
START = 30.0  # seconds for imports, data and warm-up of a fresh process
LEAST_ROWS = 256  # to judge a method by that answers each point by itself
KEYS, VALUES = ("model", "threads", "method", "d", "n", "rows"), ("seconds", "GB")
Measure = Callable[[str, int, int, int], tuple[float, float]]  # of a name, n, d and rows


class Line(NamedTuple):
    """One measurement, or what stands for it."""

    method: str
    dim: int
    size: int
    seconds: float
    gigabytes: float
    kind: str


def available(name: str, dim: int) -> bool:
    """Whether a method can be measured in this dimension; if not, why not."""
    if name == FFT and (dim > 2 or find_spec("KDEpy") is None):
        print(f"{name}, d={dim}: skipped, " + ("for one or two columns only" if dim > 2 else "not installed"))
        return False
    if name == ATTENTION and core_name(dim) not in list_models():
        print(f"{name}-d{dim}: skipped, not in the registry")
        return False
    return True


def measure_in_fresh_process(
    model: str, limit: float, name: str, size: int, dim: int, rows: int
) -> tuple[float, float]:
    """Infinity if it is stopped after the limit; NaN where it fails, for want of memory or otherwise."""
    task = [name, model, *map(str, (size, dim, rows))]
    try:
        told = run_fresh(str(TASK), *task, timeout=limit)
    except subprocess.TimeoutExpired:
        print(f"{name}, n={size} d={dim}: stopped after {limit:g} s")
        return math.inf, math.nan
    except DataError as error:
        print(f"{name}, n={size} d={dim}: {error}")
        return math.nan, math.nan
    spent, gigabytes = map(float, told.split()[-2:])
    return spent, gigabytes


def recall(
    ledger: Ledger, run: Sequence[str], call: Measure, name: str, size: int, dim: int, rows: int
) -> tuple[float, float]:
    """What the run has measured before it was interrupted, or a measurement, kept at once."""
    key = (*run, name, dim, size, rows)
    line = ledger.get(*key)
    if line is None:
        spent, gigabytes = call(name, size, dim, rows)
        if math.isnan(spent):
            return spent, gigabytes  # the next run tries again
        line = ledger.add(key, {"seconds": spent, "GB": gigabytes})
    return line["seconds"], line["GB"]


def slope(lines: Sequence[Line]) -> float:
    """Of log seconds against log n, by least squares."""
    return summary.slope({line.size: line.seconds for line in lines})


def foresee(lines: Sequence[Line], size: int) -> tuple[float, float]:
    """Seconds of the next size, and the slope they rest on; infinity if nothing is known."""
    known = [line for line in lines if not line.kind.startswith("slope")]
    trend = min(2.5, slope(known[-3:])) if len(known) > 1 else 2.0
    return lines[-1].seconds * (size / lines[-1].size) ** trend if lines else math.inf, trend


def scale(name: str, dim: int, sizes: Sequence[int], cap: float, call: Measure) -> list[Line]:
    """A line for every size: measured, or extrapolated from what is."""
    lines: list[Line] = []
    whole = True  # so far
    for size in sizes:
        predicted, trend = foresee(lines, size)
        line = None
        if whole and (len(lines) < 2 or predicted <= cap):  # two sizes at least, for a slope
            line = Line(name, dim, size, *call(name, size, dim, size), "measured")
            if math.isinf(line.seconds):
                predicted, line = max(predicted, 2 * cap), None
        if line is None:
            whole = False
            if name in POINTWISE:
                rows = min(size, max(LEAST_ROWS, int(size * cap / 4 / predicted)))
                spent, _ = call(name, size, dim, rows)
                line = Line(name, dim, size, spent, math.nan, f"{rows} of {size}")
            else:
                line = Line(name, dim, size, predicted, math.nan, f"slope {trend:.2f}")
        if not math.isfinite(line.seconds):
            break
        print(
            f"{name}, n={size} d={dim}: {line.seconds:.3f} s, {line.gigabytes:.2f} GB, {line.kind}",
            flush=True,
        )
        lines.append(line)
    return lines


def judge(run: Session, lines: Sequence[Line], dims: Sequence[int], sizes: Sequence[int]) -> None:
    """The bars; NaN, which misses them, where a measurement has failed."""
    at = {(line.method, line.dim, line.size): line for line in lines}

    def find_line(name: str, dim: int, size: int) -> Line:
        return at.get((name, dim, size), Line(name, dim, size, math.nan, math.nan, "failed"))

    top = find_line(MODEL, dims[-1], sizes[-1])
    where = f"n={top.size} d={top.dim}"
    run.bar(f"{where}: encode and read, s ({top.kind})", top.seconds, BAR_SECONDS)
    run.bar(f"{where}: peak GB ({top.kind})", top.gigabytes, BAR_GB)
    rivals = ((OURS, BAR_KDE), (SCIPY, BAR_SCIPY))
    near = min(sizes, key=lambda size: abs(math.log(size / 2**17)))
    for dim in dims:
        upper = [find_line(MODEL, dim, size) for size in sizes[(len(sizes) - 1) // 2 :]]
        steep = slope(upper) if all(math.isfinite(line.seconds) for line in upper) else math.nan
        run.bar(f"d={dim}: slope of time from n={upper[0].size} on", steep, BAR_SLOPE)
        for name in (MODEL, MIXTURE):
            ours = find_line(name, dim, near)
            for peer, bound in rivals:
                theirs = find_line(peer, dim, near)
                text = f"n={near} d={dim}: {name}, times faster than {peer} ({theirs.kind})"
                run.bar(text, theirs.seconds / ours.seconds, bound, below=False)


def draw(lines: Sequence[Line], dims: Sequence[int], path: Path) -> None:
    """Seconds and gigabytes against n, hollow where extrapolated, with the slope of what is measured."""
    figure, axes = panels(2 * len(dims), columns=len(dims), width=5.5, height=4.5)
    for spent, memory, dim in zip(axes, axes[len(dims) :], dims, strict=False):
        for index, name in enumerate(NAMES):
            own = [line for line in lines if (line.method, line.dim) == (name, dim)]
            full = [line for line in own if line.kind == "measured"]
            if not full:
                continue
            color, sizes = f"C{index}", [line.size for line in full]
            label = f"{name}: n^{slope(full[-3:]):.2f}" if len(full) > 1 else name
            every = [line.size for line in own], [line.seconds for line in own]
            spent.plot(*every, "o--", color=color, lw=1, mfc="w")
            spent.plot(sizes, [line.seconds for line in full], "o-", color=color, label=f"d={dim}, {label}")
            memory.plot(sizes, [line.gigabytes for line in full], "o-", color=color)
        spent.set(title=f"d = {dim}; hollow: extrapolated", ylabel="seconds, fit and answer at all n")
        memory.set(xlabel="n", ylabel="peak GB of the process", ylim=(0, None))
        spent.set_yscale("log")
    finish(figure, axes, log="x").savefig(path, dpi=120)


@benchmark(__doc__, options={"--cap": {"type": float, "default": 15.0, "help": "seconds a measurement (15)"}})
def main(run: Session, args: Namespace) -> None:
    dims, sizes = (2, 10), [2**k for k in (10, 12, 14, 16, 17, 18, 20)]
    if args.quick:
        dims, sizes = (2,), [256, 512, 1024]
    run.datasets = 1
    threads = str(torch.get_num_threads())
    lines: list[Line] = []
    with unfinished(run.results / "scaling_unfinished.csv", KEYS, VALUES) as ledger:
        for dim in dims:
            for name in filter(partial(available, dim=dim), NAMES):
                cap = max(args.cap, 2 * BAR_SECONDS) if name == MODEL else args.cap
                call: Measure = partial(measure_in_fresh_process, args.model, START + 2 * cap)
                if args.quick and name != MODEL:
                    call = partial(measure, args.model)
                remembered = partial(recall, ledger, (run.ours.identity, threads), call)
                lines += scale(name, dim, sizes, cap, remembered)
        draw(lines, dims, run.picture("scaling"))
        rows = [
            [name, dim, size, threads, f"{spent:.4g}", f"{gigabytes:.3f}", kind]
            for name, dim, size, spent, gigabytes, kind in lines
        ]
        run.finish("scaling", ["method", "d", "n", "threads", "seconds", "GB", "kind"], rows)
    judge(run, lines, dims, sizes)


if __name__ == "__main__":
    raise SystemExit(main())

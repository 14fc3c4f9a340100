"""Time and peak memory against the number of points n, for ours and for what people use instead.

    python paper/benchmarks/scaling.py
    python paper/benchmarks/scaling.py --quick

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

Measurements are kept in results/scaling_unfinished.csv as they are made, so an interrupted run goes on where
it stopped; the file goes when the table is written: results/scaling.csv, and docs/images/scaling.png.

Bars for the model: the largest n in d = 10 within 60 s and 4 GB; slope of time from the middle of the range
on at most 1.1; at n = 2^17 50 times faster than our kernel estimate, 500 times faster than scipy's, for the
model and for the single network `mixture`.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from discoformer.core.checks import DataError
from discoformer.core.fields import Method
from discoformer.models.registry import list_models
from discoformer.priors import GMMPrior
from discoformer_paper.harness import summary
from discoformer_paper.harness.benchmark import Session, benchmark, run_fresh, unfinished
from discoformer_paper.harness.contestants import CORE_NAME, rival
from discoformer_paper.harness.figures import finish, panels
from discoformer_paper.harness.ledger import Ledger
from discoformer_paper.harness.memory import peak_gigabytes
from discoformer_paper.harness.problems import SEED

BAR_SECONDS, BAR_GB, BAR_SLOPE, BAR_KDE, BAR_SCIPY = 60.0, 4.0, 1.1, 50.0, 500.0
MODEL, MIXTURE, ATTENTION = "model", "mixture", "attention"
OURS, FUSED, BIC = "kde, chunked", "kde, fused attention", "sklearn GMM-BIC"
SCIPY, TREE, FFT = "scipy gaussian_kde", "sklearn KernelDensity", "KDEpy FFTKDE"
NAMES = (MODEL, MIXTURE, ATTENTION, OURS, FUSED, SCIPY, TREE, FFT, BIC)
POINTWISE = {OURS, FUSED, SCIPY, TREE}  # every point costs the same, whatever the others
REPEATS = 3  # of measurements below a second
START = 30.0  # seconds for imports, data and warm-up of a fresh process
LEAST_ROWS = 256  # to judge a method by that answers each point by itself

KEYS, VALUES = ("model", "threads", "method", "d", "n", "rows"), ("seconds", "GB")
Answer = Callable[[np.ndarray], object]
Measure = Callable[[str, int, int, int], tuple[float, float]]  # of a name, n, d and rows


class Line(NamedTuple):
    """One measurement, or what stands for it."""

    method: str
    dim: int
    size: int
    seconds: float
    gigabytes: float
    kind: str


def fit_attention_kde(points: np.ndarray) -> Answer:
    """A Gaussian kernel estimate with Scott's rule: softmax attention of [y, 1] to [x, -|x|^2 / 2]."""
    n, d = points.shape
    context = torch.from_numpy(points)
    center, bandwidth = context.mean(0), context.std(0) * n ** (-1 / (d + 4))
    x = (context - center) / bandwidth
    keys = torch.cat([x, -0.5 * x.square().sum(-1, keepdim=True)], -1)[None, None]
    values = torch.cat([x, torch.zeros_like(x[:, :1])], -1)[None, None]
    constant = math.log(n) + 0.5 * d * math.log(2 * math.pi) + float(bandwidth.log().sum())

    def answer(queries: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        y = (torch.from_numpy(queries) - center) / bandwidth
        lifted = torch.cat([y, torch.ones_like(y[:, :1])], -1)[None, None]
        mean, normalizer = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            lifted, keys, values, scale=1.0
        )
        log_density = normalizer[0, 0] - 0.5 * y.square().sum(-1) - constant
        return log_density, (mean[0, 0, :, :-1] - y) / bandwidth

    return answer


def fit_scipy(points: np.ndarray) -> Answer:
    from scipy.stats import gaussian_kde

    kde = gaussian_kde(points.T)
    return lambda queries: kde.evaluate(queries.T)


def fit_tree(points: np.ndarray) -> Answer:
    """Its "scott" ignores the scale of the data, so columns are standardized first."""
    from sklearn.neighbors import KernelDensity

    scale = points.std(0)
    kde = KernelDensity(bandwidth="scott").fit(points / scale)
    return lambda queries: kde.score_samples(queries / scale)


def fit_fft(points: np.ndarray) -> Answer:
    from KDEpy import FFTKDE
    from scipy.interpolate import RegularGridInterpolator

    (n, d), scale, cells = points.shape, points.std(0), 512
    grid, density = FFTKDE(bw=n ** (-1 / (d + 4))).fit(points / scale).evaluate((cells,) * d)
    axes = [np.unique(column) for column in grid.reshape(len(density), d).T]
    table = RegularGridInterpolator(axes, density.reshape((cells,) * d))
    return lambda queries: table(queries / scale)


def spine(method: Method) -> Callable[[np.ndarray], Answer]:
    return lambda points: method.fit(points).estimate


def find(name: str, model: str, dim: int) -> Method | None:
    """The method of this package behind a name, if it is one; `DataError` if it is not there."""
    names = {
        MODEL: model,
        MIXTURE: MIXTURE,
        ATTENTION: f"{CORE_NAME}{dim}",
        OURS: "kde-scott",
        BIC: "gmm-full",
    }
    return rival(names[name]).method if name in names else None


def available(name: str, dim: int) -> bool:
    """Whether a method can be measured in this dimension; if not, why not."""
    if name == FFT and (dim > 2 or find_spec("KDEpy") is None):
        print(f"{name}, d={dim}: skipped, " + ("for one or two columns only" if dim > 2 else "not installed"))
        return False
    if name == ATTENTION and f"{CORE_NAME}{dim}" not in list_models():
        print(f"{name}-d{dim}: skipped, not in the registry")
        return False
    return True


def measure(model: str, name: str, size: int, dim: int, rows: int) -> tuple[float, float]:
    """Seconds to fit and to answer at all points, judged by the first rows, and peak gigabytes."""
    generator = torch.Generator().manual_seed(SEED)
    prior = GMMPrior(modes=(5, 5), weights="equal")
    points = prior.draw(1, dim, generator, dtype=torch.float64).sample(size, generator)[0].numpy()
    method = find(name, model, dim)
    others = {FUSED: fit_attention_kde, SCIPY: fit_scipy, TREE: fit_tree, FFT: fit_fft}
    fit = others[name] if method is None else spine(method)
    best = math.inf
    with torch.no_grad():
        fit(points[:512])(points[:64])  # warm-up: imports, weights, threads
        for _ in range(REPEATS):
            start = time.perf_counter()
            answer = fit(points)
            fitted = time.perf_counter() - start
            answer(points[:rows])
            answered = time.perf_counter() - start - fitted
            best = min(best, fitted + answered * size / rows)
            if fitted + answered > 1:
                break
    return best, peak_gigabytes()


def measure_in_fresh_process(
    model: str, limit: float, name: str, size: int, dim: int, rows: int
) -> tuple[float, float]:
    """Infinity if it is stopped after the limit; NaN where it fails, for want of memory or otherwise."""
    task = [name, model, *map(str, (size, dim, rows))]
    try:
        told = run_fresh(__file__, "--measure", *task, timeout=limit)
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
    if sys.argv[1:2] == ["--measure"]:
        task, of_model, *numbers = sys.argv[2:]
        print(*measure(of_model, task, *map(int, numbers)))
        raise SystemExit
    raise SystemExit(main())

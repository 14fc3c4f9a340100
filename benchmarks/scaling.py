"""Time and peak memory against the number of points n, for ours and for what people use instead.

    python benchmarks/scaling.py
    python benchmarks/scaling.py --quick

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
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from common import SEED, Session, Store, make_parser, session
from memory import peak_gigabytes

from discoformer.baselines import KDE, GaussianMixtureBIC
from discoformer.core.fields import Method
from discoformer.evaluation.held_out import make_method
from discoformer.models.registry import list_models
from discoformer.priors import GMMPrior

BAR_SECONDS, BAR_GB, BAR_SLOPE, BAR_KDE, BAR_SCIPY = 60.0, 4.0, 1.1, 50.0, 500.0
MODEL, MIXTURE, ATTENTION = "model", "mixture", "attention"
OURS, FUSED, BIC = "kde, chunked", "kde, fused attention", "sklearn GMM-BIC"
SCIPY, TREE, FFT = "scipy gaussian_kde", "sklearn KernelDensity", "KDEpy FFTKDE"
NAMES = (MODEL, MIXTURE, ATTENTION, OURS, FUSED, SCIPY, TREE, FFT, BIC)
POINTWISE = {OURS, FUSED, SCIPY, TREE}  # every point costs the same, whatever the others
HERE = Path(__file__)
REPEATS = 3  # of measurements below a second
START = 30.0  # seconds for imports, data and warm-up of a fresh process
LEAST_ROWS = 256  # to judge a method by that answers each point by itself

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
    """The method of the spine behind a name, if it is one; `DataError` if it is not there."""
    if name in (MODEL, MIXTURE, ATTENTION):
        return make_method({MODEL: model, ATTENTION: f"attention-d{dim}"}.get(name, name))
    return {OURS: KDE, BIC: GaussianMixtureBIC}[name]() if name in (OURS, BIC) else None


@contextmanager
def image_folder(*, quick: bool) -> Iterator[Path]:
    """docs/images, or a temporary folder."""
    if not quick:
        yield HERE.parent.parent / "docs" / "images"
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@contextmanager
def unfinished(path: Path, keys: Sequence[str], values: Sequence[str]) -> Iterator[Store]:
    """Measurements of a run that are on disk as soon as they are made, and gone when the run is through."""
    yield Store(path, keys, values)
    path.unlink(missing_ok=True)


def available(name: str, dim: int) -> bool:
    """Whether a method can be measured in this dimension; if not, why not."""
    if name == FFT and (dim > 2 or find_spec("KDEpy") is None):
        print(f"{name}, d={dim}: skipped, " + ("for one or two columns only" if dim > 2 else "not installed"))
        return False
    if name == ATTENTION and f"attention-d{dim}" not in list_models():
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
    command = [sys.executable, str(HERE), "--measure", name, model, *map(str, (size, dim, rows))]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        print(f"{name}, n={size} d={dim}: stopped after {limit:g} s")
        return math.inf, math.nan
    if told.returncode != 0:
        reason = (told.stderr.strip().splitlines() or [f"exit code {told.returncode}"])[-1]
        print(f"{name}, n={size} d={dim}: failed: {reason}")
        return math.nan, math.nan
    spent, gigabytes = map(float, told.stdout.split()[-2:])
    return spent, gigabytes


def recall(
    store: Store, run: Sequence[str], call: Measure, name: str, size: int, dim: int, rows: int
) -> tuple[float, float]:
    """What the run has measured before it was interrupted, or a measurement, kept at once."""
    key = (*run, name, dim, size, rows)
    line = store.get(*key)
    if line is None:
        spent, gigabytes = call(name, size, dim, rows)
        if math.isnan(spent):
            return spent, gigabytes  # the next run tries again
        line = store.add(key, {"seconds": spent, "GB": gigabytes})
    return line["seconds"], line["GB"]


def slope(lines: Sequence[Line]) -> float:
    """Of log seconds against log n, by least squares."""
    sizes, spent = np.log([line.size for line in lines]), np.log([line.seconds for line in lines])
    return float(np.polyfit(sizes, spent, 1)[0])


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
            for rival, bound in rivals:
                theirs = find_line(rival, dim, near)
                text = f"n={near} d={dim}: {name}, times faster than {rival} ({theirs.kind})"
                run.bar(text, theirs.seconds / ours.seconds, bound, below=False)


def draw(lines: Sequence[Line], dims: Sequence[int], path: Path) -> None:
    """Seconds and gigabytes against n, hollow where extrapolated, with the slope of what is measured."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5 * len(dims), 9), layout="constrained")
    axes = figure.subplots(2, len(dims), squeeze=False)
    for column, dim in enumerate(dims):
        for index, name in enumerate(NAMES):
            own = [line for line in lines if (line.method, line.dim) == (name, dim)]
            full = [line for line in own if line.kind == "measured"]
            if not full:
                continue
            label = f"{name}: n^{slope(full[-3:]):.2f}" if len(full) > 1 else name
            color = f"C{index}"
            spent, memory = axes[0, column], axes[1, column]
            spent.plot([line.size for line in own], [line.seconds for line in own], "--", color=color, lw=1)
            spent.plot([line.size for line in own], [line.seconds for line in own], "o", color=color, mfc="w")
            sizes = [line.size for line in full]
            spent.plot(sizes, [line.seconds for line in full], "o-", color=color, label=label)
            memory.plot(sizes, [line.gigabytes for line in full], "o-", color=color, label=name)
        axes[0, column].set(title=f"d = {dim}", ylabel="seconds, fit and answer at all n")
        axes[1, column].set(xlabel="n", ylabel="peak GB of the process")
        for axis in axes[:, column]:
            axis.set(xscale="log")
            axis.grid(alpha=0.3)
        axes[0, column].set_yscale("log")
        axes[1, column].set_ylim(bottom=0)
        handles, labels = axes[0, column].get_legend_handles_labels()
        axes[1, column].legend(
            handles,
            labels,
            fontsize=8,
            ncols=2,
            loc="upper center",
            bbox_to_anchor=(0.5, -0.18),
            title="slope of the last three sizes; hollow: extrapolated",
        )
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--cap", type=float, default=15.0, help="seconds for one measurement (default: 15)")
    parser.add_argument(
        "--measure", nargs=5, metavar=("METHOD", "MODEL", "N", "D", "ROWS"), help="one of them"
    )
    args = parser.parse_args(argv)
    if args.measure:
        name, model, *numbers = args.measure
        size, dim, count = map(int, numbers)
        print(*measure(model, name, size, dim, count))
        return 0
    if args.peers:
        parser.error("times are compared in one run, so a model is needed")
    dims: tuple[int, ...] = (2, 10)
    sizes = [2**k for k in (10, 12, 14, 16, 17, 18, 20)]
    if args.quick:
        dims, sizes = (2,), [256, 512, 1024]
    keys, values = ("model", "threads", "method", "d", "n", "rows"), ("seconds", "GB")
    with session(args) as run, image_folder(quick=args.quick) as images:
        run.datasets = 1
        threads = str(torch.get_num_threads())
        lines: list[Line] = []
        with unfinished(run.results / "scaling_unfinished.csv", keys, values) as store:
            for dim in dims:
                for name in filter(partial(available, dim=dim), NAMES):
                    cap = max(args.cap, 2 * BAR_SECONDS) if name == MODEL else args.cap
                    call: Measure = partial(measure_in_fresh_process, args.model, START + 2 * cap)
                    if args.quick and name != MODEL:
                        call = partial(measure, args.model)
                    remembered = partial(recall, store, (run.identity, threads), call)
                    lines += scale(name, dim, sizes, cap, remembered)
            draw(lines, dims, images / "scaling.png")
            rows = [
                [name, str(dim), str(size), threads, f"{spent:.4g}", f"{gigabytes:.3f}", kind]
                for name, dim, size, spent, gigabytes, kind in lines
            ]
            run.finish("scaling", ["method", "d", "n", "threads", "seconds", "GB", "kind"], rows)
        judge(run, lines, dims, sizes)
        return run.verdict()


if __name__ == "__main__":
    raise SystemExit(main())

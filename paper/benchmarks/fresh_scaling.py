"""One task of scaling.py, in a process that imports nothing else: fit a sample, answer at its points.

python paper/benchmarks/fresh_scaling.py METHOD MODEL N D ROWS    # prints seconds and peak GB
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from discoformer.core.fields import Method
from discoformer.methods import resolve
from discoformer.priors import GMMPrior
from discoformer_paper.harness.adapters import fit_density
from discoformer_paper.harness.contestants import core_name
from discoformer_paper.harness.memory import peak_gigabytes

MODEL, MIXTURE, ATTENTION = "model", "mixture", "attention"
OURS, FUSED, BIC = "kde, chunked", "kde, fused attention", "sklearn GMM-BIC"
SCIPY, TREE, FFT = "scipy gaussian_kde", "sklearn KernelDensity", "KDEpy FFTKDE"
SEED = 3_000_000  # of all tests
REPEATS = 3  # of measurements below a second

Answer = Callable[[np.ndarray], object]


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


def find(name: str, model: str, dim: int) -> Method | None:
    """The method of this package behind a name, if it is one; `DataError` if it is not there."""
    names = {
        MODEL: model,
        MIXTURE: MIXTURE,
        ATTENTION: core_name(dim),
        OURS: "kde-scott",
        BIC: "gmm-full",
    }
    return resolve(names[name]).method if name in names else None


def measure(model: str, name: str, size: int, dim: int, rows: int) -> tuple[float, float]:
    """Seconds to fit and to answer at all points, judged by the first rows, and peak gigabytes."""
    generator = torch.Generator().manual_seed(SEED)
    prior = GMMPrior(modes=(5, 5), weights="equal")
    points = prior.draw(1, dim, generator, dtype=torch.float64).sample(size, generator)[0].numpy()
    method = find(name, model, dim)
    others = {FUSED: fit_attention_kde, SCIPY: fit_scipy, TREE: fit_tree, FFT: fit_fft}
    fit = others[name] if method is None else lambda points: fit_density(method, points).estimate
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


if __name__ == "__main__":
    task, of_model, *numbers = sys.argv[1:]
    print(*measure(of_model, task, *map(int, numbers)))

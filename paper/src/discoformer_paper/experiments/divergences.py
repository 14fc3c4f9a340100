"""Kullback-Leibler divergence and relative Fisher information between random mixtures.

Every seed is a pair of Gaussian mixtures (the paper's prior, equal weights) in d = 2 and d = 5, and n
points of each, n = 128 .. 8192.  The truth is a mean over a million points with the exact densities.
Both divergences are estimated by folds, `split="folds"`; nearest neighbours (KL only) are used as in
their literature.  The paper's core is also measured by the paper's scheme, plug-in at the sample of f itself.
The paper has the formulas and a picture, but no numbers.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from discoformer.baselines import kde
from discoformer.core.fields import Method
from discoformer.functionals import ImpossibleWarning, Split, kl_divergence, relative_fisher_information
from discoformer.functionals.neighbours import knn_kl_divergence
from discoformer.priors import Distribution, GMMPrior
from discoformer_paper.experiments.entropy_fisher import NEIGHBOURS
from discoformer_paper.harness.adapters import Cached
from discoformer_paper.harness.contestants import core_name, is_core
from discoformer_paper.harness.figures import Figure, curve, finish, panels, title_of
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.labels import CORE, KDE, OURS
from discoformer_paper.harness.problems import functional_seeds
from discoformer_paper.harness.summary import Line, Summary, against, judge

KEYS = ("d", "n", "seed", "method")
DIMS = (2, 5)
SIZES = tuple(2**k for k in range(7, 14))
VALUES = ("kl", "kl_error", "rfi", "rfi_error")
TITLES = {"kl": "KL divergence", "rfi": "relative Fisher information"}
PLUG_IN, CROSS_FITTED = "plug-in", "paper's core, default scheme"
TRUTH_POINTS, BLOCK = 1_000_000, 50_000
Estimator = Callable[[Tensor, Tensor], tuple[float, float]]


def pair(dim: int, seed: int) -> tuple[Distribution, Distribution, torch.Generator]:
    """Two random mixtures, and the generator that drew them."""
    generator = torch.Generator().manual_seed(seed)
    f, g = (GMMPrior(weights="equal").draw(1, dim, generator, dtype=torch.float64) for _ in range(2))
    return f, g, generator


@cache
def truth(dim: int, seed: int, points: int) -> tuple[float, float]:
    """Both divergences of a pair, by Monte Carlo with the exact densities."""
    f, g, generator = pair(dim, seed)
    sums = torch.zeros(2, dtype=torch.float64)
    for _ in range(points // BLOCK):
        x = f.sample(BLOCK, generator)
        (log_f, score_f), (log_g, score_g) = f.estimate(x), g.estimate(x)
        gap = (score_f - score_g).square().sum(-1)
        sums += torch.stack([(log_f - log_g).mean(), gap.mean()]) * BLOCK / points
    return float(sums[0]), float(sums[1])


def by_method(method: Method, x: Tensor, y: Tensor, split: Split = "folds") -> tuple[float, float]:
    cached = Cached(method, fits=7)  # one without each fold, and one to each sample
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ImpossibleWarning)  # impossible values count as errors here
        kl, rfi = (call(x, y, cached, split=split) for call in (kl_divergence, relative_fisher_information))
    return float(kl.value), float(rfi.value)


def by_neighbours(x: Tensor, y: Tensor) -> tuple[float, float]:
    return float(knn_kl_divergence(x, y).value), math.nan


def measure(estimator: Estimator, dim: int, size: int, seed: int, points: int) -> dict[str, float]:
    """Both estimates and their relative errors."""
    f, g, generator = pair(dim, seed)
    generator.manual_seed(seed + size)  # not the points of the truth
    kl, rfi = estimator(f.sample(size, generator)[0], g.sample(size, generator)[0])
    true_kl, true_rfi = truth(dim, seed, points)
    errors = (kl, abs(kl / true_kl - 1), rfi, abs(rfi / true_rfi - 1))
    return dict(zip(VALUES, errors, strict=True))


def run(context: Context) -> Iterator[Job]:
    points = BLOCK if context.quick else TRUTH_POINTS
    for dim in DIMS:
        for size in SIZES[:2] if context.quick else SIZES:
            # cross-fitting asks a quadratic network six times: half of the core's largest n
            networks = context.networks.for_dim(dim, 2 * size)
            estimators: dict[str, Estimator] = {c.identity: partial(by_method, c.method) for c in networks}
            estimators |= {"kde": partial(by_method, kde.KDE()), NEIGHBOURS: by_neighbours}
            estimators |= {
                c.variant(PLUG_IN): partial(by_method, c.method, split="none")
                for c in context.networks.for_dim(dim, size)
                if is_core(c.label)
            }
            for method, estimator in estimators.items():
                for seed in functional_seeds(context.seeds):
                    key = (dim, size, seed, method)
                    yield Job.single(key, partial(measure, estimator, dim, size, seed, points))


def summary(rows: Rows, ours: str) -> Summary:
    lines = []
    for dim in DIMS:
        core = core_name(dim)
        methods = {CORE: f"{core}, {PLUG_IN}", OURS: ours, CROSS_FITTED: core}
        methods |= {NEIGHBOURS: NEIGHBOURS, KDE: "kde"}
        for what, title in TITLES.items():
            for size in rows.where(d=dim).numbers("n"):
                found = rows.where(d=dim, n=size).columns(methods, f"{what}_error", 100)
                lines.append(Line(f"{title}, d={dim}, n={size}", found))
    text = "below KDE's error for both divergences at every n"
    unit = "relative error, % (the paper's core: the paper's scheme)"
    return Summary(unit, lines, [judge("ours", text, against(lines, OURS, KDE))], rivals=(NEIGHBOURS, KDE))


def figure(rows: Rows, context: Context) -> Figure:
    picture, axes = panels(4, columns=2, width=4.8)
    cells = [(dim, what) for dim in DIMS for what in TITLES]
    for panel, (dim, what) in zip(axes, cells, strict=True):
        for method in rows.where(d=dim).entries("method"):
            found = rows.where(d=dim, method=method).by("n", f"{what}_error")
            plug_in = method.endswith(PLUG_IN)
            hollow: dict[str, Any] = {"markerfacecolor": "white", "linewidth": 0.9} if plug_in else {}
            points = {n: 100 * error for n, error in found.items()}
            curve(panel, points, method, title_of(method) + f", {PLUG_IN}" * plug_in, **hollow)
        panel.set(title=f"{TITLES[what]}, d = {dim}", xlabel="n", ylabel="relative error, %")
    return finish(picture, axes, log="xy", base=2)

"""What Figures 7, 8 and 9 share: mixtures, variants of SD-KDE, and their integrated squared error.

Mixtures: the three of the SD-KDE authors in one dimension, with Gaussian and with Laplace components
(error on [-8, 8], step 0.05), and one in two dimensions (on [-6, 6]^2, step 0.2).  Figures 7 and 8 show
one mixture at one n.  The paper does not say which, so errors are compared as shares of what Scott's
kernel density estimate has on the same samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial

import torch
from torch import Tensor

from discoformer.baselines import kde
from discoformer.baselines.sdkde import SDKDE, AutogradScore
from discoformer.core.fields import Method
from discoformer.priors import Distribution, Laplace, Normal
from discoformer_paper.harness.adapters import Cached, fit_density
from discoformer_paper.harness.contestants import Networks, core_name, is_core
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.labels import CORE, KDE, OURS
from discoformer_paper.harness.problems import fixed_mixture, functional_seeds
from discoformer_paper.harness.summary import Claim, Line, Whose, judge, least, measured

__all__ = [
    "BELOW",
    "EMPIRICAL",
    "EXACT",
    "LARGEST_AUTOGRAD",
    "ONE_DIMENSION",
    "RULES",
    "TITLES",
    "TRUTH",
    "beats_kernels",
    "densities",
    "draw_sample",
    "grid_of",
    "jobs",
    "mixtures",
    "shares_of_kde",
    "size_of",
]

RULES = ("scott", "sd-kde")
ONE_DIMENSION = ((0.4, -2.0, 0.5, 2.0, 1.0), (0.3, -2.0, 0.4, 4.0, 1.5), (0.5, 0.0, 0.4, 1.5, 1.5))
LARGEST_AUTOGRAD = 1024  # for the paper's core: gradients of its density cost five times as much as it
SIZE, QUICK_SIZE = 2048, 256  # the n that the paper's model was trained on
EMPIRICAL, EXACT, TRUTH = "Emp-SD-KDE", "exact score", "true density"
TITLES = {"scott": "Scott's rule", "sd-kde": "rule of SD-KDE", "none": ""}
LEARNED = "SD-KDE, learned score"
BELOW = "SD-KDE with the learned score has less error than KDE and Emp-SD-KDE"


@cache
def mixtures() -> dict[str, Distribution]:
    """The truths by name."""
    found: dict[str, Distribution] = {}
    for name, family, unit in (("gauss", Normal(), 1.0), ("laplace", Laplace(), math.sqrt(2))):
        for index, (share, mean1, scale1, mean2, scale2) in enumerate(ONE_DIMENSION, 1):
            std = [[unit * scale1], [unit * scale2]]  # the authors' Laplace scale is not a standard deviation
            found[f"{name}{index}"] = fixed_mixture([share, 1 - share], [[mean1], [mean2]], std, family)
    means, std = [[-2.0, 0.0], [1.5, 1.5], [1.0, -2.0]], [[0.6, 1.2], [1.0, 0.5], [0.7, 0.7]]
    return found | {"plane": fixed_mixture([0.4, 0.35, 0.25], means, std)}


def grid_of(dim: int) -> tuple[Tensor, float]:
    """Points (m, d) and the volume of a cell."""
    if dim == 1:
        return torch.arange(-8, 8 + 1e-9, 0.05, dtype=torch.float64).unsqueeze(-1), 0.05
    axis = torch.arange(-6, 6 + 1e-9, 0.2, dtype=torch.float64)
    return torch.cartesian_prod(axis, axis), 0.04


def variants(
    networks: Networks, truth: Distribution, size: int, largest_autograd: int
) -> dict[tuple[str, str, str], Method]:
    """Methods by name, variant and rule; autograd of the paper's core up to a largest n."""
    found: dict[tuple[str, str, str], Method] = {("kde", "plain", "scott"): kde.KDE("scott")}
    ours = {c.identity: Cached(c.method) for c in networks.for_dim(truth.dim, size)}
    for rule in RULES:
        found["kde", "empirical", rule] = SDKDE("empirical", rule)
        found["exact", "score", rule] = SDKDE(truth, rule)
    for name, network in ours.items():
        # scores do not depend on the bandwidth, and those of a quadratic network are expensive
        scores: dict[str, Method] = {"score": network}
        if not is_core(name) or size <= largest_autograd:
            scores["autograd"] = AutogradScore(network)
        for variant, source in scores.items():
            cached = Cached(source, answers=True)
            found |= {(name, variant, rule): SDKDE(cached, rule) for rule in RULES}
    return found | {(name, "direct", "none"): network for name, network in ours.items()}


def integrated_error(method: Method, mixture: str, size: int, seed: int) -> dict[str, float]:
    """Integrated squared error of the density."""
    truth = mixtures()[mixture]
    sample = truth.sample(size, torch.Generator().manual_seed(seed))
    grid, cell = grid_of(truth.dim)
    with torch.no_grad():
        gap = fit_density(method, sample).log_density(grid).exp() - truth.log_density(grid).exp()
    return {"ise": float(gap.square().sum() * cell)}


def jobs(context: Context, mixture: str, size: int, largest_autograd: int, *first: object) -> Iterator[Job]:
    """All variants on the samples of one mixture; keys begin with ``first``."""
    methods = variants(context.networks, mixtures()[mixture], size, largest_autograd)
    for seed in functional_seeds(context.seeds):
        for key, method in methods.items():
            measure = partial(integrated_error, method, mixture, size, seed)
            yield Job.single((*first, size, seed, *key), measure)


def size_of(context: Context) -> int:
    """Number of points in Figures 7 and 8."""
    return QUICK_SIZE if context.quick else SIZE


def _shares(rows: Rows, ours: str, core: str, variant: str, rule: str) -> dict[str, float]:
    """Mean errors of a variant in percent of KDE's, by column."""
    plain = ("kde", "plain", "scott")
    cells = {CORE: (core, variant, rule), OURS: (ours, variant, rule), KDE: plain}
    if variant == "score":
        cells |= {EXACT: ("exact", "score", rule), EMPIRICAL: ("kde", "empirical", rule)}
    errors = {c: rows.where(method=m, variant=v, rule=r).mean("ise") for c, (m, v, r) in cells.items()}
    return {column: 100 * error / errors[KDE] for column, error in errors.items()}


def shares_of_kde(
    rows: Rows, ours: str, dim: int, published: Mapping[str, Mapping[str, float]]
) -> list[Line]:
    """Lines for the learned score, autograd and the direct density; ``published`` by variant and column.

    The published numbers stand beside Scott's rule, the only one that the paper names.
    """
    names = {"score": LEARNED, "autograd": "SD-KDE, autograd", "direct": "direct density"}
    lines = []
    for variant, name in names.items():
        for rule in ("none",) if variant == "direct" else RULES:
            found = _shares(rows, ours, core_name(dim), variant, rule)
            if rule != "sd-kde":
                found |= published.get(variant, {})
            lines.append(Line(", ".join(filter(None, (name, TITLES[rule]))), found))
    return lines


def beats_kernels(whose: Whose, lines: Sequence[Line]) -> Claim:
    """The claim that a learned score is better than none and than the kernel's own.

    The paper's is judged by Scott's rule, the only one that it names, ours by either.
    """
    column, rules = (CORE, RULES[:1]) if whose == "paper" else (OURS, RULES)
    learned = [line for line in lines if line.what in {f"{LEARNED}, {TITLES[rule]}" for rule in rules}]
    found = {line.what: line.found for line in learned}
    cases = {what: (at[column], least(at[KDE], at[EMPIRICAL])) for what, at in found.items()}
    return judge(whose, BELOW, measured(cases))


def draw_sample(truth: Distribution, size: int) -> Tensor:
    """The first sample, which the pictures show."""
    return truth.sample(size, torch.Generator().manual_seed(functional_seeds(1)[0]))


def densities(
    methods: Mapping[str, Method], truth: Distribution, size: int, grid: Tensor
) -> dict[str, Tensor]:
    """The exact density on a grid and those of the methods, all of the first sample."""
    sample = draw_sample(truth, size)
    with torch.no_grad():
        fits = {name: fit_density(method, sample) for name, method in methods.items()}
        found = {name: field.log_density(grid).exp() for name, field in fits.items()}
    return {TRUTH: truth.log_density(grid).exp()} | found

"""Figure 9: density estimation with SD-KDE, integrated squared error against the number of points.

Mixtures: the three of the SD-KDE authors in one dimension, with Gaussian and with Laplace components (error
on [-8, 8], step 0.05), and one in two dimensions (on [-6, 6]^2, step 0.2), n = 128 .. 16384.  Variants: plain
KDE; SD-KDE with the kernel's own score (empirical), with a network's score, with the gradient of its log
density (autograd; the paper's core up to n = 1024) and with the exact score (a bound); and the network's
density directly.  Bandwidths: Scott's rule, and for SD-KDE also the rule of its authors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from discoformer.baselines import kde
from discoformer.baselines.sdkde import SDKDE, AutogradScore
from discoformer.experiments.contestants import CORE_NAME, Networks
from discoformer.experiments.entropy_fisher import FUNCTIONAL_SEED
from discoformer.experiments.harness import Context, Experiment, Job
from discoformer.experiments.ledger import Rows
from discoformer.experiments.once import Once
from discoformer.experiments.pictures import curve, finish, panels, title_of
from discoformer.experiments.summary import CORE, KDE, OURS, Line, Summary, every, least
from discoformer.fields import Method
from discoformer.priors import Distribution, Laplace, LocationScaleMixture, Normal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

SIZES = tuple(2**k for k in range(7, 15))
RULES = ("scott", "sd-kde")
ONE_DIMENSION = ((0.4, -2.0, 0.5, 2.0, 1.0), (0.3, -2.0, 0.4, 4.0, 1.5), (0.5, 0.0, 0.4, 1.5, 1.5))
LARGEST_AUTOGRAD = 1024  # for the paper's core: gradients of its density are five times as dear as it
UNIT = 1e4  # errors are shown in units of 1e-4


@cache
def mixtures() -> dict[str, Distribution]:
    """The truths by name."""
    found: dict[str, Distribution] = {}
    for name, family, unit in (("gauss", Normal(), 1.0), ("laplace", Laplace(), math.sqrt(2))):
        for index, (share, *parts) in enumerate(ONE_DIMENSION, 1):
            means, scales = parts[::2], parts[1::2]  # the authors' scale of a Laplace is not its deviation
            found[f"{name}{index}"] = _mixture(
                [share, 1 - share], [[m] for m in means], [[unit * s] for s in scales], family
            )
    means2 = [[-2.0, 0.0], [1.5, 1.5], [1.0, -2.0]]
    found["plane"] = _mixture([0.4, 0.35, 0.25], means2, [[0.6, 1.2], [1.0, 0.5], [0.7, 0.7]], Normal())
    return found


def _mixture(weights: object, means: object, std: object, family: Normal | Laplace) -> LocationScaleMixture:
    w, m, s = (torch.tensor(values, dtype=torch.float64) for values in (weights, means, std))
    return LocationScaleMixture(w, m, s, family=family)


def grid_of(dim: int) -> tuple[Tensor, float]:
    """Points (m, d) and the volume of a cell."""
    if dim == 1:
        return torch.arange(-8, 8 + 1e-9, 0.05, dtype=torch.float64).unsqueeze(-1), 0.05
    axis = torch.arange(-6, 6 + 1e-9, 0.2, dtype=torch.float64)
    return torch.cartesian_prod(axis, axis), 0.04


def variants(networks: Networks, truth: Distribution, size: int) -> dict[tuple[str, str, str], Method]:
    """Methods by name, variant and rule."""
    found: dict[tuple[str, str, str], Method] = {("kde", "plain", "scott"): kde.KDE("scott")}
    ours = {c.identity: Once(c.method) for c in networks.for_dim(truth.dim, size)}
    for rule in RULES:
        found["kde", "empirical", rule] = SDKDE("empirical", rule)
        found["exact", "score", rule] = SDKDE(truth, rule)
    for name, network in ours.items():
        # the scores do not depend on the bandwidth, and those of a quadratic network are dear
        scores: dict[str, Method] = {"score": network}
        if not name.startswith(CORE_NAME) or size <= LARGEST_AUTOGRAD:
            scores["autograd"] = AutogradScore(network)
        for variant, source in scores.items():
            once = Once(source, answers=True)
            found |= {(name, variant, rule): SDKDE(once, rule) for rule in RULES}
    return found | {(name, "direct", "none"): network for name, network in ours.items()}


def integrated_error(method: Method, mixture: str, size: int, seed: int) -> dict[str, float]:
    """Integrated squared error of the density."""
    truth = mixtures()[mixture]
    sample = truth.sample(size, torch.Generator().manual_seed(seed))
    grid, cell = grid_of(truth.dim)
    with torch.no_grad():
        gap = method.fit(sample).log_density(grid).exp() - truth.log_density(grid).exp()
    return {"ise": float(gap.square().sum() * cell)}


def run(context: Context) -> Iterator[Job]:
    names = ("gauss1", "plane") if context.quick else tuple(mixtures())
    for name in names:
        for size in SIZES[:2] if context.quick else SIZES:
            methods = variants(context.networks, mixtures()[name], size)
            for seed in range(FUNCTIONAL_SEED, FUNCTIONAL_SEED + context.seeds):
                for key, method in methods.items():
                    yield Job.single(
                        (name, size, seed, *key), partial(integrated_error, method, name, size, seed)
                    )


def slope(means: dict[float, float]) -> float:
    """Slope of the logarithm of the error in log n; NaN if it is not there at two sizes."""
    if len(means) < 2:
        return math.nan
    return float(np.polyfit(np.log(list(means)), np.log(list(means.values())), 1)[0])


def by_size(rows: Rows, method: str, variant: str, rules: Sequence[str] = RULES) -> dict[float, float]:
    """Mean integrated squared error by n, with the better one of the rules."""
    found = [rows.where(method=method, variant=variant, rule=rule) for rule in rules]
    sizes = sorted({n for at in found for n in at.numbers("n")})
    return {float(n): UNIT * least(*(at.where(n=n).mean("ise") for at in found)) for n in sizes}


def summary(rows: Rows, ours: str) -> Summary:
    lines = []
    core_cases: dict[str, tuple[float, float]] = {}
    our_cases: dict[str, dict[str, tuple[float, float]]] = {rule: {} for rule in RULES}
    exact_cases: dict[str, tuple[float, float]] = {}
    slopes: dict[str, tuple[float, float]] = {}
    small: dict[str, tuple[float, float]] = {}
    steeper: dict[str, tuple[float, float]] = {}
    for mixture in rows.entries("mixture"):
        at = rows.where(mixture=mixture)
        core = f"{CORE_NAME}{mixtures()[mixture].dim}"
        curves = {
            CORE: by_size(at, core, "score"),
            OURS: by_size(at, ours, "score"),
            "autograd": by_size(at, ours, "autograd"),
            "direct density": by_size(at, ours, "direct", ("none",)),
            "exact score": by_size(at, "exact", "score"),
            "Emp-SD-KDE": by_size(at, "kde", "empirical"),
            KDE: by_size(at, "kde", "plain"),
        }
        sizes = at.numbers("n")
        for size in (sizes[0], *sizes[4::3]):
            found = {column: points.get(size, math.nan) for column, points in curves.items()}
            lines.append(Line(f"{mixture}, n={size:g}", found))
        lines.append(Line(f"{mixture}, slope in n", {c: slope(points) for c, points in curves.items()}))
        slopes[mixture] = (slope(curves[OURS]), slope(curves[KDE]))
        direct = by_size(at, core, "direct", ("none",))
        if direct:
            first = sizes[0]
            rivals = (curves[CORE], by_size(at, core, "autograd"), curves["Emp-SD-KDE"], curves[KDE])
            small[mixture] = (
                direct.get(first, math.nan),
                least(*(points.get(first, math.nan) for points in rivals)),
            )
            steeper[mixture] = (slope(curves[CORE]), slope(direct))
        for size in sizes:
            for rule in RULES:
                empirical = by_size(at, "kde", "empirical", (rule,)).get(size, math.nan)
                rival = least(curves[KDE].get(size, math.nan), empirical)
                what = f"{mixture}, {rule} rule, n={size:g}"
                for method, cases in ((core, core_cases), (ours, our_cases[rule]), ("exact", exact_cases)):
                    points = by_size(at, method, "score", (rule,))
                    if size in points:
                        cases[what] = (points[size], rival)
    text = "SD-KDE with the learned score has less error than KDE and Emp-SD-KDE"
    claims = [
        every("paper", text, core_cases),
        every("paper", "at the smallest n the Transformer's own density has the least error", small),
        every("paper", "but its error falls more slowly with n than that of SD-KDE (slopes)", steeper),
        *(every("ours", f"{text} ({rule} rule)", cases) for rule, cases in our_cases.items()),
        every("ours", "for comparison, so has SD-KDE with the exact score (both rules)", exact_cases),
        every("ours", "and its error falls faster with n than KDE's (slopes)", slopes),
    ]
    return Summary(
        "integrated squared error of the density, 1e-4 (SD-KDE: the better one of two rules for h), "
        "and the slope of its logarithm in that of n",
        lines,
        claims,
        rivals=("Emp-SD-KDE", KDE),
    )


def figure(rows: Rows, context: Context) -> Figure:
    names = rows.entries("mixture")
    picture, axes = panels(len(names), columns=min(4, len(names)), width=4.0)
    for panel, name in zip(axes, names, strict=True):
        at = rows.where(mixture=name)
        for method in at.entries("method"):
            for variant in at.where(method=method).entries("variant"):
                if variant != "autograd":  # it lies on the score's
                    rules = ("none",) if variant == "direct" else RULES
                    style = "emp-sd-kde" if variant == "empirical" else method
                    fill: dict[str, Any] = {"markerfacecolor": "white"} if variant == "direct" else {}
                    points = by_size(at, method, variant, rules)
                    curve(panel, points, style, _label(method, variant), **fill)
        panel.set(title=name, xlabel="n", ylabel=r"integrated squared error, $10^{-4}$")
    return finish(picture, axes, log="xy", base=2)


def _label(method: str, variant: str) -> str:
    names = {"plain": "KDE", "empirical": "Emp-SD-KDE", "direct": f"{title_of(method)}, direct density"}
    source = "exact score" if method == "exact" else f"score of {title_of(method)}"
    return names.get(variant, f"SD-KDE, {source}")


EXPERIMENT = Experiment(
    name="sdkde",
    title="Density estimation with SD-KDE",
    source="Figure 9",
    shows="Kernel density debiased by a score: whose score debiases best, and how the error falls with n.",
    keys=("mixture", "n", "seed", "method", "variant", "rule"),
    values=("ise",),
    seeds=20,
    run=run,
    summary=summary,
    figure=figure,
)

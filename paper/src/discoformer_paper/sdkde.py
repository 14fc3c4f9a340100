"""Figure 9: density estimation with SD-KDE, integrated squared error against the number of points.

Mixtures: the three of the SD-KDE authors in one dimension, with Gaussian and with Laplace components (error
on [-8, 8], step 0.05), and one in two dimensions (on [-6, 6]^2, step 0.2), n = 128 .. 16384.  Variants: plain
KDE; SD-KDE with the kernel's own score (empirical), with a network's score, with the gradient of its log
density (autograd; the paper's core up to n = 1024) and with the exact score (a bound); and the network's
density directly.  Bandwidths: Scott's rule, and for SD-KDE also the rule of its authors.  The paper's claims
are judged on the Gaussian mixtures and by Scott's rule, the only one that it names; slopes are over the n at
which all have answered.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discoformer.baselines import kde
from discoformer.baselines.sdkde import SDKDE, AutogradScore
from discoformer.core.fields import Method
from discoformer.priors import Distribution, Laplace, LocationScaleMixture, Normal
from discoformer_paper.contestants import CORE_NAME, Networks
from discoformer_paper.entropy_fisher import FUNCTIONAL_SEED
from discoformer_paper.harness import Context, Experiment, Job
from discoformer_paper.ledger import Rows
from discoformer_paper.once import Once
from discoformer_paper.pictures import curve, finish, panels, title_of
from discoformer_paper.summary import CORE, KDE, OURS, Line, Summary, every, least, slope

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

SIZES = tuple(2**k for k in range(7, 15))
RULES = ("scott", "sd-kde")
ONE_DIMENSION = ((0.4, -2.0, 0.5, 2.0, 1.0), (0.3, -2.0, 0.4, 4.0, 1.5), (0.5, 0.0, 0.4, 1.5, 1.5))
LARGEST_AUTOGRAD = 1024  # for the paper's core: gradients of its density are five times as dear as it
SCOTT, NONE = ("scott",), ("none",)  # rules
BELOW = "SD-KDE with the learned score has less error than KDE and Emp-SD-KDE"
SCALING = (
    "SD-KDE with the learned score and the Transformer's own density scale best with n: "
    "steeper slopes than those of KDE and Emp-SD-KDE"
)
SMALL = "at the smallest n the Transformer's own density has the least error"
SLOWER = "but its slope in n is flatter than that of SD-KDE with the learned score"
CLAIMS = (BELOW, SCALING, SMALL, SLOWER)  # of the paper
Cases = dict[str, tuple[float, float]]
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


def variants(
    networks: Networks, truth: Distribution, size: int, largest_autograd: int = LARGEST_AUTOGRAD
) -> dict[tuple[str, str, str], Method]:
    """Methods by name, variant and rule; autograd of the paper's core up to a largest n."""
    found: dict[tuple[str, str, str], Method] = {("kde", "plain", "scott"): kde.KDE("scott")}
    ours = {c.identity: Once(c.method) for c in networks.for_dim(truth.dim, size)}
    for rule in RULES:
        found["kde", "empirical", rule] = SDKDE("empirical", rule)
        found["exact", "score", rule] = SDKDE(truth, rule)
    for name, network in ours.items():
        # the scores do not depend on the bandwidth, and those of a quadratic network are dear
        scores: dict[str, Method] = {"score": network}
        if not name.startswith(CORE_NAME) or size <= largest_autograd:
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


def by_size(rows: Rows, method: str, variant: str, rules: Sequence[str] = RULES) -> dict[float, float]:
    """Mean integrated squared error by n, with the better one of the rules."""
    found = [rows.where(method=method, variant=variant, rule=rule) for rule in rules]
    sizes = sorted({n for at in found for n in at.numbers("n")})
    return {float(n): UNIT * least(*(at.where(n=n).mean("ise") for at in found)) for n in sizes}


def slopes(curves: Mapping[str, Mapping[float, float]]) -> dict[str, float]:
    """Slopes of curves over the n that all of them have, apart from those without any.

    >>> found = slopes({"a": {1: 1.0, 2: 0.5, 4: 7.0}, "b": {1: 1.0, 2: 2.0}, "c": {}})
    >>> [round(slope, 9) for slope in found.values()]
    [-1.0, 1.0, nan]
    """
    sizes = [set(points) for points in curves.values() if points]
    common = set.intersection(*sizes) if sizes else set()
    return {
        name: slope({n: error for n, error in points.items() if n in common})
        for name, points in curves.items()
    }


def summary(rows: Rows, ours: str) -> Summary:
    lines = []
    paper: dict[str, Cases] = {text: {} for text in CLAIMS}
    bars: dict[str, Cases] = {rule: {} for rule in RULES}
    exact: dict[str, Cases] = {rule: {} for rule in RULES}
    steeper: Cases = {}
    for mixture in rows.entries("mixture"):
        at = rows.where(mixture=mixture)
        core = f"{CORE_NAME}{mixtures()[mixture].dim}"
        curves = {
            CORE: by_size(at, core, "score"),
            OURS: by_size(at, ours, "score"),
            "autograd": by_size(at, ours, "autograd"),
            "direct density": by_size(at, ours, "direct", NONE),
            "exact score": by_size(at, "exact", "score"),
            "Emp-SD-KDE": by_size(at, "kde", "empirical"),
            KDE: by_size(at, "kde", "plain"),
        }
        sizes = at.numbers("n")
        for size in (sizes[0], *sizes[4::3]):
            found = {column: points.get(size, math.nan) for column, points in curves.items()}
            lines.append(Line(f"{mixture}, n={size:g}", found))
        lines.append(Line(f"{mixture}, slope in n", slopes(curves)))
        steeper[mixture] = (lines[-1].found[OURS], lines[-1].found[KDE])
        if not mixture.startswith("laplace"):
            for text, cases in claims_of(at, core).items():
                paper[text] |= {f"{mixture}{what}": case for what, case in cases.items()}
        for rule in RULES:
            rivals = kernels(at, rule)
            for method, cases in ((ours, bars[rule]), ("exact", exact[rule])):
                for size, error in by_size(at, method, "score", (rule,)).items():
                    cases[f"{mixture}, n={size:g}"] = (error, rivals.get(size, math.nan))
    claims = [
        every("paper", f"{text} (Gaussian mixtures, Scott's rule)", cases) for text, cases in paper.items()
    ]
    for rule, cases in bars.items():
        claim = every("ours", f"{BELOW} (all mixtures, {rule} rule)", cases)
        kept = sum(error <= bound for error, bound in exact[rule].values())
        told = f"{claim.evidence}; with the exact score {kept} of {len(exact[rule])}"
        claims.append(claim._replace(evidence=told))
    claims.append(every("ours", "and its error falls faster with n than KDE's (slopes)", steeper))
    return Summary(
        "integrated squared error of the density, 1e-4 (SD-KDE: the better one of two rules for h), "
        "and the slope of its logarithm in that of n, over the n that all have",
        lines,
        claims,
        rivals=("Emp-SD-KDE", KDE),
    )


def kernels(rows: Rows, rule: str) -> dict[float, float]:
    """The lower one of the errors of KDE and Emp-SD-KDE, by n."""
    found = [by_size(rows, "kde", "plain"), by_size(rows, "kde", "empirical", (rule,))]
    sizes = sorted({n for points in found for n in points})
    return {n: least(*(points.get(n, math.nan) for points in found)) for n in sizes}


def claims_of(rows: Rows, core: str) -> dict[str, Cases]:
    """Cases of the claims of the paper on one mixture, by Scott's rule; none without the core."""
    score, direct = by_size(rows, core, "score", SCOTT), by_size(rows, core, "direct", NONE)
    if not score:
        return {}
    first, rivals = min(score), kernels(rows, "scott")
    others = (score, by_size(rows, core, "autograd", SCOTT), rivals)
    falling = {
        "SD-KDE": score,
        "direct": direct,
        "KDE": by_size(rows, "kde", "plain"),
        "Emp-SD-KDE": by_size(rows, "kde", "empirical", SCOTT),
    }
    found = slopes(falling)
    steepest = least(found["KDE"], found["Emp-SD-KDE"])
    return {
        BELOW: {f", n={n:g}": (error, rivals.get(n, math.nan)) for n, error in score.items()},
        SCALING: {f", {name}": (found[name], steepest) for name in ("SD-KDE", "direct")},
        SMALL: {
            "": (direct.get(first, math.nan), least(*(points.get(first, math.nan) for points in others)))
        },
        SLOWER: {"": (found["SD-KDE"], found["direct"])},
    }


def figure(rows: Rows, context: Context) -> Figure:
    names = rows.entries("mixture")
    picture, axes = panels(len(names), columns=min(4, len(names)), width=4.0)
    for panel, name in zip(axes, names, strict=True):
        at = rows.where(mixture=name)
        for method in at.entries("method"):
            for variant in at.where(method=method).entries("variant"):
                if variant != "autograd":  # it lies on the score's
                    rules = NONE if variant == "direct" else RULES
                    style = "emp-sd-kde" if variant == "empirical" else method
                    fill: dict[str, Any] = {"markerfacecolor": "white"} if variant == "direct" else {}
                    points = by_size(at, method, variant, rules)
                    curve(panel, points, style, _label(method, variant), **fill)
        title = f"{name}: {_formula(name)}"
        panel.set(title=title, xlabel="n", ylabel=r"integrated squared error, $10^{-4}$")
    note = "SD-KDE and Emp-SD-KDE: at every n the better one of two bandwidths, Scott's and the authors'"
    picture.suptitle(note, fontsize=11)
    return finish(picture, axes, log="xy", base=2)


def _formula(name: str) -> str:
    """What a mixture is made of: shares, centres and scales."""
    if name == "plane":
        return "three Gaussians, d = 2"
    kind = "N" if name.startswith("gauss") else "L"
    share, mean1, scale1, mean2, scale2 = ONE_DIMENSION[int(name[-1]) - 1]
    parts = ((share, mean1, scale1), (1 - share, mean2, scale2))
    return " + ".join(f"{part:g} {kind}({mean:g}, {scale:g})" for part, mean, scale in parts)


def _label(method: str, variant: str) -> str:
    names = {"plain": "KDE", "empirical": "Emp-SD-KDE", "direct": f"{title_of(method)}, direct density"}
    source = "exact score" if method == "exact" else f"score of {title_of(method)}"
    return names.get(variant, f"SD-KDE, {source}")


EXPERIMENT = Experiment(
    name="sdkde",
    title="Density estimation with SD-KDE",
    source="Figure 9",
    shows="Kernel density debiased by a score: whose score debiases best, and how the error falls with n, on "
    "the SD-KDE authors' mixtures of Gaussians (gauss1 to 3) and Laplace (laplace1 to 3), and in the plane.",
    keys=("mixture", "n", "seed", "method", "variant", "rule"),
    values=("ise",),
    seeds=20,
    run=run,
    summary=summary,
    figure=figure,
)

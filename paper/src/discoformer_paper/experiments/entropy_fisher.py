"""Figure 10: entropy and Fisher information, error against the number of points.

Problems: a mixture of three Gaussians in one dimension (truth by quadrature), and random Gaussians in ten
(closed form), n = 128 .. 8192.  Two schemes: `paper` is the plug-in estimate at the sample itself, with
the mean of |s|^2 for Fisher information; `default` is `split="balanced"` of `discoformer.functionals`.
Emp-SD-KDE and nearest neighbours (entropy only) are used as in their literature, the paper's core by the
paper's scheme, at every n although its training ended at 1024.  Errors of the entropy are in nats, those of
Fisher information relative to it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from discoformer.baselines import kde
from discoformer.baselines.sdkde import SDKDE
from discoformer.core.fields import Method
from discoformer.functionals import entropy, fisher_information
from discoformer.functionals.neighbours import knn_entropy
from discoformer.priors import GaussianPrior, LocationScaleMixture
from discoformer_paper.harness.adapters import Cached, fit_density
from discoformer_paper.harness.contestants import Networks, core_name, is_core
from discoformer_paper.harness.figures import Figure, curve, finish, panels, title_of
from discoformer_paper.harness.jobs import Context, Job, Rows
from discoformer_paper.harness.labels import CORE, KDE, OURS
from discoformer_paper.harness.problems import fixed_mixture, functional_seeds
from discoformer_paper.harness.summary import Line, Summary, judge

__all__ = ["NEIGHBOURS"]

KEYS = ("problem", "n", "seed", "method", "scheme")
SIZES = tuple(2**k for k in range(7, 14))
DIMS = {"three-mode": 1, "gaussian": 10}
TITLES = {"three-mode": "three modes, d = 1", "gaussian": "Gaussian, d = 10"}
VALUES = ("entropy", "entropy_error", "fisher", "fisher_error", "seconds")
GAP = "fisher_gap"  # absolute error of the Fisher information
NEIGHBOURS, EMPIRICAL = "nearest neighbours", "emp-sd-kde"
RIVALS = ("Emp-SD-KDE", NEIGHBOURS, "KDE, default scheme", KDE)  # columns of the table
CLAIMS = {  # of the paper, by problem and functional
    ("three-mode", "entropy"): "the Transformer beats KDE already in d = 1",
    ("three-mode", "fisher"): "the Transformer beats KDE already in d = 1",
    ("gaussian", "entropy"): "in d = 10 the learned density wins for entropy, against KDE and Emp-SD-KDE",
    ("gaussian", "fisher"): "in d = 10 the learned score wins for Fisher information, against both",
}
Estimator = Callable[[Tensor], tuple[float, float]]


def three_mode() -> LocationScaleMixture:
    """The mixture in one dimension: three modes of different widths."""
    return fixed_mixture([0.3, 0.4, 0.3], [[-3.0], [0.0], [2.5]], [[0.5], [0.8], [0.6]])


@cache
def three_mode_truth() -> tuple[float, float]:
    """Entropy and Fisher information by quadrature."""
    grid = torch.linspace(-12, 12, 100_001, dtype=torch.float64).unsqueeze(-1)
    log_density, score = three_mode().estimate(grid)
    terms = (-log_density, score[:, 0].square())
    found = [float(torch.trapezoid(log_density.exp() * term, grid[:, 0])) for term in terms]
    return found[0], found[1]


def draw(problem: str, size: int, seed: int) -> tuple[Tensor, float, float]:
    """Sample (n, d), entropy and Fisher information; these two do not depend on n."""
    generator = torch.Generator().manual_seed(seed)
    if problem == "three-mode":
        return three_mode().sample(size, generator), *three_mode_truth()
    normal = GaussianPrior().draw(1, DIMS[problem], generator, dtype=torch.float64)
    assert isinstance(normal, LocationScaleMixture)
    std = normal.std.flatten()
    truth = float(std.log().sum()) + 0.5 * len(std) * math.log(2 * math.pi * math.e)
    return normal.sample(size, generator)[0], truth, float(std.square().reciprocal().sum())


def plug_in(method: Method, sample: Tensor) -> tuple[float, float]:
    """Both functionals from one fit and one answer, at the sample itself."""
    with torch.no_grad():
        log_density, score = fit_density(method, sample).estimate(sample)
    return -float(log_density.mean()), float(score.square().sum(-1).mean())


def by_default(method: Method, sample: Tensor) -> tuple[float, float]:
    """Both functionals by the default scheme; they share the fits to the sample and without each fold."""
    cached = Cached(method, fits=6)
    with torch.no_grad():
        value = entropy(sample, cached, split="balanced").value  # as in the rows measured so far
        return float(value), float(fisher_information(sample, cached).value)


def by_neighbours(sample: Tensor) -> tuple[float, float]:
    return float(knn_entropy(sample).value), math.nan


def contestants(networks: Networks, dim: int) -> dict[tuple[str, str], Estimator]:
    """Estimators of both functionals by method and scheme."""
    found: dict[tuple[str, str], Estimator] = {}
    for contestant in networks.for_dim(dim, kind="whitened"):
        found[contestant.identity, "paper"] = partial(plug_in, contestant.method)
        if not is_core(contestant.label):
            found[contestant.identity, "default"] = partial(by_default, contestant.method)
    found["kde", "paper"] = partial(plug_in, kde.KDE())
    found["kde", "default"] = partial(by_default, kde.KDE())
    found[EMPIRICAL, "paper"] = partial(plug_in, SDKDE())
    found[NEIGHBOURS, "paper"] = by_neighbours
    return found


def measure(estimator: Estimator, problem: str, size: int, seed: int) -> dict[str, float]:
    """Both estimates and their errors."""
    sample, true_entropy, true_fisher = draw(problem, size, seed)
    start = time.perf_counter()
    found_entropy, found_fisher = estimator(sample)
    seconds = time.perf_counter() - start
    errors = abs(found_entropy - true_entropy), abs(found_fisher / true_fisher - 1)
    return dict(zip(VALUES, (found_entropy, errors[0], found_fisher, errors[1], seconds), strict=True))


def run(context: Context) -> Iterator[Job]:
    for problem, dim in DIMS.items():
        for size in SIZES[:1] if context.quick else SIZES:
            for (method, scheme), estimator in contestants(context.networks, dim).items():
                for seed in functional_seeds(context.seeds):
                    key = (problem, size, seed, method, scheme)
                    yield Job.single(key, partial(measure, estimator, problem, size, seed))


@cache
def true_fisher(problem: str, seed: int) -> float:
    return draw(problem, 1, seed)[2]


def with_gap(rows: Rows) -> Rows:
    """Rows with the absolute error of Fisher information, which the file has as a share only."""
    frame = rows.frame
    truths = [
        true_fisher(problem, int(seed)) for problem, seed in zip(frame.problem, frame.seed, strict=True)
    ]
    return Rows(frame.assign(**{GAP: (frame["fisher"] - truths).abs()}))


def summary(rows: Rows, ours: str) -> Summary:
    rows = with_gap(rows)
    lines = []
    core_cases: dict[str, dict[str, tuple[float, float]]] = {text: {} for text in CLAIMS.values()}
    our_cases = {}
    for problem, dim in DIMS.items():
        columns = {
            CORE: (core_name(dim, "whitened"), "paper"),
            OURS: (ours, "default"),
            "default, paper's scheme": (ours, "paper"),
            "Emp-SD-KDE": (EMPIRICAL, "paper"),
            NEIGHBOURS: (NEIGHBOURS, "paper"),
            "KDE, default scheme": ("kde", "default"),
            KDE: ("kde", "paper"),
        }
        for what in ("entropy", "fisher"):
            for size in rows.where(problem=problem).numbers("n"):
                at = rows.where(problem=problem, n=size)
                cells = {c: at.where(method=m, scheme=scheme) for c, (m, scheme) in columns.items()}
                found = {column: cell.mean(f"{what}_error") for column, cell in cells.items()}
                label = f"{what}, {TITLES[problem]}, n={size}"
                lines.append(Line(label, found))
                if len(cells[CORE]):
                    rivals = (found[KDE],) if dim == 1 else (found[KDE], found["Emp-SD-KDE"])
                    core_cases[CLAIMS[problem, what]][label] = (found[CORE], min(rivals))
                if size >= 512:
                    our_cases[label] = bar(cells, f"{what}_error")
                    if what == "fisher":
                        our_cases[f"{label}, absolute"] = bar(cells, GAP)
    text = "from n = 512 on the lowest, or within a standard error of it, absolute too"
    claims = [judge("paper", claim, cases) for claim, cases in core_cases.items()]
    claims.append(judge("ours", text, our_cases))
    return Summary("absolute error (Fisher information: relative)", lines, claims, rivals=RIVALS)


def bar(cells: Mapping[str, Rows], error: str) -> tuple[float, float]:
    """Our mean error, and the lowest one of the others with its standard error added."""
    others = [cells[column] for column in (CORE, *RIVALS)]
    known = [cell for cell in others if not math.isnan(cell.mean(error))]
    lowest = min(known or others, key=lambda cell: cell.mean(error))
    bound = float(lowest.mean(error)) + lowest.standard_error(error)
    return float(cells[OURS].mean(error)), bound


def figure(rows: Rows, context: Context) -> Figure:
    picture, axes = panels(4, columns=2, width=4.8)
    cells = [(problem, what) for problem in DIMS for what in ("entropy", "fisher")]
    for panel, (problem, what) in zip(axes, cells, strict=True):
        at = rows.where(problem=problem)
        for method in at.entries("method"):
            for scheme in at.where(method=method).entries("scheme"):
                points = at.where(method=method, scheme=scheme).by("n", f"{what}_error")
                paper = scheme == "paper"
                hollow: dict[str, Any] = {"markerfacecolor": "white", "linewidth": 0.9} if paper else {}
                curve(panel, points, method, f"{title_of(method)}, {scheme} scheme", **hollow)
        name = "entropy" if what == "entropy" else "Fisher information"
        label = "absolute error, nats" if what == "entropy" else "relative error"
        panel.set(title=f"{name}: {TITLES[problem]}", xlabel="n", ylabel=label)
    return finish(picture, axes, log="xy", base=2)

"""Laws of densities and scores, in float64: equivariance, integral one, score = gradient.

    python paper/benchmarks/laws.py --model runs/x/weights.safetensors --exact runs/x/weights.safetensors

`laws_equivariance`: the paper's Table 1, relative mean squared error averaged over 50 trials, of log
density and score, and the worst relative root mean square.  A trial draws a Gaussian mixture with rotated
covariances (d = 2, 3, 5 in turn, n = 512, 128 fresh queries) and a map; both sides answer at the same
points.  Bar for `--exact`: every worst root mean square below 1e-8.  The default is measured.

`laws`: the integral of the density, in 1D and 2D by the trapezoidal rule after a sinh change of variables
that reaches far into the tails, in 5D by importance sampling from wide Student-t components (bars: 1e-3,
and in 5D 4 standard errors); and the largest difference between score and autograd (bar: 1e-8).
"""

from __future__ import annotations

import math
from argparse import Namespace
from dataclasses import replace

import torch

from discoformer.core.fields import Method, PointDensity
from discoformer.evaluation.known_truth import Dataset
from discoformer.models.mixture.views import Views
from discoformer.priors import StudentT
from discoformer_paper.experiments.equivariance import (
    DIMS,
    MAPS,
    PUBLISHED_ERRORS,
    equivariance_errors,
    trial_data,
)
from discoformer_paper.harness.adapters import fit_density
from discoformer_paper.harness.benchmark import Session, benchmark
from discoformer_paper.harness.contestants import Networks
from discoformer_paper.harness.problems import SEED

EXACT, INTEGRAL, GRADIENT = 1e-8, 1e-3, 1e-8


def equivariance(method: Method, trials: int, size: int) -> dict[str, torch.Tensor]:
    """Relative mean squared errors (trials, 2), of log density and score, for every kind of map."""
    errors = [equivariance_errors(method, DIMS[trial % len(DIMS)], size, trial) for trial in range(trials)]
    values = torch.tensor([[[e["log_density"], e["score"]] for e in found] for found in errors]).double()
    return dict(zip(MAPS, values.unbind(1), strict=True))


def integral_on_grid(field: PointDensity, context: torch.Tensor, points: int) -> float:
    """Integral in one or two dimensions; y = center + scale sinh(u) with u on a regular grid."""
    u = torch.linspace(-9, 9, points, dtype=torch.float64)
    center, scale = context.mean(0), context.std(0)
    axes = [c + s * u.sinh() for c, s in zip(center, scale, strict=True)]
    measures = [(s * u.cosh()).log() for s in scale]
    grid = torch.cartesian_prod(*axes).reshape(-1, len(axes))
    log_measure = torch.cartesian_prod(*measures).reshape(-1, len(axes)).sum(-1)
    log_density = torch.cat([field.log_density(part) for part in grid.split(2**16)])
    step = float(u[1] - u[0])
    return float((log_density + log_measure).exp().sum()) * step ** len(axes)


def integral_by_sampling(field: PointDensity, data: Dataset, draws: int) -> tuple[float, float]:
    """Integral and its standard error, from draws of the true components, widened and with heavy tails."""
    wide = replace(data.distribution, std=2 * data.distribution.std, family=StudentT(3.0))
    points = wide.sample(draws, torch.Generator().manual_seed(SEED))
    weights = (field.log_density(points[0]) - wide.log_density(points)[0]).exp()
    return float(weights.mean()), float(weights.std()) / math.sqrt(draws)


def gradient_gap(method: Method, trials: int, size: int) -> float:
    """Largest relative difference between the score and the gradient of the log density, by autograd."""
    worst = 0.0
    for trial in range(trials):
        data = trial_data((1, 2, 5, 10)[trial % 4], size, trial)
        queries = data.distribution.sample(128, torch.Generator().manual_seed(SEED + trial))[0]
        queries.requires_grad_()
        log_density, score = fit_density(method, data.context).estimate(queries)
        (gradient,) = torch.autograd.grad(log_density.sum(), queries)
        worst = max(worst, float((score.detach() - gradient).norm() / gradient.norm()))
    return worst


def equivariance_table(run: Session, models: dict[str, Method], exact: str, trials: int, size: int) -> None:
    """Table 1 of the paper for every model."""
    rows = []
    for label, method in models.items():
        with torch.no_grad():
            errors = equivariance(method, trials, size)
        for kind, values in errors.items():
            mean, worst = values.mean(0), values.sqrt().amax(0)
            met = ""
            if label == exact:
                met = run.bar(f"{label}: {kind}, worst relative error", float(worst.max()), EXACT)
            numbers = [f"{value:.1e}" for value in (*mean.tolist(), *worst.tolist())]
            rows.append([label, kind, *numbers, f"{PUBLISHED_ERRORS[kind]:g}", met])
    header = ["network", "map", "rel. MSE log density", "rel. MSE score"]
    header += ["worst log density", "worst score", "paper", "bar"]
    run.finish("laws_equivariance", header, rows)


def laws_table(run: Session, models: dict[str, Method], trials: int, size: int, grid: int) -> None:
    """Integrals and gradients for every model."""
    rows = []
    for label, method in models.items():
        with torch.no_grad():
            for dim in (1, 2):
                points = 8 * grid + 1 if dim == 1 else grid + 1
                samples = [trial_data(dim, size, trial).context for trial in range(trials)]
                integrals = [integral_on_grid(fit_density(method, x), x, points) for x in samples]
                worst = max(abs(value - 1) for value in integrals)
                met = run.bar(f"{label}: integral in {dim}D, distance from one", worst, INTEGRAL)
                rows.append([label, f"|integral - 1|, {dim}D", f"{worst:.1e}", f"{INTEGRAL:g}", met])
            data = trial_data(5, size, 0)
            value, error = integral_by_sampling(fit_density(method, data.context), data, 100 * grid)
            met = run.bar(f"{label}: integral in 5D, distance from one", abs(value - 1), 4 * error)
            rows.append([label, "|integral - 1|, 5D", f"{abs(value - 1):.1e}", f"{4 * error:.1e}", met])
        gap = gradient_gap(method, trials, size)
        met = run.bar(f"{label}: score against autograd", gap, GRADIENT)
        rows.append([label, "score - autograd", f"{gap:.1e}", f"{GRADIENT:g}", met])
    run.finish("laws", ["network", "law", "worst", "bound", "bar"], rows)


EXACT_MODEL = {"default": "default", "metavar": "NAME_OR_PATH", "help": "axes off, held to 1e-8 (default)"}


@benchmark(__doc__, options={"--exact": EXACT_MODEL})
def main(run: Session, args: Namespace) -> None:
    exact = Networks(args.exact).ours()
    if not isinstance(exact.method, Views):
        raise SystemExit(f"{args.exact} has axes that cannot be switched off: name a mixture network")
    label = f"{exact.identity}, axes off"
    models = {run.ours.identity: run.ours.method, label: exact.method.without_axes()}
    trials, size, grid = (2, 64, 200) if args.quick else (50, 512, 1200)
    run.datasets = trials
    equivariance_table(run, models, label, trials, size)
    run.datasets = min(trials, 10)
    laws_table(run, models, run.datasets, size, grid)


if __name__ == "__main__":
    raise SystemExit(main())

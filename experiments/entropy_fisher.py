"""Entropy and Fisher information: absolute error against the number of points.

    python experiments/entropy_fisher.py
    python experiments/entropy_fisher.py --quick

Problems: a mixture of three Gaussians in one dimension (truth by quadrature), and random Gaussians in ten
(closed form), n = 128 .. 8192.  Two schemes: `paper` is the plug-in estimate at the sample itself, with
the mean of |s|^2 for Fisher information; `default` is what `discoformer.functionals` does when nothing
is said.  Emp-SD-KDE and nearest neighbours (entropy only) come as their literature has them.  Lines go
to results/entropy_fisher.csv as they are made; the table is results/entropy_fisher_table.csv, mean absolute
error with its standard error over samples, Fisher information relative to the truth.  Bar: ours, default
scheme, lowest or within one standard error of the lowest, from n = 512 on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch
from functional_runs import SEED, average, networks, shown
from particle_runs import Bars, Ledger, make_parser, results_folder, write_rows
from torch import Tensor

from discoformer.baselines.kde import KDE
from discoformer.baselines.neighbours import knn_entropy
from discoformer.baselines.sdkde import SDKDE
from discoformer.fields import Method
from discoformer.functionals import entropy, fisher_information
from discoformer.priors import GaussianPrior, LocationScaleMixture

SIZES = tuple(2**k for k in range(7, 14))
DIMS = {"three-mode": 1, "gaussian": 10}
KEYS = ("problem", "n", "seed", "oracle", "scheme")
VALUES = ("entropy", "entropy_error", "fisher", "fisher_error", "seconds")
Estimator = Callable[[Tensor], tuple[float, float]]


def three_mode() -> LocationScaleMixture:
    """The mixture in one dimension: three modes of different widths."""
    columns = {"means": (-3.0, 0.0, 2.5), "std": (0.5, 0.8, 0.6)}
    parts = {k: torch.tensor(v, dtype=torch.float64).unsqueeze(-1) for k, v in columns.items()}
    return LocationScaleMixture(weights=torch.tensor([0.3, 0.4, 0.3], dtype=torch.float64), **parts)


def draw(problem: str, size: int, seed: int) -> tuple[Tensor, float, float]:
    """Sample (n, d), entropy and Fisher information."""
    generator = torch.Generator().manual_seed(seed)
    if problem == "three-mode":
        mixture = three_mode()
        grid = torch.linspace(-12, 12, 100_001, dtype=torch.float64).unsqueeze(-1)
        log_density, score = mixture.estimate(grid)
        assert log_density is not None
        truths = [
            float(torch.trapezoid(log_density.exp() * term, grid[:, 0]))
            for term in (-log_density, score[:, 0].square())
        ]
        return mixture.sample(size, generator), *truths
    normal = GaussianPrior().draw(1, DIMS[problem], generator, dtype=torch.float64)
    assert isinstance(normal, LocationScaleMixture)
    std = normal.std.flatten()
    truth = float(std.log().sum()) + 0.5 * len(std) * math.log(2 * math.pi * math.e)
    return normal.sample(size, generator)[0], truth, float(std.square().reciprocal().sum())


def plug_in(method: Method, sample: Tensor) -> tuple[float, float]:
    """Both functionals from one fit, at the sample itself."""
    field = method.fit(sample)
    return float(entropy(sample, field).value), float(fisher_information(sample, field, form="square").value)


def by_default(method: Method, sample: Tensor) -> tuple[float, float]:
    return float(entropy(sample, method).value), float(fisher_information(sample, method).value)


def by_neighbours(sample: Tensor) -> tuple[float, float]:
    return float(knn_entropy(sample).value), math.nan


def contestants(model: str, dim: int) -> dict[tuple[str, str], Estimator]:
    """Estimators of both functionals by oracle and scheme."""
    methods = {**networks(model, dim), "kde": KDE()}
    found: dict[tuple[str, str], Estimator] = {}
    for name, method in methods.items():
        found[name, "paper"] = partial(plug_in, method)
        found[name, "default"] = partial(by_default, method)
    found["emp-sd-kde", "paper"] = partial(plug_in, SDKDE())
    found["nearest neighbours", "paper"] = by_neighbours
    return found


def measure(estimator: Estimator, problem: str, size: int, seed: int) -> dict[str, float]:
    sample, true_entropy, true_fisher = draw(problem, size, seed)
    start = time.perf_counter()
    found_entropy, found_fisher = estimator(sample)
    seconds = time.perf_counter() - start
    errors = abs(found_entropy - true_entropy), abs(found_fisher / true_fisher - 1)
    return dict(zip(VALUES, (found_entropy, errors[0], found_fisher, errors[1], seconds), strict=True))


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser(__doc__)
    parser.set_defaults(seeds=20)
    args = parser.parse_args(argv)
    seeds, sizes = (2, (128, 256)) if args.quick else (args.seeds, SIZES)
    bars = Bars()
    table: dict[tuple[str, ...], list[str]] = {}
    with results_folder(args) as folder:
        ledger = Ledger(folder / "entropy_fisher.csv", KEYS, VALUES, fresh=args.model)
        for problem, dim in DIMS.items():
            rivals = contestants(args.model, dim)
            for size in sizes:
                found: dict[tuple[str, str], list[dict[str, float]]] = {}
                for (oracle, scheme), estimator in rivals.items():
                    for seed in range(SEED, SEED + seeds):
                        key = (problem, size, seed, oracle, scheme)
                        line = ledger.get(*key) or ledger.add(key, measure(estimator, problem, size, seed))
                        found.setdefault((oracle, scheme), []).append(line)
                for what in ("entropy", "fisher"):
                    means = {k: average([line[f"{what}_error"] for line in v]) for k, v in found.items()}
                    for k, mean in means.items():
                        table.setdefault((problem, what, *k), []).append(shown(*mean))
                    others = [
                        mean for k, mean in means.items() if k[0] != args.model and not math.isnan(mean[0])
                    ]
                    if (args.model, "default") in means and size >= 512:
                        ours = means[args.model, "default"][0]
                        bars.check(f"{problem} {what} n={size}", ours, sum(min(others)))
        header = ["problem", "functional", "oracle", "scheme", *(f"n={size}" for size in sizes)]
        write_rows(folder / "entropy_fisher_table.csv", header, [[*key, *row] for key, row in table.items()])
    bars.tell()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

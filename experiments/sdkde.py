"""Density estimation with SD-KDE: integrated squared error against the number of points, with slopes.

    python experiments/sdkde.py
    python experiments/sdkde.py --quick

Mixtures: the three of the SD-KDE authors in one dimension, with Gaussian and with Laplace components (error
on [-8, 8], step 0.05), and one in two dimensions (on [-6, 6]^2, step 0.2), n = 128 .. 16384.  Variants: plain
KDE; SD-KDE with the kernel's own score (empirical), with our score, with the gradient of our log density
(autograd) and with the exact score (a bound); and our density directly.  Bandwidths: Scott's rule, and for
SD-KDE also the rule of its authors.  Lines go to results/sdkde.csv as they are made; the table is
results/sdkde_table.csv: mean error in units of 1e-4, and the slope of its logarithm in log n.  Bar: SD-KDE
with our score below plain KDE and below empirical SD-KDE, for each rule, mixture and n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from functional_runs import SEED, networks
from particle_runs import Bars, Ledger, make_parser, results_folder, write_rows
from torch import Tensor

from discoformer.baselines.kde import KDE
from discoformer.baselines.sdkde import SDKDE, AutogradScore
from discoformer.fields import Method
from discoformer.priors import Distribution, Laplace, LocationScaleMixture, Normal

SIZES = tuple(2**k for k in range(7, 15))
RULES = ("scott", "sd-kde")
KEYS = ("mixture", "n", "seed", "oracle", "variant", "rule")
ONE_DIMENSION = ((0.4, -2.0, 0.5, 2.0, 1.0), (0.3, -2.0, 0.4, 4.0, 1.5), (0.5, 0.0, 0.4, 1.5, 1.5))


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
    tensors = (torch.tensor(values, dtype=torch.float64) for values in (weights, means, std))
    return LocationScaleMixture(*tensors, family=family)


def grid_of(dim: int) -> tuple[Tensor, float]:
    """Points (m, d) and the volume of a cell."""
    if dim == 1:
        return torch.arange(-8, 8 + 1e-9, 0.05, dtype=torch.float64).unsqueeze(-1), 0.05
    axis = torch.arange(-6, 6 + 1e-9, 0.2, dtype=torch.float64)
    return torch.cartesian_prod(axis, axis), 0.04


def variants(model: str, truth: Distribution) -> dict[tuple[str, str, str], Method]:
    """Methods by oracle, variant and rule."""
    found: dict[tuple[str, str, str], Method] = {("kde", "plain", "scott"): KDE("scott")}
    ours = networks(model, truth.dim)
    for rule in RULES:
        found["kde", "empirical", rule] = SDKDE("empirical", rule)
        found["exact", "score", rule] = SDKDE(truth, rule)
        for name, network in ours.items():
            found[name, "score", rule] = SDKDE(network, rule)
            found[name, "autograd", rule] = SDKDE(AutogradScore(network), rule)
    return found | {(name, "direct", ""): network for name, network in ours.items()}


def integrated_error(method: Method, truth: Distribution, size: int, seed: int) -> dict[str, float]:
    sample = truth.sample(size, torch.Generator().manual_seed(seed))
    grid, cell = grid_of(truth.dim)
    with torch.no_grad():
        gap = method.fit(sample).log_density(grid).exp() - truth.log_density(grid).exp()
    return {"ise": float(gap.square().sum() * cell)}


def slope(sizes: Sequence[int], means: Sequence[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(means), 1)[0])


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser(__doc__)
    parser.set_defaults(seeds=20)
    args = parser.parse_args(argv)
    seeds, sizes = (2, (128, 256)) if args.quick else (args.seeds, SIZES)
    bars = Bars()
    rows = []
    with results_folder(args) as folder:
        ledger = Ledger(folder / "sdkde.csv", KEYS, ("ise",), fresh=args.model)
        for name, truth in mixtures().items():
            means: dict[tuple[str, str, str], list[float]] = {}
            for key, method in variants(args.model, truth).items():
                for size in sizes:
                    errors = []
                    for seed in range(SEED, SEED + seeds):
                        full = (name, size, seed, *key)
                        line = ledger.get(*full)
                        errors.append(line or ledger.add(full, integrated_error(method, truth, size, seed)))
                    means.setdefault(key, []).append(float(np.mean([error["ise"] for error in errors])))
                cells = [f"{1e4 * mean:.3f}" for mean in means[key]]
                rows.append([name, *key, *cells, f"{slope(sizes, means[key]):.2f}"])
                print(" ".join(rows[-1]), flush=True)
            for rule in RULES:
                if (args.model, "score", rule) in means:
                    for index, size in enumerate(sizes):
                        rivals = min(
                            means["kde", "plain", "scott"][index], means["kde", "empirical", rule][index]
                        )
                        ours = means[args.model, "score", rule][index]
                        bars.check(f"{name} {rule} n={size}: error over the rivals'", ours / rivals, 1.0)
        header = ["mixture", "oracle", "variant", "rule", *(f"n={size}" for size in sizes), "slope"]
        write_rows(folder / "sdkde_table.csv", header, rows)
    bars.tell()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

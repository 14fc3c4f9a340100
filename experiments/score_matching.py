"""Score matching on the example of the paper's appendix: error and time per data set.

    python experiments/score_matching.py
    python experiments/score_matching.py --quick

A mixture of two Gaussians in the plane, n = 1000.  Score matching trains a network per data set for 10,
100 and 1000 steps (4 hidden layers of 128, SiLU, AdamW 1e-3, clipped gradient, a = 0.05, in the
coordinates of the data); the kernel estimators and our network need no training.  Lines go to
results/score_matching.csv as they are made; the table is results/score_matching_table.csv: relative squared
error of the score in percent at the sample and at new points, standard errors over samples, and seconds to
fit and to answer at the sample.  Bar: ours below score matching with every number of steps, at new points.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from functional_runs import SEED, average, networks
from particle_runs import Bars, Ledger, make_parser, results_folder, write_rows

from discoformer.baselines.kde import KDE
from discoformer.baselines.score_matching import ScoreMatching
from discoformer.baselines.stein import NuMethod, SpectralStein, SteinGradient
from discoformer.fields import Method
from discoformer.priors import LocationScaleMixture

STEPS = (10, 100, 1000)
KEYS = ("n", "seed", "oracle")
VALUES = ("sample_error", "new_error", "seconds")


def two_modes() -> LocationScaleMixture:
    return LocationScaleMixture(
        weights=torch.tensor([0.5, 0.5], dtype=torch.float64),
        means=torch.tensor([[-1.5, 0.0], [1.5, 0.5]], dtype=torch.float64),
        std=torch.tensor([[0.6, 1.0], [0.9, 0.5]], dtype=torch.float64),
    )


def methods(model: str, steps: Sequence[int]) -> dict[str, Method]:
    """Who takes part, by name."""
    found: dict[str, Method] = dict(networks(model, 2))
    for count in steps:
        found[f"implicit-{count}"] = ScoreMatching(count, "implicit", frame="identity")
        found[f"sliced-{count}"] = ScoreMatching(count, "sliced", frame="identity")
    rest = {"kde": KDE(), "stein": SteinGradient(), "ssge": SpectralStein(), "nu-method": NuMethod()}
    return found | rest


def measure(method: Method, size: int, seed: int) -> dict[str, float]:
    truth, generator = two_modes(), torch.Generator().manual_seed(seed)
    sample, new = truth.sample(size, generator), truth.sample(4096, generator)
    start = time.perf_counter()
    field = method.fit(sample)
    with torch.no_grad():
        field.score(sample)
    seconds = time.perf_counter() - start
    errors = []
    for points in (sample, new):
        exact = truth.score(points)
        with torch.no_grad():
            gap = field.score(points) - exact
        errors.append(float(gap.square().sum() / exact.square().sum()))
    return dict(zip(VALUES, (*errors, seconds), strict=True))


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser(__doc__)
    parser.set_defaults(seeds=20)
    args = parser.parse_args(argv)
    seeds, size, steps = (2, 100, (5, 10)) if args.quick else (args.seeds, 1000, STEPS)
    bars = Bars()
    rows = []
    with results_folder(args) as folder:
        ledger = Ledger(folder / "score_matching.csv", KEYS, VALUES, fresh=args.model)
        errors = {}
        for name, method in methods(args.model, steps).items():
            measure(method, size, SEED - 1)  # the first call pays for what torch does once
            lines = []
            for seed in range(SEED, SEED + seeds):
                key = (size, seed, name)
                lines.append(ledger.get(*key) or ledger.add(key, measure(method, size, seed)))
            means = [average([line[value] for line in lines]) for value in VALUES]
            errors[name] = means[1][0]
            cells = [f"{100 * mean:.2f} ({100 * error:.2f})" for mean, error in means[:2]]
            rows.append([name, *cells, f"{means[2][0]:.3f}"])
        for name in errors:
            if args.model in errors and name.startswith(("implicit", "sliced")):
                bars.check(f"error over that of {name}", errors[args.model] / errors[name], 1.0)
        write_rows(folder / "score_matching_table.csv", ["oracle", "sample %", "new %", "seconds"], rows)
    bars.tell()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

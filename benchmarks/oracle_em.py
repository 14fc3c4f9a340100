"""How much less error than a BIC mixture is there to have?  Maximum likelihood that is told the truth.

    python benchmarks/oracle_em.py
    python benchmarks/oracle_em.py --quick

Diagonal Gaussian mixtures as in gmm.py and dimensions.py, whose best peer is scikit-learn's diagonal
mixture by BIC.  The oracle is the same expectation-maximization with the true number of components,
started at the true means, scales and weights: what is left of its error is that of maximum likelihood
itself.  Where its ratio to the peer is close to one, a bound below it asks for an estimator better than
maximum likelihood in the family that the data come from.  Relative score errors (%) at the sample points,
table in results/oracle_em.csv.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from common import STEP, gmm_setting, make_parser, percent, session
from sklearn.mixture import GaussianMixture

from discoformer.evaluation.known_truth import gmm_datasets
from discoformer.priors import GMMPrior, LocationScaleMixture
from discoformer_paper.settings import MODES

CELLS = ((2, 1024), (2, 4096), (10, 256), (10, 1024), (10, 4096), (16, 2048), (20, 2048), (32, 2048))
PEER = "gmm-diag"
PRIOR = GMMPrior(covariance="diagonal", reading="std", weights="equal")


def oracle_errors(dim: int, size: int, seed: int, modes: int) -> tuple[float, float]:
    """Sum of squared errors of the oracle's score over one data set, and of squared scores."""
    data = next(gmm_datasets(dim, size, 1, seed, modes=(modes,), prior=PRIOR))
    law = data.distribution
    assert isinstance(law, LocationScaleMixture)
    fit = GaussianMixture(
        modes,
        covariance_type="diag",
        weights_init=np.full(modes, 1 / modes),
        means_init=law.means.reshape(modes, dim).numpy(),
        precisions_init=law.std.reshape(modes, dim).numpy() ** -2.0,
        max_iter=1000,
        tol=1e-6,
    ).fit(data.context.numpy())
    parameters = (fit.weights_, fit.means_, np.sqrt(fit.covariances_))
    found = LocationScaleMixture(*map(torch.from_numpy, parameters)).score(data.context)
    exact = data.truth.score
    return float((found - exact).square().sum()), float(exact.square().sum())


def main(argv: Sequence[str] | None = None) -> int:
    args = make_parser(__doc__).parse_args(argv)
    with session(args) as run:
        rows = []
        for dim, size in ((2, 64),) if args.quick else CELLS:
            errors = run.measure(gmm_setting("diagonal", dim, size), [PEER])
            sums = [
                oracle_errors(dim, size, run.seed + STEP * index, MODES[index % len(MODES)])
                for index in range(run.datasets)
            ]
            oracle = sum(error for error, _ in sums) / sum(square for _, square in sums)
            peer = errors[PEER].relative
            cells = [str(dim), str(size), percent(peer), percent(oracle), f"{oracle / peer:.3f}"]
            if "ours" in errors:
                ours = errors["ours"].relative
                cells += [percent(ours), f"{ours / peer:.3f}", f"{ours / oracle:.3f}"]
            rows.append(cells)
        ours_header = ["ours", "ours/peer", "ours/oracle"] if run.model else []
        run.finish("oracle_em", ["d", "n", PEER, "oracle", "oracle/peer", *ours_header], rows)
        return run.verdict()


if __name__ == "__main__":
    raise SystemExit(main())

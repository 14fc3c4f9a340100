"""How much less error than a BIC mixture is possible?  Maximum likelihood that is told the truth.

Diagonal Gaussian mixtures as in gmm.py and dimensions.py, whose best rival is scikit-learn's diagonal
mixture by BIC.  The oracle is the same expectation-maximization with the true number of components,
started at the true means, scales and weights: what is left of its error is that of maximum likelihood
itself.  Where its ratio to the rival is close to one, a bound below it asks for an estimator better than
maximum likelihood in the family that the data come from.  Relative score errors (%) at the sample points,
table in results/oracle_em.csv.
"""

from __future__ import annotations

from argparse import Namespace

import numpy as np
import torch
from sklearn.mixture import GaussianMixture

from discoformer.evaluation.known_truth import gmm_datasets
from discoformer.priors import GMMPrior, LocationScaleMixture
from discoformer_paper.harness.benchmark import Session, benchmark, percent
from discoformer_paper.harness.problems import MODES, gmm_problem, relative_error, seed_of

CELLS = ((2, 1024), (2, 4096), (10, 256), (10, 1024), (10, 4096), (16, 2048), (20, 2048), (32, 2048))
PEER = "gmm-diag"
PRIOR = GMMPrior(covariance="diagonal", reading="std", weights="equal")


def oracle_errors(dim: int, size: int, index: int) -> tuple[float, float]:
    """Sum of squared errors of the oracle's score over one data set, and of squared scores."""
    modes = MODES[index % len(MODES)]
    data = next(gmm_datasets(dim, size, 1, seed_of(index), modes=(modes,), prior=PRIOR))
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


@benchmark(__doc__)
def main(run: Session, args: Namespace) -> None:
    rows = []
    for dim, size in ((2, 64),) if args.quick else CELLS:
        errors = run.measure(gmm_problem("diagonal", dim, size), [PEER])
        sums = np.sum([oracle_errors(dim, size, index) for index in run.indices], 0)
        oracle = float(sums[0] / sums[1])
        ours, peer = relative_error(errors["ours"]), relative_error(errors[PEER])
        ratios = [f"{value:.3f}" for value in (oracle / peer, ours / peer, ours / oracle)]
        shown = [
            percent(errors[PEER]),
            f"{100 * oracle:.2f}",
            ratios[0],
            percent(errors["ours"]),
            *ratios[1:],
        ]
        rows.append([dim, size, *shown])
    header = ["d", "n", PEER, "oracle", "oracle/peer", "ours", "ours/peer", "ours/oracle"]
    run.finish("oracle_em", header, rows)


if __name__ == "__main__":
    raise SystemExit(main())

"""Error bars by the Bayesian bootstrap: fits to the sample with random weights, in one batch.

The weights are the sample's own times those of a flat Dirichlet distribution (Rubin 1981).  The result is the
standard deviation of the answers of such fits around that of the fit to all rows: how much log density and
score would differ if other rows had been drawn.  A bias that all fits share does not show in it.  For the
default network, what that adds to the error was measured on Gaussian mixtures; the factor is `STRETCH`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from discoformer.columns.kinds import CONTINUOUS
from discoformer.columns.split import kinds_of
from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate, Method, PointDensity, as_point_density

__all__ = ["FITS", "POINTS", "STRETCH", "WithSpread", "bootstrap", "random_shares"]

FITS = 24
POINTS = 2**17  # rows that are fitted at once, over all fits of a batch


class Stretch(NamedTuple):
    """Factors for the spread of log density and score."""

    log_density: float
    score: float


STRETCH = Stretch(1.15, 1.25)  # error over spread, measured by paper/benchmarks/error_bars.py


class WithSpread(NamedTuple):
    """Log density (m,) and score (m, d), and the standard deviations of both."""

    log_density: Any
    score: Any
    log_density_std: Any
    score_std: Any


@torch.no_grad()
def bootstrap(
    method: Method,
    field: PointDensity,
    sample: Tensor,
    queries: Tensor,
    *,
    weights: Tensor | None = None,
    fits: int = FITS,
    seed: int = 0,
) -> Estimate[Tensor]:
    """Standard deviations of the answers of a field at queries (m, d).

    Parameters
    ----------
    method : fitted to the columns that carry a density, `Field.support`
    field : fitted to the sample
    sample : (n, d)
    queries : (m, d)
    weights : (n,), sum to one; None if all rows count the same
    fits : number of fits
    seed : seed of the random weights

    >>> from discoformer.baselines.kde import KDE
    >>> x = torch.randn(100, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> spread = bootstrap(KDE(), KDE().fit(x), x, torch.zeros(2, 1).double())
    >>> 0.02 < float(spread.log_density[0]) < 0.2
    True
    """
    log_density, score = field.estimate(queries)
    kept, rows = field.support, len(sample)
    own = torch.full((rows,), 1 / rows, dtype=torch.float64) if weights is None else weights
    random = random_shares(own, fits, seed)
    square_density, square_score = torch.zeros_like(log_density), torch.zeros_like(score)
    plain = not bool(sample[:, kept].isnan().any()) and set(kinds_of(field)) == {CONTINUOUS}
    for share in random.split(max(1, POINTS // rows) if plain else 1):
        context, points = sample[:, kept], queries[:, kept]
        if plain:  # other tables are fitted one at a time
            context, points = (rows.expand(len(share), -1, -1) for rows in (context, points))
        fitted = as_point_density(method.fit(context, share if plain else share[0]))
        found = fitted.estimate(points)
        answer = found if plain else Estimate(found.log_density[None], found.score[None])
        square_density += (answer.log_density - log_density).square().sum(0)
        square_score[:, kept] += (answer.score - score[:, kept]).square().sum(0)
    return Estimate(
        STRETCH.log_density * (square_density / fits).sqrt(), STRETCH.score * (square_score / fits).sqrt()
    )


def random_shares(own: Tensor, fits: int, seed: int) -> Tensor:
    """Weights (fits, n) that sum to one: those of the sample (n,), times the same share of chance for all.

    >>> random_shares(torch.tensor([0.5, 0.5, 0.0]).double(), 2, 0).sum(-1).tolist()
    [1.0, 1.0]
    """
    if fits < 2:
        raise DataError(f"{fits} fits show no spread: take at least 2")
    generator = torch.Generator().manual_seed(seed)
    random = torch.empty(fits, len(own), dtype=torch.float64).exponential_(generator=generator) * own
    return random / random.sum(-1, keepdim=True)

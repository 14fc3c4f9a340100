"""What depends on what: the mutual information of pairs of columns, from draws of the fitted density.

    MI(i, j) = E [log f(x_i, x_j) - log f(x_i) - log f(x_j)],  x drawn from f

with margins in closed form, so the only error is that of the draws.  In words it is given as the correlation
that two normal columns with the same information would have, r = sqrt(1 - exp(-2 MI)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from discoformer.core.fields import Density

__all__ = ["Pair", "pair_information"]

_DRAWS = 2000
_PAIRS = 300  # if there are more, those with the largest rank correlation


@dataclass(frozen=True)
class Pair:
    """Two columns, their mutual information in nats, and its error from the draws."""

    first: int
    second: int
    nats: float
    error: float

    @property
    def correlation(self) -> float:
        """That of two normal columns with the same information: 0 for none, 1 if one determines the other.

        >>> round(Pair(0, 1, 0.51, 0.01).correlation, 2)
        0.8
        """
        return math.sqrt(-math.expm1(-2 * max(self.nats, 0.0)))


@torch.no_grad()
def pair_information(field: Density) -> list[Pair]:
    """Mutual information of the pairs of columns in the fit, the largest first.

    Parameters
    ----------
    field : a fitted density; with many columns, only the 300 pairs with the largest rank correlation

    Examples
    --------
    >>> from discoformer import load_model
    >>> x = np.random.default_rng(0).normal(size=(500, 3))
    >>> x[:, 2] += x[:, 0]
    >>> best, *_ = pair_information(load_model("default").fit(x))
    >>> best.first, best.second
    (0, 2)
    """
    columns = field.support
    draws = field.sample(_DRAWS, torch.Generator().manual_seed(0))
    draws = draws[draws.isfinite().all(-1)]  # tails may be so heavy that a draw overflows
    alone = {j: field.marginal([j]).log_density(draws[:, [j]]) for j in columns}
    pairs = []
    for i, j in _chosen(draws, columns):
        terms = field.marginal([i, j]).log_density(draws[:, [i, j]]) - alone[i] - alone[j]
        pairs.append(Pair(i, j, float(terms.mean()), float(terms.std()) / math.sqrt(len(terms))))
    return sorted(pairs, key=lambda pair: -pair.nats)


def _chosen(draws: Tensor, columns: list[int]) -> list[tuple[int, int]]:
    pairs = [(i, j) for k, i in enumerate(columns) for j in columns[k + 1 :]]
    if len(pairs) <= _PAIRS:
        return pairs
    ranks = draws.numpy().argsort(0).argsort(0)
    correlation = np.abs(np.corrcoef(ranks.T))
    return sorted(pairs, key=lambda pair: -correlation[pair])[:_PAIRS]

"""The best bandwidth in hindsight, chosen with the truth in view: no multiple of a rule does better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from discoformer.baselines.bandwidths import bandwidth_frame, scaled_frame
from discoformer.baselines.kde import KDEField
from discoformer.core.checks import DataError, check_points, check_weights
from discoformer.core.fields import PointDensity
from discoformer.core.kernel_sums import MEMORY

__all__ = ["oracle_bandwidth"]


def oracle_bandwidth(
    context: Any,
    truth: PointDensity,
    queries: Any,
    *,
    rule: Any = "scott",
    by: Literal["score", "log_density"] = "score",
    multiples: Sequence[float] | None = None,
    weights: Any = None,
    memory: int = MEMORY,
) -> Tensor:
    """Multiple of a rule's bandwidth that comes closest to a known truth, as a matrix H (..., d, d).

    Grid search for the least mean squared error at the queries; each context of a batch gets a
    multiple of its own.  Pass the result to ``KDE(bandwidth=...)``.

    Parameters
    ----------
    context : (..., n, d)
    truth : PointDensity
        Exact log density and score.
    queries : (..., m, d)
    rule : str, number, (d,) or (..., d, d)
        The bandwidth that is multiplied.
    by : "score" or "log_density"
        What the squared error is taken of.
    multiples : sequence of float, optional
        The grid, positive; by default 61 values from 0.1 to 10, evenly spaced in the logarithm.
    weights : (..., n), optional
    memory : int
        Bytes that blocks of query-context pairs may take.

    >>> from discoformer.baselines import KDE
    >>> x = torch.randn(100, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> h2 = oracle_bandwidth(x, KDE(0.5).fit(x), x, rule=1.0, multiples=[0.25, 0.5, 1.0])
    >>> h2.tolist()
    [[0.25]]
    """
    if by not in ("score", "log_density"):
        raise DataError(f"by={by!r} is unknown: use 'score' or 'log_density'")
    x = check_points(context, "context", min_rows=2).detach()
    y = check_points(queries, "queries", dim=x.shape[-1]).detach().to(x)
    w = check_weights(weights, x)
    grid = torch.logspace(-1, 1, 61, dtype=torch.float64).tolist() if multiples is None else list(multiples)
    if not grid or not all(0 < multiple < math.inf for multiple in grid):
        raise DataError(f"multiples={grid}: give at least one number, all of them positive")
    with torch.no_grad():
        frame = bandwidth_frame(rule, x, w)
        exact = truth.score(y) if by == "score" else truth.log_density(y).unsqueeze(-1)
        errors = []
        for multiple in grid:
            field = KDEField(x, w, scaled_frame(frame, multiple), memory=memory)
            guess = field.score(y) if by == "score" else field.log_density(y).unsqueeze(-1)
            errors.append((guess - exact).square().mean((-2, -1)))  # (...)
        best = torch.tensor(grid, dtype=x.dtype, device=x.device)[torch.stack(errors, -1).argmin(-1)]
        inverse = scaled_frame(frame, best).inverse
    return inverse.mT @ inverse

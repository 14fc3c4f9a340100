"""Rows of large weight: they are judged by a fit without them.

The closed form of leave-one-out keeps what the fit decided: where its components are, and which rows they
hold.  That is right for a row with a small share of the weight.  A row with a large one has drawn components
to itself, and would vouch for itself.  Few rows can have a large share, so these are left out by another fit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.fields import Density, Method, as_density
from discoformer.core.known_part import KnownPart
from discoformer.detection.copies import left_out_with_copies, with_copies

__all__ = ["HEAVY", "heavy_rows", "left_out_rows", "refitted"]

HEAVY = 1 / 20  # of all weight: fewer than twenty rows can have more
_ABOVE_MEAN = 2.0  # times the weight that every row would have: of few rows, none need be heavy


def heavy_rows(rows: Tensor, weights: Tensor | None) -> list[Tensor]:
    """Numbers of the rows of a sample (n, d) that have too much of the weights (n,), each with its copies.

    >>> x = torch.arange(100.0).unsqueeze(-1)
    >>> weights = torch.ones(100)
    >>> weights[7] = 20.0
    >>> [group.tolist() for group in heavy_rows(x, weights / weights.sum())]
    [[7]]
    """
    if weights is None:
        return []
    share = with_copies(rows, weights)
    limit = max(HEAVY, _ABOVE_MEAN * float(share.mean()))
    whole = rows.nan_to_num(nan=torch.inf)
    found: dict[int, Tensor] = {}
    for row in (share > limit).nonzero().flatten().tolist():
        equal = (whole == whole[row]).all(-1).nonzero().flatten()
        alone = bool(share[row] == weights[row])  # without copies, or one of an atom
        group = torch.tensor([row]) if alone else equal
        found[int(group[0])] = group
    return list(found.values())


@torch.no_grad()
def left_out_rows(method: Method, density: Density, rows: Tensor, weights: Tensor | None = None) -> Tensor:
    """Log density (..., n) of every row of a sample (..., n, d) under the fit without it and its copies.

    In closed form, and by another fit where a row is heavy; parameters as for `refitted`.
    """
    return refitted(method, density, rows, weights, left_out_with_copies(density, rows, weights))


def refitted(method: Method, density: Density, rows: Tensor, weights: Tensor | None, found: Tensor) -> Tensor:
    """Log density (..., n) of the rows of a sample without each, as ``found``; heavy ones by another fit.

    Parameters
    ----------
    method : for the columns that carry a density, `Field.support`
    density : fitted to the sample
    rows : (..., n, d)
    weights : (..., n), sum to one; None if all rows count the same
    found : (..., n), what the closed form says

    >>> from discoformer.methods import resolve
    >>> method = resolve("kde-scott").method
    >>> x = torch.randn(100, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    >>> weights = torch.ones(100).double()
    >>> weights[0] = 1e6
    >>> left_out = left_out_rows(method, method.fit(x, weights), x, weights / weights.sum())
    >>> bool((left_out[0] - method.fit(x[1:]).log_density(x[:1])).abs() < 1e-9)
    True
    """
    if rows.ndim > 2 or weights is None:
        return found
    columns = density.support
    for group in heavy_rows(rows, weights):
        rest = torch.ones(len(rows), dtype=torch.bool)
        rest[group] = False
        try:
            fit = as_density(method.fit(rows[rest][:, columns], weights[rest]))
        except DataError:  # the others alone have no density: the closed form is all there is
            continue
        own = KnownPart(fit).log_density(rows[group][:, columns])
        found = found.index_copy(0, group, own.to(found))
    return found

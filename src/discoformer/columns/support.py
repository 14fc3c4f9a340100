"""Samples that do not fill their space: constant and collinear columns, fewer rows than columns.

Such a sample has no density in all its columns.  `divide` finds the columns that carry one and leaves out
those that are constant or linear combinations of the columns before them, with a warning that names them.
The log density is then that of the kept columns, the score is zero along the others, and `sample` gives
every column back, the dropped ones by the relation found in the data.

With no more rows than columns, every column looks dependent, and there is no telling which to drop.  Then
only constants are dropped.  With fewer than six rows per column a covariance cannot be trusted, and
whitening by it hurts.  Networks that whiten then see the sample standardized.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from discoformer.core.checks import DataError, column_names, largest
from discoformer.core.frames import constant_columns, dependent_columns
from discoformer.core.transforms import OFF_SUPPORT, KeptColumns, Relation, SupportWarning
from discoformer.scale.stream import Survey

__all__ = ["Division", "divide", "divide_survey", "rows_suffice"]

# Measured by paper/benchmarks/few_rows.py: below, whitening costs likelihood of fresh points (at four rows
# per column 0.3 nats in d=10, 0.6 in d=20, 0.9 in d=32; at 1.5 from 1.5 to 4).  At six and eight it depends
# on the data: in d=10 the cost is within two standard errors, in d=20 and 32 it is still 0.3 to 0.8, but none
# with diagonal covariances.  A network that sees standardized points instead no longer follows rotations.
ROWS_PER_COLUMN = 6


def rows_suffice(rows: int, columns: int) -> bool:
    """Whether there are enough rows to trust a covariance of these columns.

    >>> rows_suffice(rows=5, columns=3)
    False
    """
    return rows >= ROWS_PER_COLUMN * columns


class Division(NamedTuple):
    """Columns that carry a density, and how the others follow from them.

    Attributes
    ----------
    kept : numbers of the columns that carry a density
    transform : from all columns to these; None if that is all of them
    """

    kept: list[int]
    transform: KeptColumns | None


def divide(points: Tensor, weights: Tensor | None, names: Sequence[str] | None = None) -> Division:
    """Which columns of a sample (..., n, d) carry a density; warns of those that do not.

    >>> x = torch.arange(5.0, dtype=torch.float64)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", SupportWarning)
    ...     divide(torch.stack([x, 2 * x, x**2], -1), None).kept
    [0, 2]
    """
    points = points.detach()
    _check_units(points.abs().flatten(0, -2).amax(0), points.dtype, names)
    constant, collinear, samples = _dropped_columns(points, weights)
    return _division(
        points.shape[-1],
        constant,
        collinear,
        names,
        lambda kept, dropped: _relation(points, weights, kept, dropped),
        _because(samples, points.shape[:-2]),
    )


def divide_survey(survey: Survey, names: Sequence[str] | None = None) -> Division:
    """The same for a sample that is not in memory."""
    _check_units(survey.size, survey.size.dtype, names)
    return _division(
        len(survey.size),
        *dropped_by_survey(survey),
        names,
        lambda kept, dropped: _relation_by_survey(survey, kept, dropped),
    )


def _division(
    dim: int,
    constant: Sequence[int],
    collinear: Sequence[int],
    names: Sequence[str] | None,
    relate: Callable[[list[int], list[int]], Relation],
    because: str = "",
) -> Division:
    dropped = sorted({*constant, *collinear})
    kept = [j for j in range(dim) if j not in set(dropped)]
    if not kept:
        raise DataError(
            f"every column is constant (or all weight is on one row){because}: there is no density"
        )
    if not dropped:
        return Division(kept, None)
    _warn(constant, collinear, names, because)
    own = None if names is None else tuple(names)
    return Division(kept, KeptColumns(tuple(kept), tuple(dropped), relate(kept, dropped), own))


def _check_units(size: Tensor, dtype: torch.dtype, names: Sequence[str] | None) -> None:
    least = 1 / largest(dtype)
    small = (size < least) & (size > 0)
    if bool(small.any()):
        which = column_names(small.nonzero().flatten().tolist(), names)
        raise DataError(f"{which}: no value is larger than {least:.0e}, change the unit")


def _because(samples: Sequence[int], batch: torch.Size) -> str:
    """Which samples of a batch are to blame, at most three; nothing to say of a single one."""
    if not batch or not samples:
        return ""
    shown = [", ".join(str(int(i)) for i in np.unravel_index(k, batch)) for k in samples[:3]]
    rest = len(samples) - len(shown)
    return f" in sample {' and '.join(shown)}" + (f" and {rest} more" if rest else "")


def _warn(
    constant: Sequence[int], collinear: Sequence[int], names: Sequence[str] | None, because: str
) -> None:
    reasons = []
    if constant:
        reasons.append(f"{column_names(constant, names)} (constant)")
    if collinear:
        reasons.append(f"{column_names(collinear, names)} (linear in the columns before)")
    warnings.warn(
        f"left out {' and '.join(reasons)}{because}: the log density is that of the other columns",
        SupportWarning,
        stacklevel=4,
    )


def _dropped_columns(context: Tensor, weights: Tensor | None) -> tuple[list[int], list[int], list[int]]:
    """Constant and collinear columns of a sample (..., n, d): those of any sample of the batch; and which.

    The share of a column's variance that the columns before it leave unexplained is at least the smallest
    eigenvalue of the correlation matrix.  So only samples where that is small are examined one by one.
    """
    rows, dim = context.shape[-2:]
    points = context.reshape(-1, rows, dim)
    shares = None if weights is None else weights.expand(context.shape[:-1]).reshape(-1, rows)
    flat = constant_columns(points, shares)
    found, samples = flat.any(0).tolist(), set(flat.any(-1).nonzero().flatten().tolist())
    constant = [j for j in range(dim) if found[j]]
    kept = [j for j in range(dim) if not found[j]]
    if not rows > len(kept) > 1:
        return constant, [], sorted(samples)
    points, eps = points[..., kept].to(torch.float64), torch.finfo(context.dtype).eps
    shares = None if shares is None else shares.to(torch.float64)
    correlation = _correlation(points, shares)
    limit, tolerance = _tolerated(len(kept), eps)
    eigenvalues = torch.linalg.eigvalsh(correlation)
    fine = (eigenvalues[:, 0] > 4 * tolerance**2) & (eigenvalues[:, 0] > 2 * limit * eigenvalues[:, -1])
    dependent: set[int] = set()
    for k in (~fine).nonzero().flatten().tolist():
        find = partial(dependent_columns, points[k], None if shares is None else shares[k])
        own = _collinear(correlation[k], find, eps)
        dependent.update(kept[j] for j in own)
        samples |= {k} if own else set()
    return constant, sorted(dependent), sorted(samples)


def dropped_by_survey(survey: Survey) -> tuple[list[int], list[int]]:
    """Constant and collinear columns of a sample that is not in memory."""
    scale, correlation = survey.moments.scale, survey.moments.correlation
    constant = (scale <= 10 * survey.eps * survey.size).nonzero().flatten().tolist()
    kept = [j for j in range(len(scale)) if j not in set(constant)]
    if not survey.rows > len(kept) > 1:
        return constant, []
    correlation = correlation[kept][:, kept]
    found = _collinear(correlation, partial(_explained_columns, correlation), survey.eps)
    return constant, [kept[j] for j in found]


def _explained_columns(correlation: Tensor, tolerance: float) -> list[int]:
    """`dependent_columns` from a correlation matrix (d, d): what is left of a column's variance is
    1 - r' R^-1 r, by the correlations R of the columns kept so far and r with them.
    """
    kept: list[int] = []
    for j in range(len(correlation)):
        factor = torch.linalg.cholesky_ex(correlation[kept][:, kept])[0]
        explained = torch.linalg.solve_triangular(factor, correlation[kept][:, [j]], upper=False)
        if 1 - float(explained.square().sum()) > tolerance**2:
            kept.append(j)
    return [j for j in range(len(correlation)) if j not in set(kept)]


def _collinear(correlation: Tensor, find: Callable[..., list[int]], eps: float) -> list[int]:
    """Columns to leave out so that the correlation matrix (d, d) of the others can be inverted.

    ``find(tolerance=r)`` names the columns that those before explain up to a residual of relative size r.
    That leaves an eigenvalue of about r^2, so r must be above the root of the rounding error of the
    correlation matrix, and above the rounding error ``eps`` of the data itself.
    """
    dim = len(correlation)
    limit, tolerance = _tolerated(dim, eps)
    dropped: list[int] = []
    while tolerance < 1:
        dropped = find(tolerance=tolerance)
        kept = [j for j in range(dim) if j not in set(dropped)]
        eigenvalues = torch.linalg.eigvalsh(correlation[kept][:, kept])
        if eigenvalues[0] > 2 * limit * eigenvalues[-1]:
            break
        tolerance *= 4
    return dropped


def _tolerated(dim: int, eps: float) -> tuple[float, float]:
    """The ratio of eigenvalues that `Whiten` asks for, and the residual that a column needs at least."""
    limit = 10 * dim * torch.finfo(torch.float64).eps
    return limit, max(2 * limit**0.5, 100 * eps)


def _moments(points: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Mean (..., 1, d) and standard deviation (..., 1, d)."""
    rows = points.shape[-2]
    share = torch.full_like(points[..., 0], 1 / rows) if weights is None else weights.to(points)
    center = share.unsqueeze(-2) @ points
    size = (points - center).abs().amax(-2, keepdim=True).clamp_min(torch.finfo(points.dtype).tiny)
    spread = (share.unsqueeze(-2) @ ((points - center) / size).square()).sqrt()
    return center, spread * size


def _correlation(points: Tensor, weights: Tensor | None) -> Tensor:
    center, scale = _moments(points, weights)
    standard = (points - center) / scale
    mass = 1 / points.shape[-2] if weights is None else weights.unsqueeze(-1)
    return (standard * mass).mT @ standard


def _relation(
    context: Tensor, weights: Tensor | None, kept: Sequence[int], dropped: Sequence[int]
) -> Relation:
    """Least squares of the dropped columns on the kept ones, in standardized units."""
    points = context.to(torch.float64)
    center, scale = _moments(points, weights)
    rest = points[..., dropped] - center[..., dropped]
    standard = (points[..., kept] - center[..., kept]) / scale[..., kept]
    slopes = torch.linalg.lstsq(standard, rest).solution / scale[..., kept].mT
    size = points[..., dropped].abs().amax(-2, keepdim=True)
    return _relate(center, scale, slopes, size, torch.finfo(context.dtype).eps, kept, dropped)


def _relation_by_survey(survey: Survey, kept: Sequence[int], dropped: Sequence[int]) -> Relation:
    """The same from moments; a constant column follows from none."""
    center, scale, correlation = survey.moments
    cross = correlation[kept][:, dropped].nan_to_num(0.0)
    slopes = (
        torch.linalg.solve(correlation[kept][:, kept], cross) * scale[dropped] / scale[kept].unsqueeze(-1)
    )
    return _relate(center, scale.unsqueeze(0), slopes, survey.size[dropped], survey.eps, kept, dropped)


def _relate(
    center: Tensor,
    scale: Tensor,
    slopes: Tensor,
    size: Tensor,
    eps: float,
    kept: Sequence[int],
    dropped: Sequence[int],
) -> Relation:
    """A relation; a value is far from it if it is beyond the spread of its column and rounding errors."""
    far = torch.maximum(scale[..., dropped], 1e3 * eps * size / OFF_SUPPORT)
    return Relation(center[..., kept], slopes, center[..., dropped], far)

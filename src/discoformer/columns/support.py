"""Samples that do not fill their space: constant and collinear columns, fewer rows than columns.

Such a sample has no density in all its columns.  `Supported` fits the columns that carry one and leaves
out those that are constant or linear combinations of the columns before them, with a warning that names
them.  The log density is then that of the kept columns, the score is zero along the others, and
`sample` gives every column back, the dropped ones by the relation found in the data.  The arithmetic is
in double precision, whatever the sample comes in.

With no more rows than columns every column looks dependent and none can be blamed: then nothing but
constants is dropped.  With fewer than six rows per column a covariance cannot be trusted, and whitening by
it hurts: networks that whiten see the sample standardized instead.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard, runtime_checkable

import torch
from torch import Tensor

from discoformer.core.checks import DataError, column_names, largest
from discoformer.core.fields import Estimate, Field, Method
from discoformer.core.frames import dependent_columns

if TYPE_CHECKING:
    from discoformer.models.mixture.stream import Stream
    from discoformer.scale.survey import Survey

__all__ = [
    "Streams",
    "SupportWarning",
    "Supported",
    "SupportedField",
    "can_stream",
    "dropped_by_survey",
    "on_support",
    "suited",
    "support_of",
    "verb",
]

# Measured by benchmarks/few_rows.py: below, whitening costs likelihood of fresh points (at four rows per
# column 0.3 nats in d=10, 0.6 in d=20, 0.9 in d=32; at 1.5 from 1.5 to 4).  At six and eight it depends on
# the data: in d=10 the cost is within two standard errors, in d=20 and 32 it is still 0.3 to 0.8, but none
# with diagonal covariances.  A network that sees standardized points instead no longer follows rotations.
ROWS_PER_COLUMN = 6
_OFF_SUPPORT = 1e-6  # how far, in standard deviations, a query may be from the relation of the sample


class SupportWarning(UserWarning):
    """Columns were left out, or queries differ from the sample in columns that were left out."""


@runtime_checkable
class Streams(Protocol):
    """A method that may be fitted to a sample that is not in memory."""

    @property
    def streams(self) -> bool:
        """Whether this one can."""
        ...

    def fit_stream(self, stream: Stream) -> Field:
        """Fit to what streams by."""
        ...


def can_stream(method: Method) -> TypeGuard[Streams]:
    """Whether a method can be fitted to a sample that is not in memory.

    >>> from discoformer import KDE
    >>> can_stream(KDE())
    False
    """
    return isinstance(method, Streams) and method.streams


def suited(method: Method, rows: int, columns: int) -> Method:
    """The method for a sample of this shape: with few rows per column, what it uses instead.

    >>> from discoformer import KDE
    >>> kernel = KDE()
    >>> suited(kernel, rows=5, columns=3) is kernel
    True
    """
    return method if rows >= ROWS_PER_COLUMN * columns else method.for_few_rows()


def verb(field: Field, name: str) -> Any:
    """A method that only some fields have, such as ``sample``, or `DataError` if this one has it not.

    >>> from discoformer import KDE
    >>> verb(KDE().fit([[0.0], [1.0]]), "cdf")
    Traceback (most recent call last):
        ...
    discoformer.DataError: KDEField has no cdf: use a mixture model
    """
    found = getattr(field, name, None)
    if found is None:
        raise DataError(f"{type(field).__name__} has no {name}: use a mixture model")
    return found


def support_of(field: Field) -> list[int]:
    """The columns that a field's answers depend on: all, but for those that were left out."""
    support: list[int] = getattr(field, "support", list(range(field.dim)))
    return support


def on_support(field: Field) -> tuple[Field, list[int]]:
    """The field of the columns that carry a density, for what needs nothing else, and their numbers."""
    if isinstance(field, SupportedField):
        return field.inner, field.kept
    return field, list(range(field.dim))


class Supported(Method):
    """Fit a method to the columns of a sample that carry a density.

    Parameters
    ----------
    method : any method, or a function from the numbers of the kept columns to a method
    names : column names for the messages

    Examples
    --------
    >>> from discoformer import KDE
    >>> x = torch.randn(50, 1, dtype=torch.float64)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", SupportWarning)
    ...     field = Supported(KDE()).fit(torch.cat([x, torch.ones(50, 1)], 1))
    >>> field.kept, field.dropped, field.dim
    ([0], [1], 2)
    """

    def __init__(
        self, method: Method | Callable[[Sequence[int]], Method], names: Sequence[str] | None = None
    ) -> None:
        self.method = method
        self.names = names

    def _fit(self, context: Tensor, weights: Tensor | None) -> Field:
        if weights is not None and context.ndim == 2:  # rows without weight are not there
            there = weights > 0
            context, weights = context[there], weights[there]
        self._check_units(context.detach().abs().flatten(0, -2).amax(0), context.dtype)
        constant, collinear = _dropped_columns(context.detach(), weights)
        context = context.to(torch.float64)
        weights = None if weights is None else weights.to(torch.float64)
        kept, dropped = self._divide(context.shape[-1], constant, collinear)
        if not dropped:
            return self._method(kept, context.shape[-2])._fit(context, weights)
        inner = self._method(kept, context.shape[-2])._fit(context[..., kept], weights)
        relation = _relation(context.detach(), weights, kept, dropped)
        return SupportedField(inner, kept, dropped, relation, self.names)

    def fit_stream(self, stream: Stream) -> Field:
        """The same for a sample that is not in memory, by what a survey of it says."""
        found = stream.survey
        self._check_units(found.size, found.size.dtype)
        kept, dropped = self._divide(len(found.size), *dropped_by_survey(found))
        method = self._method(kept, stream.rows)
        if not can_stream(method):
            raise DataError("this model needs the whole sample in memory: load it, or use a mixture model")
        if not dropped:
            return method.fit_stream(stream)
        inner = method.fit_stream(stream.select(kept))
        return SupportedField(inner, kept, dropped, _relation_by_survey(found, kept, dropped), self.names)

    def _divide(
        self, dim: int, constant: Sequence[int], collinear: Sequence[int]
    ) -> tuple[list[int], list[int]]:
        """Columns to keep and columns to drop, with a warning that names these."""
        dropped = sorted({*constant, *collinear})
        kept = [j for j in range(dim) if j not in set(dropped)]
        if not kept:
            raise DataError("every column is constant (or all weight is on one row): there is no density")
        if dropped:
            self._warn(constant, collinear)
        return kept, dropped

    def _method(self, kept: Sequence[int], rows: int) -> Method:
        method = self.method if isinstance(self.method, Method) else self.method(kept)
        return suited(method, rows, len(kept))

    def _check_units(self, size: Tensor, dtype: torch.dtype) -> None:
        least = 1 / largest(dtype)
        small = (size < least) & (size > 0)
        if bool(small.any()):
            which = column_names(small.nonzero().flatten().tolist(), self.names)
            raise DataError(f"{which}: no value is larger than {least:.0e}, change the unit")

    def _warn(self, constant: Sequence[int], collinear: Sequence[int]) -> None:
        reasons = []
        if constant:
            reasons.append(f"{column_names(constant, self.names)} (constant)")
        if collinear:
            which = column_names(collinear, self.names)
            reasons.append(f"{which} (linear in the columns before)")
        warnings.warn(
            f"left out {' and '.join(reasons)}: the log density is that of the other columns",
            SupportWarning,
            stacklevel=3,
        )


class Relation(NamedTuple):
    """How the dropped columns follow from the kept ones: offset + (kept - center) slopes."""

    center: Tensor  # (..., 1, k)
    slopes: Tensor  # (..., k, e)
    offset: Tensor  # (..., 1, e)
    scale: Tensor  # (..., 1, e), what counts as far from the relation

    def complete(self, kept: Tensor) -> Tensor:
        """The dropped columns (..., n, e) of points given by their kept columns (..., n, k)."""
        return self.offset.to(kept) + (kept - self.center.to(kept)) @ self.slopes.to(kept)


class SupportedField(Field):
    """A field on some of the columns, seen from all of them.

    Queries are answered by their kept columns alone.  Values of the dropped columns that contradict the
    sample change nothing, but are warned of, once.
    """

    def __init__(
        self,
        inner: Field,
        kept: list[int],
        dropped: list[int],
        relation: Relation,
        names: Sequence[str] | None = None,
    ) -> None:
        self.inner = inner
        self.kept = kept
        self.dropped = dropped
        self.relation = relation
        self.names = names
        self._warned = False

    @property
    def dim(self) -> int:
        return len(self.kept) + len(self.dropped)

    @property
    def support(self) -> list[int]:
        """Columns that the answers depend on."""
        return [self.kept[j] for j in support_of(self.inner)]

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        self._check_support(queries.detach())
        log_density, inside = self.inner._estimate(queries[..., self.kept])
        score = inside.new_zeros(*inside.shape[:-1], self.dim)
        score[..., self.kept] = inside
        return Estimate(log_density, score)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n points (..., n, d); the dropped columns follow from the kept ones."""
        kept: Tensor = verb(self.inner, "sample")(n, generator)
        points = kept.new_zeros(*kept.shape[:-1], self.dim)
        points[..., self.kept] = kept
        points[..., self.dropped] = self.relation.complete(kept)
        return points

    def marginal(self, columns: Sequence[int]) -> Field:
        """The field of some of the kept columns, in the order given."""
        field: Field = verb(self.inner, "marginal")(self._inner_columns(columns))
        return field

    def conditional(self, columns: Sequence[int], values: Any) -> Field:
        """The field of the other columns given ``values`` (..., k) of some of the kept ``columns``.

        The dropped columns are no part of it.
        """
        field: Field = verb(self.inner, "conditional")(self._inner_columns(columns), values)
        return field

    def _inner_columns(self, columns: Sequence[int]) -> list[int]:
        lost = [c for c in columns if c in set(self.dropped)]
        if lost:
            raise DataError(
                f"{column_names(lost, self.names)}: left out of the fit, has no density of its own"
            )
        position = {c: j for j, c in enumerate(self.kept)}
        return [position.get(c, -1) for c in columns]  # the inner field refuses what is no column

    def _check_support(self, queries: Tensor) -> None:
        if self._warned:
            return
        expected = self.relation.complete(queries[..., self.kept])
        far = (queries[..., self.dropped] - expected).abs() > _OFF_SUPPORT * self.relation.scale.to(queries)
        if bool(far.any()):
            self._warned = True
            columns = far.flatten(0, -2).any(0).nonzero().flatten().tolist()
            which = column_names([self.dropped[c] for c in columns], self.names)
            warnings.warn(
                f"queries differ from what the sample has in {which}, left out of the fit: "
                "the answer ignores these columns",
                SupportWarning,
                stacklevel=2,
            )


def _dropped_columns(context: Tensor, weights: Tensor | None) -> tuple[list[int], list[int]]:
    """Constant and collinear columns of a sample (..., n, d): those of any sample of the batch."""
    rows, dim = context.shape[-2:]
    points = context.reshape(-1, rows, dim)
    shares = [None] * len(points) if weights is None else weights.reshape(-1, rows).unbind(0)
    constant: set[int] = set()
    dependent: set[int] = set()
    for sample, share in zip(points, shares, strict=True):
        constant.update(j for j in range(dim) if dependent_columns(sample[:, [j]], share))
    kept = [j for j in range(dim) if j not in constant]
    if rows > len(kept) > 1:
        for sample, share in zip(points, shares, strict=True):
            part, mass = sample[:, kept].to(torch.float64), None if share is None else share.to(torch.float64)
            find = partial(dependent_columns, part, mass)
            found = _collinear(_correlation(part, mass), find, torch.finfo(sample.dtype).eps)
            dependent.update(kept[j] for j in found)
    return sorted(constant), sorted(dependent)


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
    limit = 10 * dim * torch.finfo(torch.float64).eps  # what `Whiten` asks for
    tolerance = max(2 * limit**0.5, 100 * eps)
    dropped: list[int] = []
    while tolerance < 1:
        dropped = find(tolerance=tolerance)
        kept = [j for j in range(dim) if j not in set(dropped)]
        eigenvalues = torch.linalg.eigvalsh(correlation[kept][:, kept])
        if eigenvalues[0] > 2 * limit * eigenvalues[-1]:
            break
        tolerance *= 4
    return dropped


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
    """A relation that counts as far what is beyond the spread of a column, and its rounding errors."""
    far = torch.maximum(scale[..., dropped], 1e3 * eps * size / _OFF_SUPPORT)
    return Relation(center[..., kept], slopes, center[..., dropped], far)

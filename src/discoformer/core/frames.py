"""Affine normalization of a sample and the exact change of variables that goes with it.

A frame maps points by x -> (x - center) A.  A density g estimated in the frame is
f(x) = g((x - center) A) |det A| outside, so log densities gain log|det A| and scores, being
covectors, are multiplied by A'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from discoformer.core.checks import ColumnError, DataError
from discoformer.core.transforms import Frame, scaling_frame

__all__ = [
    "Axes",
    "Canonical",
    "FRAMES",
    "FrameKind",
    "FrameMoments",
    "Identity",
    "MomentFrameKind",
    "Scatter",
    "Standardize",
    "Whiten",
    "constant_columns",
    "dependent_columns",
    "refuse_constant",
    "turn_to_kurtosis",
]


class FrameKind(Protocol):
    """A rule that fits a `Frame` to a sample."""

    def fit(self, context: Tensor, weights: Tensor | None = None) -> Frame:
        """Fit to context (..., n, d) with weights (..., n) that sum to one."""
        ...


@runtime_checkable
class MomentFrameKind(FrameKind, Protocol):
    """A rule that needs only the moments of a sample, so that the sample may be streamed."""

    def from_moments(self, moments: FrameMoments) -> Frame:
        """The frame that `fit` gives for a sample with these moments."""
        ...


class FrameMoments(NamedTuple):
    """What a frame needs to know of a sample: center (..., 1, d), scale (..., d), correlation (..., d, d)."""

    center: Tensor
    scale: Tensor
    correlation: Tensor


class Identity:
    """No normalization at all: for the ablation of the paper."""

    def fit(self, context: Tensor, weights: Tensor | None = None) -> Frame:
        eye = torch.eye(context.shape[-1], dtype=context.dtype, device=context.device)
        eye = eye.expand(*context.shape[:-2], *eye.shape)
        zero = torch.zeros_like(context[..., :1, :])
        return Frame(zero, eye, eye, zero.sum((-2, -1)))

    def from_moments(self, moments: FrameMoments) -> Frame:
        return self.fit(moments.center)


class Standardize:
    """Center and scale every column to unit variance."""

    def fit(self, context: Tensor, weights: Tensor | None = None) -> Frame:
        center, scale, _ = _standardize(context, weights)
        return scaling_frame(center, scale)

    def from_moments(self, moments: FrameMoments) -> Frame:
        return scaling_frame(moments.center, moments.scale)


class Whiten:
    """Center and map the covariance to the identity.

    A = D R^(-1/2) with D the inverse standard deviations and R the correlation matrix.  Every A
    with A' S A = I differs from this one by a rotation only; going through the correlation makes
    the frame exactly equivariant to scaling of single columns as well, and keeps columns on scales
    as different as 1e-12 and 1e12 from looking collinear.
    """

    def fit(self, context: Tensor, weights: Tensor | None = None) -> Frame:
        center, scale, standard = _standardize(context, weights)
        correlation = _second_moment(standard, weights)
        deficient, tolerance = _deficient(correlation.detach())
        if bool(deficient.any()):
            raise _deficiency(context.detach(), weights, deficient, tolerance**0.5)
        return self._frame(FrameMoments(center, scale, correlation))

    def from_moments(self, moments: FrameMoments) -> Frame:
        if bool(_deficient(moments.correlation)[0].any()):
            raise DataError("some columns are linear combinations of others (singular covariance): drop them")
        return self._frame(moments)

    def _frame(self, moments: FrameMoments) -> Frame:
        center, scale, correlation = moments
        root: Tensor = _InverseSqrt.apply(correlation)  # type: ignore[no-untyped-call]
        log_det = -0.5 * torch.linalg.slogdet(correlation)[1] - scale.log().sum(-1)
        return Frame(
            center,
            root / scale.unsqueeze(-1),
            (correlation @ root) * scale.unsqueeze(-2),
            log_det,
        )


class Canonical:
    """Whiten, then rotate to axes found in the sample itself: exact affine equivariance for any core.

    Whitened samples of x and of any affine image of x differ by an orthogonal map Q alone.  The kurtosis
    axes, eigenvectors of E[|z|^2 z z'] (as in fourth-order blind identification), turn with Q, and third
    moments fix their signs, so both samples look the same in these coordinates.  Where eigenvalues tie (a
    sphere) or a third moment is zero, the choice is arbitrary; the density is still carried back exactly.
    """

    def fit(self, context: Tensor, weights: Tensor | None = None) -> Frame:
        return turn_to_kurtosis(Whiten().fit(context, weights), context, weights)


@dataclass(frozen=True)
class Scatter:
    """Whitening as the paper's listing prints it: A = S^(-1/2) with S = Xc' Xc + eps I, not divided by n.

    Coordinates shrink like 1 / sqrt(n), so what was learned at one n does not carry over to another.
    Scaling a single column rotates the symmetric root, unlike in `Whiten`.  It is here for the recipes that
    repeat the paper's own training.  The paper does not say what ``eps`` is.
    """

    eps: float = 1e-6

    def fit(self, context: Tensor, weights: Tensor | None = None) -> Frame:
        white = Whiten().fit(context, weights)  # checks the sample, too
        scatter = context.shape[-2] * white.inverse.mT @ white.inverse
        scatter = scatter + self.eps * torch.eye(scatter.shape[-1]).to(scatter)
        root: Tensor = _InverseSqrt.apply(scatter)  # type: ignore[no-untyped-call]
        return Frame(white.center, root, scatter @ root, -0.5 * torch.linalg.slogdet(scatter)[1])


FRAMES: dict[str, FrameKind] = {
    "whiten": Whiten(),
    "canonical": Canonical(),
    "scatter": Scatter(),
    "standardize": Standardize(),
    "identity": Identity(),
}


def turn_to_kurtosis(white: Frame, context: Tensor, weights: Tensor | None = None) -> Frame:
    """A whitening frame of a sample, turned to the sample's kurtosis axes; see `Canonical`."""
    z = white.normalize(context)
    kurtosis = _second_moment(z * z.norm(dim=-1, keepdim=True), weights)
    axes = torch.linalg.eigh(kurtosis)[1]
    cubes = (z @ axes) ** 3
    third = cubes.mean(-2) if weights is None else (weights.unsqueeze(-2) @ cubes).squeeze(-2)
    axes = axes * torch.where(third.detach() < 0, -1.0, 1.0).to(axes).unsqueeze(-2)
    return Frame(white.center, white.matrix @ axes, axes.mT @ white.inverse, white.log_det)


def dependent_columns(
    points: Tensor, weights: Tensor | None = None, tolerance: float | None = None
) -> list[int]:
    """Columns of (n, d) that are constant or linear combinations of the columns before them.

    Parameters
    ----------
    points : (n, d)
    weights : (n,), sum one; equal by default
    tolerance : share of a column's standard deviation that the columns before it may leave unexplained;
        a little above rounding by default

    >>> x = torch.arange(5.0, dtype=torch.float64)
    >>> dependent_columns(torch.stack([x, 2 * x + 1, x**2, torch.ones(5)], -1))
    [1, 3]
    """
    rows, dim = points.shape
    eps = torch.finfo(points.dtype).eps
    tolerance = 1e3 * eps * dim if tolerance is None else tolerance
    centered, norms = _centered(points, weights)
    basis = torch.zeros(rows, 0, dtype=points.dtype, device=points.device)
    dependent = []
    for j in range(dim):
        if norms[j] <= 10 * eps:
            dependent.append(j)
            continue
        residual = centered[:, j] / norms[j]
        for _ in range(2):  # twice is enough: the second pass removes what rounding left
            residual = residual - basis @ (basis.T @ residual)
        if basis.shape[1] >= rows - 1 or residual.norm() <= tolerance:
            dependent.append(j)
        else:
            basis = torch.cat([basis, (residual / residual.norm()).unsqueeze(1)], 1)
    return dependent


def constant_columns(points: Tensor, weights: Tensor | None = None) -> Tensor:
    """Which columns of samples (..., n, d) with weights (..., n) are constant up to rounding: (..., d).

    >>> constant_columns(torch.tensor([[0.1, 1.0], [0.1, 2.0], [0.1, 3.0]])).tolist()
    [True, False]
    """
    return _centered(points, weights)[1] <= 10 * torch.finfo(points.dtype).eps


def _centered(points: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Centered columns (..., n, d) in units of their largest value, times the root of the weights; norms."""
    share = torch.full_like(points[..., 0], 1 / points.shape[-2]) if weights is None else weights
    size = points.abs().amax(-2, keepdim=True)
    unit = torch.where(size > 0, size, 1)  # guards the squares below against under- and overflow
    centered = (points - points[..., :1, :]) / unit  # exactly zero for a constant, which a mean is not
    centered = (centered - share.unsqueeze(-2) @ centered) * share.sqrt().unsqueeze(-1)
    return centered, centered.norm(dim=-2)


def _standardize(context: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Center (..., 1, d), scale (..., d) and the standardized points (..., n, d)."""
    center = context.mean(-2, keepdim=True) if weights is None else weights.unsqueeze(-2) @ context
    centered = context - center
    spread = _spread(context, centered, weights)  # guards the squares against under- and overflow
    unit = centered / spread.unsqueeze(-2)
    squares = unit.square()
    variance = squares.mean(-2) if weights is None else (weights.unsqueeze(-2) @ squares).squeeze(-2)
    scale = variance.sqrt()
    return center, scale * spread, unit / scale.unsqueeze(-2)


def refuse_constant(context: Tensor, weights: Tensor | None = None) -> None:
    """Raise `DataError` if a column of a sample (..., n, d) is constant."""
    center = context.mean(-2, keepdim=True) if weights is None else weights.unsqueeze(-2) @ context
    _spread(context, context - center, weights)


def _spread(context: Tensor, centered: Tensor, weights: Tensor | None) -> Tensor:
    """The largest distance (..., d) of every column from its center; `DataError` where there is none."""
    counts = 1 if weights is None else (weights > 0).unsqueeze(-1)  # a row of weight zero does not count
    spread = (centered.detach().abs() * counts).amax(-2)
    eps = torch.finfo(context.dtype).eps
    constant = spread <= 4 * eps * (context.detach().abs() * counts).amax(-2)
    if bool(constant.any()):
        columns = constant.reshape(-1, constant.shape[-1]).any(0).nonzero().flatten().tolist()
        raise ColumnError(columns, "constant, so the sample has no density there; drop the column(s)")
    return spread


def _deficient(correlation: Tensor) -> tuple[Tensor, float]:
    """Which correlation matrices (..., d, d) cannot be inverted, and the ratio of eigenvalues asked for."""
    eigenvalues = torch.linalg.eigvalsh(correlation)
    tolerance = 10 * correlation.shape[-1] * torch.finfo(correlation.dtype).eps
    return eigenvalues[..., 0] <= tolerance * eigenvalues[..., -1], tolerance


def _second_moment(points: Tensor, weights: Tensor | None) -> Tensor:
    if weights is None:
        return points.mT @ points / points.shape[-2]
    return (points * weights.unsqueeze(-1)).mT @ points


def _deficiency(context: Tensor, weights: Tensor | None, deficient: Tensor, tolerance: float) -> DataError:
    """Say which columns of the first deficient sample of a batch depend on those before them."""
    points = context[deficient][0] if deficient.ndim else context
    if weights is not None and deficient.ndim:
        weights = weights[deficient][0]
    rows, dim = points.shape
    if rows <= dim:
        return DataError(
            f"{rows} rows in {dim} columns span no {dim}-dimensional density: "
            f"give at least {dim + 1} rows, fewer columns, or principal components"
        )
    columns = dependent_columns(points, weights, tolerance)
    why = "a linear combination of the other columns (singular covariance); drop it or use PCA"
    return ColumnError(columns, why)


class _InverseSqrt(torch.autograd.Function):
    """S^(-1/2) of a symmetric positive matrix, with a derivative that is finite at equal eigenvalues.

    In the eigenbasis d(S^(-1/2))_ij = -dS_ij / (a_i a_j (a_i + a_j)) with a = sqrt(eigenvalues):
    the difference quotient cancels, which autograd through `eigh` cannot know.
    """

    @staticmethod
    def forward(ctx: Any, matrix: Tensor) -> Tensor:
        eigenvalues, vectors = torch.linalg.eigh(matrix)
        roots = eigenvalues.sqrt()
        ctx.save_for_backward(roots, vectors)
        result: Tensor = (vectors / roots.unsqueeze(-2)) @ vectors.mT
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        roots, vectors = ctx.saved_tensors
        row, column = roots.unsqueeze(-1), roots.unsqueeze(-2)
        inner = vectors.mT @ gradients[0] @ vectors / (row * column * (row + column))
        result: Tensor = -(vectors @ inner @ vectors.mT)
        return result


class Axes(NamedTuple):
    """The linear map u = z K from a frame's coordinates z to standardized columns u; a batch (B) leads.

    A covariance C of z is K' C K in the columns' own coordinates, and a matrix D there is G' D G here.

    Attributes
    ----------
    matrix, inverse : (B, d, d), K and G = K^-1
    log_det : (B,), log|det K|

    Examples
    --------
    >>> axes = Axes.between(*(Frame(*[torch.full((1, 1, 1), x)] * 3, torch.ones(1)) for x in (1.0, 1.0)))
    >>> axes.diagonal(torch.full((1, 2, 1, 1), 3.0)).flatten().tolist()
    [3.0, 3.0]
    """

    matrix: Tensor
    inverse: Tensor
    log_det: Tensor

    @classmethod
    def between(cls, frame: Frame, standard: Frame) -> Axes:
        """From a frame's coordinates to those of the frame that standardizes the same sample."""
        return cls(
            frame.inverse @ standard.matrix,
            standard.inverse @ frame.matrix,
            standard.log_det - frame.log_det,
        )

    def flat(self) -> Axes:
        """The same with one leading dimension, or none made one."""
        dim = self.matrix.shape[-1]
        square = (-1, dim, dim)
        return Axes(self.matrix.reshape(square), self.inverse.reshape(square), self.log_det.reshape(-1))

    def to(self, dtype: torch.dtype) -> Axes:
        """The same in another precision."""
        return Axes(*(tensor.to(dtype) for tensor in self))

    def diagonal(self, covariance: Tensor) -> Tensor:
        """Variances along the axes (B, M, d), the diagonal of K' C K, of covariances (B, M, d, d)."""
        turned = (covariance.flatten(1, 2) @ self.matrix).view_as(covariance)
        return (self.matrix.unsqueeze(1) * turned).sum(-2).clamp_min(0)

    def along(self, variance: Tensor) -> Tensor:
        """Covariances (B, M, d, d) with the given variances (B, M, d) along the axes: G' diag(v) G."""
        left = self.inverse.mT.unsqueeze(1) * variance.unsqueeze(-2)  # (B, M, d, d)
        return (left.flatten(1, 2) @ self.inverse).view_as(left)

"""Location-scale mixtures of a standardized family, and what is built from them.

A component is x = mean + Q diag(std) t with t from the family and Q orthogonal, so that

    log f(x) = logsumexp_k [log w_k - sum log std_k + log g(t_k)],    t_k = diag(1/std_k) Q_k' (x - mean_k),
    score(x) = sum_k r_k Q_k diag(1/std_k) grad log g(t_k),           r_k = softmax of the terms above.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.fields import Estimate
from discoformer.priors.base import Distribution
from discoformer.priors.families import Family, Normal

__all__ = ["LocationScaleMixture", "gaussian", "random_rotations", "spiral"]

# Numbers in one intermediate (..., rows, k, d): a block in the cache is twice as fast as the whole.
_BLOCK = 2**18


@dataclass(frozen=True, eq=False, repr=False)
class LocationScaleMixture(Distribution):
    """A batch of mixtures with k components of one family each.

    Parameters
    ----------
    weights : (..., k), not negative; normalized where they are used.
    means : (..., k, d)
    std : (..., k, d), scales along the axes of each component; standard deviations if the family has
        unit variance.
    rotation : (..., k, d, d), orthogonal, columns are the axes of each component, or None for
        components aligned with the coordinates.
    family : the standardized family of all components.

    >>> mixture = LocationScaleMixture(
    ...     weights=torch.tensor([0.5, 0.5]), means=torch.tensor([[-2.0], [2.0]]), std=torch.ones(2, 1)
    ... )
    >>> x = mixture.sample(4, torch.Generator().manual_seed(0))
    >>> x.shape, mixture.score(torch.zeros(1, 1)).item()
    (torch.Size([4, 1]), 0.0)
    """

    weights: Tensor
    means: Tensor
    std: Tensor
    rotation: Tensor | None = None
    family: Family = Normal()

    def __post_init__(self) -> None:
        shape = self.means.shape
        expected = {"weights": shape[:-1], "std": shape, "rotation": (*shape, *shape[-1:])}
        for name, wanted in expected.items():
            tensor = getattr(self, name)
            if tensor is not None and tensor.shape != wanted:
                raise DataError(
                    f"{name} has shape {tuple(tensor.shape)}, but means {tuple(shape)} need {tuple(wanted)}"
                )
        if not bool((self.std > 0).all()):
            raise DataError("std has an entry that is not positive: every scale must be above zero")
        if bool((self.weights < 0).any()) or not bool((self.weights.sum(-1) > 0).all()):
            raise DataError("mixture weights must not be negative and must not all be zero")

    @property
    def dim(self) -> int:
        return self.means.shape[-1]

    def __repr__(self) -> str:
        family, count = type(self.family).__name__, self.means.shape[-2]
        return f"mixture of {count} {family} component(s) in {self.dim} column(s)"

    @property
    def batch_shape(self) -> torch.Size:
        return self.weights.shape[:-1]

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        k, dim = self.means.shape[-2:]
        flat = self.weights.reshape(-1, k)
        labels = torch.multinomial(flat, n, replacement=True, generator=generator)
        index = labels.reshape(*self.batch_shape, n, 1).expand(*self.batch_shape, n, dim)
        standard = self.family.sample((*self.batch_shape, n, dim), generator, self.means.dtype)
        offsets = standard * self.std.gather(-2, index)
        if self.rotation is not None:
            # All k images of a point, then the one wanted: a matrix product and a gather of d numbers
            # per point cost less than gathering d x d matrices.
            images = offsets @ _side_by_side(self.rotation.mT)  # (..., n, k d)
            offsets = images.reshape(*images.shape[:-1], k, dim).gather(-2, index.unsqueeze(-2)).squeeze(-2)
        return self.means.gather(-2, index) + offsets

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        weights, means, std = (p.to(queries) for p in (self.weights, self.means, self.std))
        k, dim = means.shape[-2:]
        inverse_std = 1 / std
        log_weights = (weights / weights.sum(-1, keepdim=True)).log() - std.log().sum(-1)
        precision = None if self.rotation is None else self.rotation.to(queries) * inverse_std.unsqueeze(-2)
        batch = math.prod(np.broadcast_shapes(self.batch_shape, queries.shape[:-2]))
        rows = max(1, _BLOCK // max(1, batch * k * dim))
        # Shares this small cannot be seen in the sum, but their products are denormal and slow.
        negligible = torch.finfo(queries.dtype).tiny ** 0.5

        blocks = []
        for start in range(0, queries.shape[-2], rows):
            points = queries[..., start : start + rows, :]
            centered = points.unsqueeze(-2) - means.unsqueeze(-3)  # (..., rows, k, d)
            if precision is None:
                standard = centered * inverse_std.unsqueeze(-3)
            else:
                standard = (centered.transpose(-3, -2) @ precision).transpose(-3, -2)
            log_family, family_score = self.family.estimate(standard)
            terms = log_family + log_weights.unsqueeze(-2)  # (..., rows, k)
            log_density = terms.logsumexp(-1)
            share = (terms - log_density.unsqueeze(-1)).exp().unsqueeze(-1)
            weighted = family_score * torch.where(share <= negligible, 0, share)  # NaN stays, and is refused
            if precision is None:
                score = (weighted * inverse_std.unsqueeze(-3)).sum(-2)
            else:
                score = weighted.flatten(-2) @ _side_by_side(precision).mT
            blocks.append((log_density, score))
        log_densities, scores = zip(*blocks, strict=True)
        return Estimate(torch.cat(log_densities, -1), torch.cat(scores, -2))


def gaussian(mean: Tensor, covariance: Tensor) -> LocationScaleMixture:
    """The Gaussian with mean (..., d) and covariance (..., d, d).

    >>> standard = gaussian(torch.zeros(2), torch.eye(2))
    >>> standard.score(torch.tensor([[1.0, -2.0]])).tolist()
    [[-1.0, 2.0]]
    """
    size = covariance.abs().amax((-2, -1), keepdim=True)
    if bool(((covariance - covariance.mT).abs() > size * torch.finfo(covariance.dtype).eps ** 0.5).any()):
        raise DataError("covariance is not symmetric: give (C + C') / 2")
    variances, axes = torch.linalg.eigh(covariance)
    if not bool((variances > 0).all()):
        raise DataError("covariance is not positive definite: its smallest eigenvalue must be above zero")
    return LocationScaleMixture(
        weights=torch.ones_like(mean[..., :1]),
        means=mean.unsqueeze(-2),
        std=variances.sqrt().unsqueeze(-2),
        rotation=axes.unsqueeze(-3),
    )


def random_rotations(
    shape: Sequence[int],
    dim: int,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Orthogonal matrices (*shape, dim, dim), uniform over the orthogonal group (Haar measure).

    >>> q = random_rotations((), 3, torch.Generator().manual_seed(0), torch.float64)
    >>> torch.allclose(q @ q.mT, torch.eye(3, dtype=torch.float64))
    True
    """
    normal = torch.randn((*shape, dim, dim), generator=generator, dtype=dtype)
    q, r = torch.linalg.qr(normal)
    # QR fixes the signs of the columns by convention; undoing that makes q uniform.
    uniform: Tensor = q * torch.diagonal(r, dim1=-2, dim2=-1).sign().unsqueeze(-2)
    return uniform


def spiral(
    turns: float = 2.0,
    radius: float = 3.0,
    width: float = 0.15,
    modes: int = 200,
    dtype: torch.dtype = torch.float64,
) -> LocationScaleMixture:
    """An Archimedean spiral in the plane as a mixture of many small Gaussians along the curve.

    The density is exact, because the mixture *is* the distribution; the components are about equally
    spaced along the curve and should be closer to each other than ``width``.

    >>> spiral().dim
    2
    """
    # Arc length grows like the angle squared, so angles at the root of a uniform grid are evenly spaced.
    fraction = ((torch.arange(modes, dtype=dtype) + 0.5) / modes).sqrt()
    angle = 2 * math.pi * turns * fraction
    means = radius * fraction.unsqueeze(-1) * torch.stack([angle.cos(), angle.sin()], -1)
    return LocationScaleMixture(
        weights=torch.ones(modes, dtype=dtype), means=means, std=torch.full_like(means, width)
    )


def _side_by_side(matrices: Tensor) -> Tensor:
    """Matrices (..., k, d, e) as one (..., d, k e)."""
    return matrices.transpose(-3, -2).flatten(-2)

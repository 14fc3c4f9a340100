"""Random dependence between columns, up to columns that are all but functions of others."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from discoformer.priors.draws import Range, flip, log_uniform, uniform
from discoformer.priors.families import Normal, StudentT
from discoformer.priors.location_scale import LocationScaleMixture, gaussian, random_rotations
from discoformer.priors.warps import Affine, Warped

__all__ = ["elliptical_copula", "mixture_copula", "random_mixing"]

F64 = torch.float64


def random_mixing(
    batch: int, dim: int, condition: Range, generator: torch.Generator | None, *, factors: bool
) -> Tensor:
    """Matrices M (batch, d, d) in double precision whose covariances M M' have condition numbers as given.

    Either axes in random directions, with logarithms of the variances uniform; or a few factors that many
    columns share, and a little noise of each column's own, so that pairs of columns are correlated to
    .999 and beyond.

    >>> m = random_mixing(2, 3, (1e4, 1e4), torch.Generator().manual_seed(0), factors=False)
    >>> torch.linalg.cond(m @ m.mT).log10().round().tolist()
    [4.0, 4.0]
    """
    ratio = log_uniform((batch, 1), condition, generator, F64)
    if not factors:
        # Both ends of the range are there, so that the condition number is what was drawn.
        place = torch.rand(batch, dim, generator=generator, dtype=F64)
        place = (place - place.amin(-1, keepdim=True)) / (
            place.amax(-1, keepdim=True) - place.amin(-1, keepdim=True)
        )
        std = ratio ** (0.5 * place.nan_to_num())
        return random_rotations((batch,), dim, generator, F64) * std.unsqueeze(-2)
    rank = 1 + int(torch.randint(0, max(1, dim // 3), (), generator=generator))
    loadings = torch.randn(batch, dim, rank, generator=generator, dtype=F64)
    # Every column belongs mostly to one factor: blocks of columns that go together.
    own = torch.randint(0, rank, (batch, dim, 1), generator=generator)
    loadings = loadings * (0.3 * torch.ones_like(loadings)).scatter(-1, own, 1.0)
    covariance = loadings @ loadings.mT
    largest = torch.linalg.eigvalsh(covariance)[..., -1:]
    root: Tensor = torch.linalg.cholesky(covariance + torch.diag_embed((largest / ratio).expand(batch, dim)))
    return root


def elliptical_copula(mixing: Tensor, nu: float | None) -> LocationScaleMixture:
    """The centered normal, or Student's t, with the correlations of M M' and unit scales."""
    covariance = mixing @ mixing.mT
    scale = covariance.diagonal(dim1=-2, dim2=-1).rsqrt()
    correlation = covariance * scale.unsqueeze(-1) * scale.unsqueeze(-2)
    correlation = 0.5 * (correlation + correlation.mT)
    normal = gaussian(torch.zeros(mixing.shape[:-1], dtype=F64), correlation)
    return replace(normal, family=Normal() if nu is None else StudentT(nu))


def mixture_copula(batch: int, k: int, dim: int, generator: torch.Generator | None) -> Warped:
    """Mixtures of k Gaussians whose columns have mean zero and variance one."""
    rotated = flip(0.5, generator)
    mixture = LocationScaleMixture(
        weights=uniform((batch, k), (0.2, 1.0), generator, F64),
        means=1.5 * torch.randn(batch, k, dim, generator=generator, dtype=F64),
        std=log_uniform((batch, k, dim), (0.3, 1.2), generator, F64),
        rotation=random_rotations((batch, k), dim, generator, F64) if rotated else None,
    )
    weights = (mixture.weights / mixture.weights.sum(-1, keepdim=True)).unsqueeze(-1)
    variances = mixture.std.square()
    if mixture.rotation is not None:
        variances = (mixture.rotation.square() @ variances.unsqueeze(-1)).squeeze(-1)
    mean = (weights * mixture.means).sum(-2)
    variance = (weights * (variances + mixture.means.square())).sum(-2) - mean.square()
    return Warped(mixture, Affine(variance.rsqrt(), -mean * variance.rsqrt()))

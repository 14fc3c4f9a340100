"""A fitted density as the prior transform of a nested sampler: the unit cube to its points.

Columns follow one after the other, each by its conditional quantile given those before (Rosenblatt 1952), so
that uniform numbers become draws from the density.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.adapters.fitted import density_of
from discoformer.core.checks import DataError
from discoformer.core.fields import Density
from discoformer.core.moving import moved

__all__ = ["prior_transform"]

_EDGE = 1e-15  # how near to 0 and 1 a share may come: quantiles there are infinite


def prior_transform(fitted: Any) -> Callable[[Any], NDArray[np.float64]]:
    """A function from the unit cube (d,) or (m, d) to points of the density, for nested samplers.

    Parameters
    ----------
    fitted : a fitted `DiScoFormer`, or a `Density`

    Examples
    --------
    >>> from discoformer import load_model
    >>> transform = prior_transform(load_model("default").fit(np.random.default_rng(0).normal(size=(100, 2))))
    >>> transform([0.5, 0.5]).shape, transform([[0.5, 0.5], [0.1, 0.9]]).shape
    ((2,), (2, 2))
    """
    return _CubeTransform(moved(density_of(fitted), torch.float64))


class _CubeTransform:
    """The quantiles of each column given those before; an object, so that it can go to other processes."""

    def __init__(self, density: Density) -> None:
        missing = sorted(set(range(density.dim)) - set(density.support))
        if missing:
            raise DataError(f"column(s) {missing} carry no density of their own: fit the others")
        self.margins = [density.marginal(list(range(j + 1))) for j in range(density.dim)]

    @torch.no_grad()
    def __call__(self, cube: Any) -> NDArray[np.float64]:
        shares, dim = np.asarray(cube, dtype=np.float64), len(self.margins)
        if shares.shape[-1:] != (dim,) or not ((shares >= 0) & (shares <= 1)).all():
            raise DataError(f"give points of the unit cube with {dim} numbers between 0 and 1 each")
        flat = torch.from_numpy(shares.reshape(-1, dim).copy()).clamp(_EDGE, 1 - _EDGE)
        points = self.margins[0].quantile(flat[:, 0])
        for j in range(1, dim):
            law = self.margins[j].conditional(list(range(j)), points)
            points = torch.cat([points, law.quantile(flat[:, j : j + 1]).squeeze(-1)], -1)
        return points.numpy().reshape(shares.shape)

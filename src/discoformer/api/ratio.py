"""The ratio of two densities, from a sample of each: where one law has more mass than the other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.api.fitting import fit_sample
from discoformer.columns.fit_recipe import FitRecipe
from discoformer.core.checks import DataError, to_tensor
from discoformer.core.fields import PointDensity, as_point_density
from discoformer.data.containers import in_order_of
from discoformer.functionals.columns import for_kinds_of
from discoformer.functionals.splits import check_pair
from discoformer.methods import resolve

__all__ = ["DensityRatio", "ratio"]

A = TypeVar("A", NDArray[np.float64], Tensor)


@dataclass(frozen=True)
class DensityRatio:
    """f / (relative f + (1 - relative) g), for densities f and g.

    Attributes
    ----------
    numerator, denominator : f and g
    relative : 0 for the plain ratio; the relative one is at most 1 / relative
    """

    numerator: PointDensity
    denominator: PointDensity
    relative: float = 0.0

    def log_ratio(self, queries: A) -> A:
        """Log of the ratio (..., m) at queries (..., m, d)."""
        log_f, log_g = (d.log_density(queries) for d in (self.numerator, self.denominator))
        if not self.relative:
            return log_f - log_g
        mixed = np.logaddexp if isinstance(log_f, np.ndarray) else torch.logaddexp
        below: A = mixed(log_f + math.log(self.relative), log_g + math.log1p(-self.relative))
        return log_f - below

    def __call__(self, queries: A) -> A:
        """The ratio (..., m) at queries (..., m, d)."""
        log_ratio = self.log_ratio(queries)
        return np.exp(log_ratio) if isinstance(log_ratio, np.ndarray) else log_ratio.exp()


def ratio(
    X: Any,
    Y: Any,
    *,
    relative: float = 0.0,
    weights: tuple[Any, Any] = (None, None),
    model: Any = "default",
) -> DensityRatio:
    """The density of the sample X over that of Y.

    Counts and repeated values are found in both samples together, as for `kl_divergence`.

    Parameters
    ----------
    X, Y : (n, d) and (m, d); columns of frames go by their names
    relative : between 0 and 1: the share of X's density in the denominator, which bounds the ratio
    weights : (n,) and (m,), either of them may be None
    model : as for `discoformer.DiScoFormer`

    Examples
    --------
    >>> x, y = np.random.default_rng(0).normal(size=(2, 300, 1))
    >>> found = ratio(x + 1, y, model="kde-scott")
    >>> bool(found(np.array([[2.0]]))[0] > 1 > found(np.array([[-1.0]]))[0])
    True
    """
    if not 0 <= relative < 1:
        raise DataError(f"relative={relative}: give a share from 0 to below 1")
    own = check_pair(weights)
    samples = to_tensor(X, "X"), to_tensor(in_order_of(X, Y), "Y")
    told = _of_both(*samples, model)
    f, g = (
        as_point_density(
            fit_sample(sample, model, weights=share, kinds=told.kinds, own_bounds=told.bounds).field
        )
        for sample, share in zip(samples, own, strict=True)
    )
    if f.dim != g.dim:
        raise DataError(f"the samples have {f.dim} and {g.dim} column(s): give the same columns of both")
    if f.support != g.support:
        raise DataError(
            f"the fits are of columns {f.support} and {g.support}, the others carry no density: give columns "
            "that carry one in both samples"
        )
    return DensityRatio(f, g, relative)


def _of_both(x: Tensor, y: Tensor, model: Any) -> FitRecipe:
    """The method with the kinds of the columns of both samples; without any where all are continuous."""
    method = resolve(model).method
    if x.ndim != 2 or y.ndim != 2 or x.shape[-1] != y.shape[-1]:
        return FitRecipe(method)
    told = for_kinds_of(method, torch.cat([x, y.to(x)]))
    return told if isinstance(told, FitRecipe) and told is not method else FitRecipe(method)

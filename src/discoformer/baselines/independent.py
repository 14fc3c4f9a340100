"""Columns as if they were independent of one another: what any joint density must beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from discoformer.columns.fit_recipe import FitRecipe
from discoformer.core.checks import check_points
from discoformer.core.fields import Estimate, Field, Method, PointDensity, as_point_density

__all__ = ["IndependentColumns"]


@dataclass(frozen=True)
class IndependentColumns(Method):
    """A recipe fitted to one column at a time; a row with gaps gets the density of its known values.

    Examples
    --------
    >>> from discoformer.baselines.kde import KDE
    >>> x = torch.randn(50, 2, dtype=torch.float64)
    >>> both = IndependentColumns(FitRecipe(KDE())).fit(x)
    >>> apart = sum(KDE().fit(x[:, [j]]).log_density(x[:, [j]]) for j in range(2))
    >>> torch.allclose(both.log_density(x), apart)
    True
    """

    recipe: FitRecipe

    def fit(self, context: Any, weights: Any = None) -> Field:
        points = check_points(context, "context", min_rows=2, gaps=True)
        return self._fit(points, None if weights is None else torch.as_tensor(weights).to(points))

    def _fit(self, context: Tensor, weights: Tensor | None) -> Field:
        parts: list[PointDensity] = []
        for j in range(context.shape[-1]):
            there = ~context[:, j].isnan()
            share = None if weights is None else weights[there]
            kind = None if self.recipe.kinds is None else self.recipe.kinds[j]
            if kind is not None and kind.kind == "category":
                parts.append(Shares.of(context[there, j], share, kind.levels))
            else:
                parts.append(as_point_density(self._of(j).fit(context[there][:, [j]], share)))
        return Product(parts)

    def _of(self, column: int) -> FitRecipe:
        def one(items: Sequence[Any] | None) -> list[Any] | None:
            return None if items is None else [items[column]]

        recipe = self.recipe
        return replace(
            recipe, bounds=one(recipe.bounds), names=one(recipe.names), kinds=one(recipe.kinds), drop=False
        )


class Shares(PointDensity):
    """Log probabilities (L,) of the labels of a category."""

    dim = 1

    def __init__(self, log_share: Tensor) -> None:
        self.log_share = log_share

    @classmethod
    def of(cls, codes: Tensor, weights: Tensor | None, levels: int) -> Shares:
        """Shares of the codes (n,), smoothed by one more row, spread evenly over all labels."""
        share = torch.full_like(codes, 1 / len(codes)) if weights is None else weights / weights.sum()
        count = codes.new_zeros(levels).index_add(0, codes.long(), share * len(codes))
        return cls(((count + 1 / levels) / (len(codes) + 1)).log())

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        return Estimate(self.log_share[queries[..., 0].long()], torch.zeros_like(queries))


class Product(PointDensity):
    """Densities of one column each, side by side."""

    def __init__(self, parts: Sequence[PointDensity]) -> None:
        self.parts = parts

    @property
    def dim(self) -> int:
        return len(self.parts)

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        log_density, score = torch.zeros_like(queries[..., 0]), torch.zeros_like(queries)
        for j, part in enumerate(self.parts):
            there = ~queries[..., j].isnan()
            if bool(there.any()):
                found = part.estimate(queries[there][:, [j]])
                log_density[there] += found.log_density
                score[..., j][there] = found.score[..., 0]
        return Estimate(log_density, score)

"""A Gaussian mixture for every combination of labels, as is often done by hand with a mixed table.

    f(labels, numbers) = share(labels) f(numbers | labels)

A combination with enough rows has a mixture of its own; the others use that of all rows.  Mixtures are fitted
to rows without gaps.  A query with gaps gets the density of its known values, in closed form.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.columns.bounds import fit_scaling
from discoformer.columns.kinds import Layout, MixedMethod
from discoformer.core.checks import DataError
from discoformer.core.composed import push
from discoformer.core.fields import Estimate, Field, PointDensity
from discoformer.priors import LocationScaleMixture

__all__ = ["MixturePerCombination"]

_COMPONENTS = 5  # at most, chosen by BIC; k > 1 components need 4 k d rows
_OWN = 3  # a combination has a mixture of its own from 3 d + 3 rows on
_GAP = -1  # code of a missing label

Key = tuple[int, ...]


class MixturePerCombination(MixedMethod):
    """Smoothed shares of the combinations of labels, times Gaussian mixtures of 1 to 5 components by BIC.

    >>> from discoformer.columns.fit_recipe import FitRecipe
    >>> from discoformer.columns.kinds import ColumnKind
    >>> rng = np.random.default_rng(0)
    >>> label = rng.integers(0, 2, 100)
    >>> table = np.column_stack([label, rng.normal(9.0 * label, 1.0)])
    >>> recipe = FitRecipe(MixturePerCombination(), kinds=[ColumnKind("category", levels=2), ColumnKind()])
    >>> recipe.fit(table).log_density([[0.0, 0.0], [1.0, 0.0]]).round().tolist()
    [-2.0, -42.0]
    """

    def _fit(self, context: Tensor, weights: Tensor | None) -> Field:
        return self.fit_mixed(context, weights, Layout((0.0,) * context.shape[-1]))

    def fit_mixed(self, points: Tensor, weights: Tensor | None, layout: Layout) -> Field:
        if weights is not None:
            raise DataError("mixtures of scikit-learn take no sample weights: leave them out")
        scaling = fit_scaling(points, None, layout.periods)
        inside = scaling.normalize(points).cpu().numpy()
        dim = len(layout.periods)
        numbers, codes = inside[:, :dim], _codes(inside[:, dim:])
        groups: dict[Key, list[int]] = {}
        for row, key in enumerate(map(tuple, codes.tolist())):
            if _GAP not in key:
                groups.setdefault(key, []).append(row)
        if not groups:
            raise DataError("no row has all its labels: there are no shares of their combinations")
        own = {key: _NumbersLaw.of(numbers[rows]) for key, rows in groups.items()}
        counts = {key: len(rows) for key, rows in groups.items()}
        enough = {key: cloud for key, cloud in own.items() if cloud is not None}
        everything = _NumbersLaw.of(numbers, fewest=dim + 2)
        if everything is None:
            raise DataError(f"fewer than {dim + 2} rows have all numbers: too few for a Gaussian mixture")
        return push(_Combinations(layout, counts, enough, everything), [scaling])


@dataclass(frozen=True)
class _NumbersLaw:
    """A Gaussian mixture of some of the numbers."""

    columns: tuple[int, ...]
    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    covariances: NDArray[np.float64]

    @classmethod
    def of(cls, numbers: NDArray[np.float64], fewest: int | None = None) -> _NumbersLaw | None:
        """Fit the rows of (n, d) without gaps, except columns of gaps alone; None if rows are too few."""
        fewest = _OWN * numbers.shape[1] + 3 if fewest is None else fewest
        columns = tuple(np.flatnonzero(~np.isnan(numbers).all(0)).tolist())
        rows = numbers[:, columns]
        rows = rows[~np.isnan(rows).any(1)]
        if len(rows) < fewest:
            return None
        if not columns:
            return cls(columns, np.ones(1), np.zeros((1, 0)), np.zeros((1, 0, 0)))
        mixture = _mixture(rows)
        return cls(columns, mixture.weights_, mixture.means_, mixture.covariances_)

    def estimate(self, numbers: Tensor, there: Sequence[int]) -> Estimate[Tensor]:
        """Log density of the columns ``there`` of numbers (m, d); the score (m, d) is zero in the others."""
        score = torch.zeros_like(numbers)
        if not len(there):
            return Estimate(torch.zeros_like(numbers.sum(-1)), score)
        places = [self.columns.index(j) for j in there]
        variances, axes = torch.linalg.eigh(torch.from_numpy(self.covariances[:, places][:, :, places]))
        law = LocationScaleMixture(
            torch.from_numpy(self.weights), torch.from_numpy(self.means[:, places]), variances.sqrt(), axes
        )
        found = law._estimate(numbers[:, list(there)])
        score[:, list(there)] = found.score
        return Estimate(found.log_density, score)


class _Combinations(PointDensity):
    """The joint density of rows that hold numbers, then codes; smoothing adds one row, spread evenly."""

    def __init__(
        self,
        layout: Layout,
        counts: Mapping[Key, int],
        own: Mapping[Key, _NumbersLaw],
        everything: _NumbersLaw,
    ) -> None:
        self.layout, self.counts, self.own, self.everything = layout, counts, own, everything
        self.rows = sum(counts.values())

    @property
    def dim(self) -> int:
        return self.layout.dim

    def _estimate(self, queries: Tensor) -> Estimate[Tensor]:
        rows = queries.reshape(-1, self.dim).double().cpu()
        dim = len(self.layout.periods)
        codes = _codes(rows[:, dim:].numpy())
        gaps = rows[:, :dim].isnan().numpy()
        patterns, which = np.unique(np.column_stack([codes, gaps]), axis=0, return_inverse=True)
        log_density, score = torch.empty(len(rows), dtype=torch.float64), torch.zeros_like(rows)
        for number, pattern in enumerate(patterns):
            place = torch.from_numpy(np.flatnonzero(which.reshape(-1) == number))
            key, there = tuple(map(int, pattern[: codes.shape[1]])), np.flatnonzero(~gaps[place[0]]).tolist()
            terms, scores = [], []
            for share, cloud in self._shares(key):
                cloud = cloud if cloud is not None and set(there) <= set(cloud.columns) else self.everything
                found = cloud.estimate(rows[place, :dim], there)
                terms.append(found.log_density + np.log(share))
                scores.append(found.score)
            log_density[place] = torch.stack(terms).logsumexp(0)
            part = torch.stack(terms).softmax(0).unsqueeze(-1)
            score[place, :dim] = (part * torch.stack(scores)).sum(0)
        shape = queries.shape[:-1]
        return Estimate(log_density.reshape(shape).to(queries), score.reshape(queries.shape).to(queries))

    def _shares(self, key: Key) -> Iterator[tuple[float, _NumbersLaw | None]]:
        """Share and mixture of every combination that agrees with ``key``, in which labels may be missing."""
        possible = float(prod(self.layout.levels))
        fits = [key]
        if _GAP in key:
            fits = [o for o in self.counts if all(b in (a, _GAP) for a, b in zip(o, key, strict=True))]
        for own in fits:
            yield (self.counts.get(own, 0) + 1 / possible) / (self.rows + 1), self.own.get(own)
        known = (level for level, code in zip(self.layout.levels, key, strict=True) if code == _GAP)
        unseen = float(prod(known)) - len(fits)
        if _GAP in key and unseen > 0:
            yield unseen / possible / (self.rows + 1), None


def _codes(codes: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.where(np.isnan(codes), _GAP, codes).astype(np.int64)


def _mixture(rows: NDArray[np.float64]) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    most = max(1, min(_COMPONENTS, len(rows) // (4 * rows.shape[1])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fits = [
            GaussianMixture(k, n_init=3, reg_covar=1e-4, random_state=0).fit(rows) for k in range(1, most + 1)
        ]
    return min(fits, key=lambda fit: fit.bic(rows))

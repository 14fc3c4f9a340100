"""scikit-learn's Gaussian mixtures as methods.

A fitted mixture is a distribution in closed form, f(y) = sum_k w_k N(y; mu_k, S_k), so its log density
and score are exact.  Mixtures are fitted to standardized columns: scikit-learn adds the same small
number to every variance and starts from k-means, and neither should depend on the units of the data.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discoformer.core.checks import DataError
from discoformer.core.composed import push
from discoformer.core.fields import Method, PointDensity
from discoformer.core.frames import Standardize
from discoformer.priors import LocationScaleMixture

__all__ = ["BayesianMixture", "GaussianMixtureBIC"]

_MAX_ITER = 1000  # EM runs until it converges; scikit-learn's 100 steps are too few for large samples


class _Parameters(NamedTuple):
    weights: Tensor  # (k,)
    means: Tensor  # (k, d)
    std: Tensor  # (k, d)
    rotation: Tensor | None  # (k, d, d)


class _SklearnMixture(Method):
    """Standardize, fit every sample of the batch, put the results together."""

    @abstractmethod
    def _mixture(self, points: NDArray[np.float64]) -> Any:
        """A fitted scikit-learn mixture of standardized points (n, d)."""

    def _fit(self, context: Tensor, weights: Tensor | None) -> PointDensity:
        if weights is not None:
            raise DataError(
                "scikit-learn's mixtures take no sample weights: leave them out, or use KDE, which takes them"
            )
        context = context.detach().double()
        frame = Standardize().fit(context)
        points = frame.normalize(context).cpu().numpy()
        with warnings.catch_warnings():
            from sklearn.exceptions import ConvergenceWarning

            # A search tries too many components, too: no reason to warn.
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = [_parameters(self._mixture(x)) for x in points.reshape(-1, *points.shape[-2:])]
        return push(_stack(fitted, context), [frame])


@dataclass(eq=False)
class GaussianMixtureBIC(_SklearnMixture):
    """Gaussian mixture whose number of components has the least BIC.

    Each k in ``components`` (up to n) gets one `sklearn.mixture.GaussianMixture(k,
    covariance_type=covariance, n_init=n_init, max_iter=1000, random_state=seed)`, otherwise with its
    defaults (k-means start, tolerance 1e-3, 1e-6 added to the variances of the standardized columns).
    The fit with the least BIC is taken.  Fits with a component of fewer points than its covariance needs
    (d + 1 for full, 2 for diagonal ones) come last: only the 1e-6 bounds their likelihood, so on small
    samples they would always win, and predict nothing.

    Parameters
    ----------
    covariance : "full" or "diag"
    components : numbers of components to try
    n_init : starts per number of components
    seed : of the k-means starts

    Not differentiable in the context; sample weights are refused.

    >>> x = np.random.default_rng(0).normal(size=(200, 1)) + [[-5.0], [5.0]] * 100
    >>> field = GaussianMixtureBIC().fit(x)
    >>> field.base.means.shape[0]
    2
    """

    covariance: Literal["full", "diag"] = "full"
    _: KW_ONLY
    components: Sequence[int] = range(1, 21)
    n_init: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.covariance not in ("full", "diag"):
            raise DataError(f"covariance={self.covariance!r} is unknown: use 'full' or 'diag'")
        if not self.components or min(self.components) < 1:
            raise DataError(f"components={self.components!r}: give numbers of components, at least 1")

    def _mixture(self, points: NDArray[np.float64]) -> Any:
        from sklearn.mixture import GaussianMixture

        rows, dim = points.shape
        needed = dim + 1 if self.covariance == "full" else 2
        best, least = None, (True, np.inf)
        for k in self.components:
            if k > rows:
                continue
            mixture = GaussianMixture(
                k,
                covariance_type=self.covariance,
                n_init=self.n_init,
                max_iter=_MAX_ITER,
                random_state=self.seed,
            ).fit(points)
            rank = (rows * mixture.weights_.min() < needed, mixture.bic(points))
            if best is None or rank < least:
                best, least = mixture, rank
        if best is None:
            raise DataError(
                f"{rows} rows are fewer than the {min(self.components)} components asked for: "
                "give fewer components"
            )
        return best


@dataclass(eq=False)
class BayesianMixture(_SklearnMixture):
    """Variational Gaussian mixture with full covariances; it empties the components it does not need.

    One `sklearn.mixture.BayesianGaussianMixture(components, max_iter=1000, random_state=seed)`, otherwise
    with its defaults (Dirichlet process prior on the weights), on standardized columns.  The field is the
    mixture of its weights, means and covariances; scikit-learn's own `score_samples` is a variational
    bound that does not integrate to one.

    Parameters
    ----------
    components : largest number of components
    seed : of the k-means start

    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> BayesianMixture(components=3).fit(x).score(x).shape
    (200, 2)
    """

    components: int = 20
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        if self.components < 1:
            raise DataError(f"components={self.components}: give at least 1")

    def _mixture(self, points: NDArray[np.float64]) -> Any:
        from sklearn.mixture import BayesianGaussianMixture

        return BayesianGaussianMixture(
            n_components=min(self.components, len(points)), max_iter=_MAX_ITER, random_state=self.seed
        ).fit(points)


def _parameters(mixture: Any) -> _Parameters:
    """Weights, means and principal axes of a fitted scikit-learn mixture."""
    covariances = torch.from_numpy(mixture.covariances_)
    rotation = None
    if mixture.covariance_type == "diag":
        variances = covariances
    else:
        variances, rotation = torch.linalg.eigh(covariances)
    return _Parameters(
        torch.from_numpy(mixture.weights_), torch.from_numpy(mixture.means_), variances.sqrt(), rotation
    )


def _stack(fitted: Sequence[_Parameters], context: Tensor) -> LocationScaleMixture:
    """The mixtures of a batch (..., n, d) as one; components of weight zero fill up to the largest k."""
    batch, dim = context.shape[:-2], context.shape[-1]
    count = max(len(p.weights) for p in fitted)

    def padded(tensors: Sequence[Tensor], fill: Tensor) -> Tensor:
        whole = [torch.cat([t, fill.to(t).expand(count - len(t), *t.shape[1:])]) for t in tensors]
        return torch.stack(whole).reshape(*batch, *whole[0].shape).to(context.device)

    rotations = [p.rotation for p in fitted if p.rotation is not None]
    return LocationScaleMixture(
        weights=padded([p.weights for p in fitted], torch.zeros(())),
        means=padded([p.means for p in fitted], torch.zeros(dim)),
        std=padded([p.std for p in fitted], torch.ones(dim)),
        rotation=padded(rotations, torch.eye(dim)) if rotations else None,
    )

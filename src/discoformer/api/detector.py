"""`DensityDetector`: a scikit-learn outlier detector whose fit also explains why a row is odd."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import OutlierMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from discoformer.api.estimator import DiScoFormer
from discoformer.core.checks import DataError
from discoformer.core.fields import as_density, as_points
from discoformer.core.transforms import SupportWarning
from discoformer.detection.copies import recalled
from discoformer.detection.typicality import Typicality
from discoformer.scale.source import is_remote

__all__ = ["DensityDetector"]

_PASSES = 3  # fits without the oddest rows, at most; most often the second finds the same rows odd


class DensityDetector(OutlierMixin, DiScoFormer):  # type: ignore[misc]
    """Finds odd rows: a `DiScoFormer` that judges each row by the fit without it.

    All methods of `DiScoFormer` work as well: `explain` says which columns make a row odd, `level` and
    `p_value` say how odd it is.

    **Contamination.** A handful of errors that lie together look like a small cluster, and a mixture would
    keep a component for it.  So the oddest rows, in the share given by the contamination, are left out of a
    second fit, and all rows are judged again, until the same rows come out odd.  A tight cluster is singled
    out by the view of the sample as one cloud; in a clean sample (``contamination=0``), rows without
    neighbours are odd instead.  Detail finer than a third of the spread of a column does not count
    (`discoformer.detection.typicality`).

    Parameters
    ----------
    contamination : float from 0 to 0.5, default=0.1
        The expected share of odd rows.  It sets the threshold, and how many rows are left out of the fit.
        With 0 the sample counts as clean: no row is left out, and a new row is odd if it is odder than all
        of them.
    model, bounds, axes, verbose : as for `DiScoFormer`

    Attributes
    ----------
    offset_ : float
        The threshold: `decision_function` is `score_samples` less this.
    kept_ : (n,) of bool
        Rows that the final fit used.
    sample_scores_ : (n,)
        `score_samples` of the sample.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sample = np.r_[rng.normal(size=(95, 2)), rng.normal(7, 0.1, size=(5, 2))]
    >>> detector = DensityDetector(contamination=0.05, model="kde-scott")
    >>> np.flatnonzero(detector.fit_predict(sample) == -1).tolist()
    [95, 96, 97, 98, 99]
    """

    def __init__(
        self,
        *,
        contamination: float = 0.1,
        model: Any = "default",
        bounds: Any = None,
        axes: bool = True,
        verbose: bool = False,
    ) -> None:
        super().__init__(model=model, bounds=bounds, axes=axes, verbose=verbose)
        self.contamination = contamination

    def fit(self, X: Any, y: Any = None) -> Self:  # type: ignore[override]
        """Fit to a sample (n, d), odd rows included; ``y`` is ignored."""
        if not 0 <= self.contamination <= 0.5:
            raise DataError(f"contamination is {self.contamination}: give a share from 0 to 0.5")
        if is_remote(X) and not isinstance(X, np.memmap):
            raise DataError("a detector judges every row by the fit without it: load the sample into memory")
        plain = isinstance(X, np.memmap) or (hasattr(X, "__array__") and not hasattr(X, "__getitem__"))
        X = np.asarray(X) if plain else X
        judge = self._judge(X)
        rows, scores, support = self._sample, judge.own.numpy(), self.field_.support
        assert rows is not None  # it is in memory
        kept = np.ones(len(rows), dtype=bool)
        for _ in range(_PASSES if self.contamination > 0 else 0):
            better = scores > np.quantile(scores, self.contamination)
            if np.array_equal(better, kept) or better.sum() < 2:
                break
            before = dict(self.__dict__)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SupportWarning)  # told by the first fit
                found = self._judge(_safe_indexing(X, np.flatnonzero(better)))
            if self.field_.support != support:  # a column that only odd rows vary in must not be lost
                self.__dict__.update(before)
                break
            judge, kept = found, better
            with torch.no_grad():
                scores = judge(torch.from_numpy(rows)).numpy()
            scores[kept] = judge.own.numpy()
        self.kept_, self.sample_scores_, self._typicality = kept, scores, judge
        self.offset_ = float(np.quantile(scores, self.contamination))
        self._judged = rows
        return self

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """How typical the rows of X (m, d) are: (m,), 0 is usual, far below is odd.

        A row that is in the sample is judged by the fit without it.
        """
        check_is_fitted(self)
        scores: NDArray[np.float64] = np.asarray(self._ask(self._score_rows, X))
        return scores

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """`score_samples` less the threshold: below zero is odd."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for odd rows, 1 for the others: (m,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _oddness(self, X: Any) -> NDArray[np.float64]:
        return self.score_samples(X)

    def _own_scores(self) -> NDArray[np.float64]:
        return self.sample_scores_[self.kept_]

    def _judge(self, X: Any) -> Typicality:
        super().fit(X)
        with torch.no_grad():
            density, rows = as_density(self.field_), torch.as_tensor(self._sample)
            return Typicality.of(density, rows, self._scored, clean=self.contamination == 0)

    def _score_rows(self, values: Any) -> NDArray[np.float64]:
        rows = as_points(values, self.field_.dim).detach().to(torch.float64)
        scores = self._typicality(rows).numpy()
        return recalled(rows.numpy(), scores, self._judged, self.sample_scores_)

"""`DensityDetector`: a scikit-learn outlier detector whose fit also explains why a row is odd."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from discoformer.api.constants import changed_constants
from discoformer.api.estimator import DiScoFormer
from discoformer.core.checks import DataError, check_points, show_cell
from discoformer.core.fields import as_density, as_points
from discoformer.core.transforms import SupportWarning
from discoformer.detection.copies import recalled
from discoformer.detection.fixed_columns import broken_constants
from discoformer.detection.typicality import Typicality
from discoformer.scale.source import is_remote

__all__ = ["DensityDetector"]

_PASSES = 3  # fits without the oddest rows, at most; most often the second finds the same rows odd
_TIED = 1e-9  # scores of equal rows differ by rounding


class DensityDetector(OutlierMixin, DiScoFormer):  # type: ignore[misc]
    """Finds odd rows: a `DiScoFormer` that judges each row by the fit without it.

    All methods of `DiScoFormer` work as well: `explain` says which columns make a row odd, `level` and
    `p_value` say how odd it is.

    **Contamination.** A handful of errors that lie together look like a small cluster, and a mixture would
    keep a component for it.  So the oddest rows, in the share given by the contamination, are left out of a
    second fit, and all rows are judged again, until the same rows come out odd.  Rows that tie at the
    threshold stay, as in a column of counts.  A tight cluster is singled out by the view of the sample as one
    cloud; in a clean sample (``contamination=0``), rows without neighbours are odd instead.  Detail finer
    than a third of the spread of a column does not count (`discoformer.detection.typicality`).

    Parameters
    ----------
    contamination : float from 0 to 0.5, default=0.1
        The expected share of odd rows.  It sets the threshold, and how many rows are left out of the fit.
        With 0 the sample counts as clean: no row is left out, and a new row is odd if it is odder than all
        of them.
    model, types, bounds, axes, verbose : as for `DiScoFormer`

    Attributes
    ----------
    loo_log_density_ : (n,)
        Log density of every row of the sample: rows that the final fit used by the fit without them, those
        that it left out as any new row.
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
        types: Any = None,
        bounds: Any = None,
        axes: bool = True,
        verbose: bool = False,
    ) -> None:
        super().__init__(model=model, types=types, bounds=bounds, axes=axes, verbose=verbose)
        self.contamination = contamination

    def fit(self, X: Any, y: Any = None, **options: Any) -> Self:  # type: ignore[override]
        """Fit to a sample (n, d), odd rows included; ``y`` is ignored.  There are no sample weights."""
        if options.pop("sample_weight", None) is not None:
            raise DataError(
                "a detector counts every row once: leave out sample_weight, or take "
                "DiScoFormer().fit(X, sample_weight=...), whose level(X) says how odd rows are"
            )
        if options:
            raise TypeError(f"fit() got an unexpected keyword argument {next(iter(options))!r}")
        if not isinstance(self.contamination, Real) or not 0 <= self.contamination <= 0.5:
            raise DataError(
                f"contamination is {show_cell(self.contamination)}: give the share of odd rows that is to be "
                "expected, from 0 to 0.5, such as 0.05"
            )
        if is_remote(X) and not isinstance(X, np.memmap):
            raise DataError("a detector judges every row by the fit without it: load the sample into memory")
        before = dict(self.__dict__)
        try:
            return self._fit_robustly(X)
        except BaseException:
            self.__dict__ = before
            raise

    def _fit_robustly(self, X: Any) -> Self:
        plain = isinstance(X, np.memmap) or (hasattr(X, "__array__") and not hasattr(X, "__getitem__"))
        context = self._read_sample(np.asarray(X) if plain else X)
        judge = self._judge(context, type(X))
        rows, scores, support = self._sample, judge.own.numpy(), self.field_.support
        assert rows is not None  # it is in memory
        kept = np.ones(len(rows), dtype=bool)
        for _ in range(_PASSES if self.contamination > 0 else 0):
            _, better = _threshold(scores, self.contamination)
            if np.array_equal(better, kept) or better.sum() < 2:
                break
            before = dict(self.__dict__)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SupportWarning)  # told by the first fit
                try:
                    found = self._judge(context[torch.from_numpy(better)], type(X))
                except DataError:  # what is left has no density
                    found = None
            # a column that only odd rows vary in must not be lost, nor all that tells rows apart
            if found is None or self.field_.support != support or not bool(found.spread.any()):
                self.__dict__.update(before)
                break
            judge, kept = found, better
            with torch.no_grad():
                scores = judge(torch.from_numpy(rows)).numpy()
            scores[kept] = judge.own.numpy()
        self.kept_, self.sample_scores_, self._typicality = kept, scores, judge
        self.offset_, _ = _threshold(scores, self.contamination)
        self._judged = rows
        return self

    @property
    def loo_log_density_(self) -> NDArray[np.float64]:
        """Log density (n,) of every row of the sample under a fit without it."""
        found: NDArray[np.float64] = np.empty(len(self.kept_))
        found[self.kept_] = self._loo()
        if not self.kept_.all():
            with torch.no_grad():
                found[~self.kept_] = self._queried().log_density(self._judged[~self.kept_])
        return found

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """How typical the rows of X (m, d) are: (m,), 0 is usual, far below is odd.

        A row that is in the sample is judged by the fit without it.  One that differs in a column that never
        changes there is odder than all of the sample.
        """
        check_is_fitted(self)
        scores: NDArray[np.float64] = np.asarray(self._ask(self._score_rows, X))
        for constant in changed_constants(None if self._frame is None else self._frame.schema, X):
            scores = np.where(constant.changed, np.minimum(scores, self.sample_scores_.min()) - 1, scores)
        return scores

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """`score_samples` less the threshold: below zero is odd."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for odd rows, 1 for the others: (m,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _oddness(self, X: Any, calibration: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        own = self.sample_scores_[self.kept_] if calibration is None else self.score_samples(calibration)
        return self.score_samples(X), own

    def _judge(self, context: Tensor, holder: type) -> Typicality:
        self._fit_rows(context, holder)
        with torch.no_grad():
            density, rows = as_density(self.field_), torch.as_tensor(self._sample)
            clean = self.contamination == 0
            return Typicality.of(density, rows, self._scored, kinds=self._kinds, clean=clean)

    def _score_rows(self, values: Any) -> NDArray[np.float64]:
        rows = as_points(values, self.field_.dim).detach().to(torch.float64)
        check_points(rows, "X", gaps=self._gaps[2])
        wrong = broken_constants(rows, torch.from_numpy(self._judged)).where.sum(-1).numpy()
        scores = self._typicality(rows).numpy()
        scores = np.where(wrong > 0, np.minimum(scores, self.sample_scores_.min()) - wrong, scores)
        return recalled(rows.numpy(), scores, self._judged, self.sample_scores_)


def _threshold(scores: NDArray[np.float64], share: float) -> tuple[float, NDArray[np.bool_]]:
    """The score (n,) that a share of the rows is below, and which rows are above; with ties, at or above.

    >>> _threshold(np.array([3.0, 1.0, 1.0, -5.0]), 0.5)
    (1.0, array([ True,  True,  True, False]))
    """
    cut = float(np.quantile(scores, share))
    tied = np.abs(scores - cut) <= _TIED
    if tied.sum() < 2:
        return cut, scores > cut
    cut = float(scores[tied].min())
    return cut, scores >= cut

"""`DensityDetector` by the conventions of PyOD: higher is odder, labels are 0 and 1.

PyOD's own code (pipelines, combination, thresholds, explanations by rank) works with it, since it is one of
its detectors.  Needs the extra ``detect``.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pyod.models.base import BaseDetector
from sklearn.utils.validation import check_is_fitted

from discoformer.api.detector import DensityDetector

__all__ = ["PyODDetector"]


class PyODDetector(BaseDetector):  # type: ignore[misc]
    """A `DensityDetector` as one of PyOD's detectors.

    Parameters
    ----------
    contamination : float above 0, at most 0.5; as for `DensityDetector`
    model, types, bounds, axes : as for `DensityDetector`

    Attributes
    ----------
    decision_scores_ : (n,), of the sample; higher is odder
    threshold_ : float, scores above it are odd
    labels_ : (n,), 1 for odd rows, 0 for the others
    detector_ : DensityDetector, which can `explain`

    Examples
    --------
    >>> sample = np.r_[np.random.default_rng(0).normal(size=(95, 2)), np.full((5, 2), 9.0)]
    >>> PyODDetector(contamination=0.05, model="kde-scott").fit(sample).labels_[-6:].tolist()
    [0, 1, 1, 1, 1, 1]
    """

    def __init__(
        self,
        contamination: float = 0.1,
        *,
        model: Any = "default",
        types: Any = None,
        bounds: Any = None,
        axes: bool = True,
    ) -> None:
        super().__init__(contamination=contamination)
        self.model = model
        self.types = types
        self.bounds = bounds
        self.axes = axes

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to a sample (n, d), odd rows included; ``y`` is ignored."""
        self._set_n_classes(y)
        detector = DensityDetector(
            contamination=self.contamination,
            model=self.model,
            types=self.types,
            bounds=self.bounds,
            axes=self.axes,
        )
        self.detector_ = detector.fit(X)
        self.decision_scores_ = -detector.sample_scores_
        self._process_decision_scores()
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """How odd the rows of X (m, d) are: (m,), higher is odder."""
        check_is_fitted(self, ["decision_scores_", "threshold_", "labels_"])
        return -self.detector_.score_samples(X)

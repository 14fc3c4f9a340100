"""Gaps filled by a density: `DiScoFormerImputer`, scikit-learn's transformer around `DiScoFormer`."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from discoformer.api.estimator import DiScoFormer
from discoformer.core.checks import plain

__all__ = ["DiScoFormerImputer"]


class DiScoFormerImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fill gaps by what is expected given the rest of the row, under the density of all rows.

    Numbers get their conditional mean, categories their most likely label; `DiScoFormer.impute` gives draws
    for multiple imputation.  Whether a value is missing must not depend on the value itself.  Columns of a
    frame that the density leaves out, such as identifiers, come through as they are.

    Parameters
    ----------
    model, types, bounds : as for `DiScoFormer`; the model must take gaps, as the default does

    Attributes
    ----------
    density_ : DiScoFormer
        The density of the rows that the imputer was fitted to.
    n_features_in_ : int
    feature_names_in_ : (d,), only if fitted on a frame with names

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(200, 1))
    >>> table = np.hstack([x, 2 * x + 0.1 * np.cos(9 * x)])
    >>> table[0, 1] = np.nan
    >>> filled = DiScoFormerImputer().fit_transform(table)
    >>> bool(abs(filled[0, 1] - 2 * x[0, 0]) < 0.3)
    True
    """

    def __init__(self, *, model: Any = "default", types: Any = None, bounds: Any = None) -> None:
        self.model = model
        self.types = types
        self.bounds = bounds

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the density of the rows of X (n, d), gaps included; y is ignored."""
        self.density_ = DiScoFormer(model=self.model, types=self.types, bounds=self.bounds).fit(X)
        self.n_features_in_ = self.density_.n_features_in_
        if hasattr(self.density_, "feature_names_in_"):
            self.feature_names_in_ = self.density_.feature_names_in_
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def transform(self, X: Any) -> Any:
        """X (m, d) without gaps, in the kind of data it came in."""
        check_is_fitted(self)
        if isinstance(X, np.ndarray | list):
            X = validate_data(self, plain(X), reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        return self.density_.impute(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

"""The scikit-learn face: `DiScoFormer` fits a sample and answers with its log density and score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from discoformer.api.answers import estimate_source, lazy_estimate
from discoformer.api.fitting import Fitted, choose, fit_sample, fit_stream
from discoformer.api.questions import Questions
from discoformer.columns.bounds import Bound
from discoformer.columns.fitting import FitRecipe
from discoformer.core.checks import DataError, check_points, check_weights, plain, show_cell
from discoformer.core.fields import Estimate, Field, PointDensity, as_density, as_point_density
from discoformer.data.containers import (
    kind_of,
    labels_of,
    make_frame,
    refuse_columns,
    refuse_missing,
    refuse_other_labels,
    refuse_text,
    wrap_column,
    wrap_columns,
)
from discoformer.functionals.bootstrap import WithSpread
from discoformer.scale.opening import is_remote, open_source
from discoformer.scale.source import is_dask
from discoformer.scale.stream import Stream, StreamingMethod

__all__ = ["DiScoFormer"]

_FORMAT = 1  # of pickles: raised when what they hold changes


class DiScoFormer(Questions, DensityMixin, BaseEstimator):  # type: ignore[misc]
    """Density estimation by a pretrained network: no bandwidth, no training on your data.

    Data may be arrays, pandas or polars frames, or torch tensors.  scikit-learn's own verbs
    (`score_samples`, `score`) answer with arrays, as everywhere in scikit-learn; `log_density`,
    `score_function`, `estimate` and `sample` answer in kind: frames keep their index and their column
    names, tensors stay tensors, differentiable in the points.

    Data that does not fit into memory is streamed, to the same answer: a path to an npy or parquet file or
    to a folder of parquet files, a memory map, or a dask array, whose answers are lazy dask arrays.

    Two meanings of the word score meet here.  scikit-learn's `score` is a number that says how good a fit
    is, here the total log likelihood.  In statistics the score is the gradient of the log density; that is
    `score_function`, and the field ``score`` of what `estimate` returns.

    Parameters
    ----------
    model : str, path or Method, default="default"
        A name of ``discoformer models`` or of `discoformer.methods.METHODS` ("kde-loo", "gmm-full", ...), a
        path to weights, or any method such as ``KDE("loo")``.
    bounds : optional
        Where columns cannot go: one pair (low, high) for all columns, a list with a pair or None per
        column, or a mapping from column names or numbers to pairs.  None in a pair leaves that side open.
        See `discoformer.columns.bounds`: no mass is put outside, the log density there is -inf.
    axes : bool, default=True
        Whether the columns' own axes may count: skewed or heaped columns, clusters along the axes.  Without,
        answers follow every affine map of the data exactly, rotations included.
    verbose : bool, default=False
        Show the progress of every pass over data that is streamed.

    Attributes
    ----------
    field_ : Field
        The fitted field of the spine, for `discoformer.views` and `discoformer.functionals`.
    n_features_in_ : int
    feature_names_in_ : (d,), only if fitted on a frame with names
    loo_log_density_ : (n,)
        Log density of every row of the sample under the fit without that row, so that no row vouches for
        itself.  Found when it is asked for; for samples in memory.
    support_ : (d,) of bool
        Columns that carry a density.  Constant columns and linear combinations of the columns before
        them are left out with a `SupportWarning`: the log density is that of the others.

    Examples
    --------
    >>> sample = np.random.default_rng(0).normal(size=(200, 2))
    >>> est = DiScoFormer(model="kde-scott").fit(sample)
    >>> est.score_samples(sample[:3]).shape, est.score_function(sample[:3]).shape
    ((3,), (3, 2))
    """

    def __init__(
        self, *, model: Any = "default", bounds: Any = None, axes: bool = True, verbose: bool = False
    ) -> None:
        self.model = model
        self.bounds = bounds
        self.axes = axes
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Digest a sample.

        Parameters
        ----------
        X : (n, d), at least two rows, finite; or a path to such a table
        y : ignored
        sample_weight : (n,), optional
            How much each row counts, in any unit.  A row without weight is not there.

        Returns
        -------
        self
            A fit that fails leaves the estimator as it was before.
        """
        before = dict(self.__dict__)
        try:
            return self._fit(X, sample_weight)
        except BaseException:
            self.__dict__ = before
            raise

    def _fit(self, X: Any, sample_weight: Any) -> Self:
        bare = self.bounds is None and sample_weight is None
        if is_remote(X) and not isinstance(X, np.memmap):
            if not bare:
                raise DataError("bounds and sample weights need the sample in memory: load it first")
            return self._fit_source(X)
        if (
            isinstance(X, np.memmap)
            and bare
            and isinstance(choose(self.model, self.axes).method, StreamingMethod)
        ):
            return self._fit_source(X)
        context, labels = self._read_sample(X), labels_of(X)
        weights, names = _read_weights(sample_weight), labels or self._names
        fitted = fit_sample(
            context, self.model, weights=weights, bounds=self.bounds, names=names, axes=self.axes
        )
        self._keep(fitted.field, type(X), labels, fitted.bounds, context, weights)
        return self

    def score_samples(self, X: Any) -> Any:
        """Log density (m,) at the rows of X (m, d): scikit-learn's name for `log_density`.

        An array, or a tensor for a tensor, or a dask array for a dask array.
        """
        return self._answer(X, score=False).log_density

    def log_density(self, X: Any) -> Any:
        """Log density (m,) at the rows of X (m, d); a series with the index of X for a frame."""
        result = self._answer(X, score=False).log_density
        return wrap_column(result, "log_density", X) if isinstance(result, np.ndarray) else result

    def score(self, X: Any, y: Any = None) -> float:
        """Total log likelihood of the rows of X (m, d), as `sklearn.neighbors.KernelDensity.score`.

        Not the gradient of the log density: that is `score_function`.
        """
        total = self._answer(X, score=False).log_density.sum()
        return float(total.detach() if isinstance(total, Tensor) else total)

    def score_function(self, X: Any) -> Any:
        """Gradient of the log density (m, d) at the rows of X (m, d); a frame with their index for a frame.

        This is what the literature calls the score.  The name `score` belongs to scikit-learn.
        """
        result = self._score(X)
        return result if isinstance(result, Tensor) else wrap_columns(result, self._labels, X)

    def estimate(self, X: Any, *, std: bool = False) -> Any:
        """Log density and score at once.

        Parameters
        ----------
        std : whether to add the standard deviations of both, by the Bayesian bootstrap

        Returns
        -------
        Estimate, WithSpread or frame
            For arrays and tensors a named tuple of ``log_density`` (m,) and ``score`` (m, d), and with
            ``std`` of ``log_density_std`` and ``score_std``.  For a frame a frame with its index and the
            columns ``log_density`` and ``score_<column>``, and with ``std`` both with ``_std`` at the end.
        """
        result: Any = self._answer(X)
        if std:
            bars = self._spread(X)
            result = WithSpread(result.log_density, result.score, bars.log_density, bars.score)
        if isinstance(X, np.ndarray) or kind_of(X) in ("array", "tensor"):
            return result
        names = ["log_density", *(f"score_{name}" for name in self._labels)]
        names += [f"{name}_std" for name in names] if std else []
        return wrap_columns(np.column_stack(result), names, X)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Draw new rows (n_samples, d), in the kind of data the estimator was fitted on.

        Parameters
        ----------
        n_samples : number of rows
        random_state : int, RandomState or None, as in scikit-learn
        """
        check_is_fitted(self)
        if int(n_samples) < 1:
            raise DataError(f"n_samples is {n_samples}: draw at least one row")
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        with torch.no_grad():
            points = as_density(self.field_).sample(int(n_samples), torch.Generator().manual_seed(seed))
        if issubclass(self._holder, Tensor):
            return points
        return make_frame(points.cpu().numpy(), self._labels, self._holder)

    @property
    def loo_log_density_(self) -> NDArray[np.float64]:
        """Log density (n,) of every row of the sample under the fit without that row."""
        check_is_fitted(self)
        if self._sample is None:
            raise AttributeError("loo_log_density_ needs the sample in memory: fit to an array or a frame")
        if not hasattr(self, "_left_out"):
            rows = torch.from_numpy(self._sample)
            weights = None if self._weights is None else check_weights(self._weights, rows)
            with torch.no_grad():
                found = as_density(self.field_).left_out(rows, weights)
            self._left_out: NDArray[np.float64] = found.cpu().numpy()
        return self._left_out

    def marginal(self, columns: Any) -> DiScoFormer:
        """The estimator of some of the columns, in the order given, without another fit.

        Parameters
        ----------
        columns : a name or number of a column, or a sequence of them
        """
        keep = self._positions(columns)
        return self._derived(as_density(self.field_).marginal(keep), keep)

    def conditional(self, columns: Any, values: Any) -> DiScoFormer:
        """The estimator of the other columns, given the values of ``columns``.

        Parameters
        ----------
        columns : a name or number of a column, or a sequence of them
        values : a number per column
        """
        given = self._positions(columns)
        row = np.atleast_1d(np.array(values, dtype=np.float64))
        if row.shape != (len(given),):
            raise DataError(f"{row.size} value(s) for {len(given)} column(s): give one each")
        rest = [c for c in self.field_.support if c not in set(given)]
        return self._derived(as_density(self.field_).conditional(given, row), rest)

    def conditional_log_density(self, X: Any, given: Any) -> Any:
        """Log density (m,) of the other columns given the columns ``given``, at the rows of X (m, d).

        Every row by its own values, all in one batch.

        Parameters
        ----------
        X : (m, d), all columns
        given : a name or number of a column, or a sequence of them
        """
        columns = self._positions(given)
        density = as_density(self.field_)
        result = self._ask(lambda points: density.conditional_log_density(columns, points), X)
        return wrap_column(result, "log_density", X) if isinstance(result, np.ndarray) else result

    def explore(self) -> Any:
        """The fitted density as a live picture, in Jupyter, Colab, VS Code and marimo (extra ``widget``).

        Choose columns, drag sliders to hold others fixed, click rows; ``selected`` and ``given`` of the
        widget say what was done.  Rows are those of the fit; where they were not kept, or the estimator
        comes from `marginal` or `conditional`, draws of the density stand for them.
        """
        check_is_fitted(self)
        widget = import_module("discoformer.views.widget")  # by name: that room stands above this one
        return widget.explore(self.field_, self._sample, [str(name) for name in self._labels], self._bounds)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {**state, "_format": _FORMAT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        found = state.pop("_format", None)
        if found != _FORMAT:
            raise DataError(
                f"this estimator was pickled in format {show_cell(found)}, here it is {_FORMAT}: "
                "load it with the version that wrote it, or fit it again"
            )
        super().__setstate__(state)

    @property
    def _names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    @property
    def _labels(self) -> list[Any]:
        """What the columns of the output are called: as in the frame the estimator was fitted on."""
        return self._columns or self._names or [f"x{j}" for j in range(self.n_features_in_)]

    def _answer(self, X: Any, *, score: bool = True) -> Estimate[Any]:
        """Estimate at X; without ``score`` the scores need not be kept, where there may be too many."""
        check_is_fitted(self)
        field = as_point_density(self.field_)
        if type(X) is not np.ndarray and is_remote(X):
            if is_dask(X):
                return lazy_estimate(field, X)
            source = open_source(X, self._file_names(X), show=self.verbose)
            return estimate_source(field, source, score=score)
        result: Estimate[Any] = self._ask(field.estimate, X)
        return result

    def _score(self, X: Any) -> Any:
        """Score at X, also of a field that knows nothing else."""
        check_is_fitted(self)
        if isinstance(self.field_, PointDensity):
            return self._answer(X).score
        return self._ask(self.field_.score, X)

    def _ask(self, question: Callable[[Any], Any], X: Any) -> Any:
        """What the field says at queries in memory: a tensor, or an array in double precision."""
        if isinstance(X, Tensor):
            return question(X)
        values = self._validate(X, reset=False).astype(np.float64, copy=False)
        try:
            with torch.no_grad():  # the sample may be a tensor with a graph
                return question(values)
        except DataError:
            refuse_missing(values, self._names)  # the same fault, by the name of its column
            raise

    def _fit_source(self, X: Any) -> Self:
        """`fit` by passes over data that is not in memory."""
        stream = Stream(open_source(X, show=self.verbose))
        self.n_features_in_ = stream.source.dim
        self._set_names(stream.source.names)
        fitted = fit_stream(stream, self.model, names=self._names, axes=self.axes)
        self._keep(fitted.field, np.ndarray, None, fitted.bounds)
        return self

    def _keep(
        self,
        field: Field,
        holder: type,
        columns: list[Any] | None,
        bounds: list[Bound],
        sample: Tensor | None = None,
        weights: Any = None,
    ) -> None:
        """What a fit leaves behind: numbers, and what the answers are to be held in."""
        self.field_, self._bounds = field, bounds
        self.support_ = np.isin(np.arange(field.dim), field.support)
        self._holder, self._columns = holder, columns
        rows = None if sample is None else sample.detach().to("cpu", torch.float64, copy=True).numpy()
        self._sample: NDArray[np.float64] | None = rows
        self._weights = None if weights is None else np.array(weights, dtype=np.float64)
        if hasattr(self, "_left_out"):
            del self._left_out

    def _set_names(self, names: Sequence[str] | None) -> None:
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _file_names(self, X: Any) -> list[str] | None:
        """Columns to read from a file: those of the sample where both have names."""
        return None if isinstance(X, np.memmap) or Path(X).suffix.lower() == ".npy" else self._names

    def _read_sample(self, X: Any) -> Tensor:
        """The sample as a tensor in its own precision, which is what its rounding errors come from."""
        if not isinstance(X, Tensor):
            values = self._validate(X, reset=True)
            refuse_missing(values, self._names)
            return torch.tensor(values)
        context = check_points(X, "X", min_rows=2)
        self.n_features_in_ = context.shape[-1]
        self._set_names(None)
        return context

    def _validate(self, X: Any, *, reset: bool) -> NDArray[Any]:
        if type(X) is not np.ndarray:
            refuse_columns(X)
        X = plain(X)
        if not reset:
            refuse_other_labels(X, self._columns)
        try:
            values: NDArray[Any] = validate_data(
                self,
                X,
                reset=reset,
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,
                ensure_min_samples=2 if reset else 1,
            )
        except (TypeError, ValueError):
            refuse_text(X)
            raise
        return np.ascontiguousarray(values)  # torch knows no negative strides

    def _refit(self) -> FitRecipe:
        """The method for further fits to the columns that carry a density."""
        return Fitted(self.field_, choose(self.model, self.axes), self._bounds).refit()

    def _positions(self, columns: Any) -> list[int]:
        check_is_fitted(self)
        labels: list[Any] = self._columns or self._names or []
        one = isinstance(columns, str | int | np.integer) or (
            isinstance(columns, tuple) and columns in labels
        )
        asked = [columns] if one else list(columns)
        numbered = not any(isinstance(label, Integral) for label in labels)  # else a number is a label
        unknown = [
            c
            for c in asked
            if c not in labels and (isinstance(c, bool) or not (numbered and isinstance(c, Integral)))
        ]
        if unknown:
            raise DataError(f"no column {unknown[0]!r}: the sample has {', '.join(map(repr, self._labels))}")
        positions = [labels.index(c) if c in labels else int(c) for c in asked]
        if not positions or len(set(positions)) < len(positions):
            raise DataError(f"columns {asked}: give at least one, and none twice")
        if min(positions) < 0 or max(positions) >= self.n_features_in_:
            raise DataError(f"columns {asked}: there are columns 0 to {self.n_features_in_ - 1}")
        return positions

    def _derived(self, field: Field, columns: Sequence[int]) -> DiScoFormer:
        """A fitted estimator for a field of some of the columns."""
        bounds = [self._bounds[c] for c in columns]
        result = DiScoFormer(model=self.model, bounds=bounds)
        result.n_features_in_ = len(columns)
        if hasattr(self, "feature_names_in_"):
            result.feature_names_in_ = self.feature_names_in_[list(columns)]
        labels = None if self._columns is None else [self._columns[c] for c in columns]
        result._keep(field, self._holder, labels, bounds)
        return result


def _read_weights(weights: Any) -> Any:
    if weights is None or isinstance(weights, Tensor):
        return weights
    values = np.asarray(plain(weights, "sample_weight"), dtype=np.float64)
    if values.ndim != 1:
        raise DataError(f"sample weights have shape {values.shape}, expected one per row")
    return values

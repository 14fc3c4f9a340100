"""The scikit-learn face: `DiScoFormer` fits a sample and answers with its log density and score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

import discoformer.api.data_frames as frames
from discoformer.api.answers import estimate_remote
from discoformer.api.error_bars import BarSource
from discoformer.api.fitting import Fitted, choose, fit_sample, fit_stream
from discoformer.api.pickles import Pickled
from discoformer.api.questions import Questions
from discoformer.columns.schema import Schema
from discoformer.core.checks import ColumnError, DataError, plain, within_floats
from discoformer.core.fields import Density, Estimate, Field, PointDensity, as_density, as_point_density
from discoformer.core.known_part import KnownPart
from discoformer.data.containers import (
    kind_of,
    labels_of,
    refuse_columns,
    refuse_missing,
    refuse_other_labels,
    refuse_text,
    wrap_column,
    wrap_columns,
)
from discoformer.functionals.bootstrap import WithSpread
from discoformer.methods import takes_kinds
from discoformer.scale.source import is_remote, open_source
from discoformer.scale.stream import Stream, StreamingMethod

__all__ = ["DiScoFormer"]

_KEPT = 2**15  # rows up to which a streamed sample is kept, as one in memory is
_PART = 2**13  # rows of a larger one that stand for it in `Questions.entropy`


class DiScoFormer(Questions, Pickled, DensityMixin, BaseEstimator):  # type: ignore[misc]
    """Density estimation by a pretrained network: no bandwidth, no training on your data.

    Data may be arrays, pandas or polars frames, or torch tensors.  Frames may have categories, truth values,
    dates and gaps; NaN in an array is a gap.  With categories, counts or repeated values the log density is
    with respect to counting them; the score is that of the other columns.  scikit-learn's own verbs
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
    types : mapping or str, optional
        Kinds of columns of a frame, where the rules of `discoformer.columns.schema` should not decide, as in
        ``{"age": "count"}``; ``"continuous"`` takes all numbers at face value, without masses and bounds.
        For arrays, whose columns are continuous by default, a mapping from column numbers.
    bounds : optional
        Where columns cannot go: one pair (low, high) for all columns, a list with a pair or None per
        column, or a mapping from column names or numbers to pairs.  None in a pair leaves that side open.
        See `discoformer.columns.bounds`: no mass is put outside, the log density there is -inf.  In frames,
        obvious bounds (of shares and amounts) are found from the values; `schema_` shows them.
    axes : bool, default=True
        Whether the columns' own axes may matter: skewed or heaped columns, clusters along the axes.  Without
        axes, answers follow every affine map of the data exactly, rotations included.
    verbose : bool, default=False
        Show the progress of every pass over streamed data.

    Attributes
    ----------
    field_ : Field
        The fitted field of the spine, for `discoformer.views` and `discoformer.functionals`.
    schema_ : Schema, only if fitted on a frame
        What its columns are, why, and what was done with them.
    n_features_in_ : int
    feature_names_in_ : (d,), only if fitted on a frame with names
    loo_log_density_ : (n,)
        Log density of every row of the sample under the fit without that row and its copies
        (`discoformer.detection.copies`), so that no row vouches for itself.  Found when it is asked for; for
        samples in memory.
    support_ : (d,) of bool
        Columns that carry a density.  Identifiers and texts, constant columns and linear combinations of
        the columns before them are left out with a `SupportWarning`: the log density is that of the others.

    Examples
    --------
    >>> sample = np.random.default_rng(0).normal(size=(200, 2))
    >>> est = DiScoFormer(model="kde-scott").fit(sample)
    >>> est.score_samples(sample[:3]).shape, est.score_function(sample[:3]).shape
    ((3,), (3, 2))
    """

    schema_: Schema
    _frame: frames.FrameColumns | None
    _weights: NDArray[np.float64] | None

    def __init__(
        self,
        *,
        model: Any = "default",
        types: Any = None,
        bounds: Any = None,
        axes: bool = True,
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.types = types
        self.bounds = bounds
        self.axes = axes
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to a sample.

        Parameters
        ----------
        X : (n, d), at least two rows, NaN for gaps; or a path to a table without gaps
        y : ignored
        sample_weight : (n,), optional
            How much each row counts, in any unit.  A row of weight zero does not count at all.

        Returns
        -------
        self
            A fit that fails leaves the estimator unchanged.
        """
        before = dict(self.__dict__)
        try:
            return self._fit(X, sample_weight)
        except BaseException:
            self.__dict__ = before
            raise

    def _fit(self, X: Any, sample_weight: Any) -> Self:
        if type(X) is not np.ndarray and is_remote(X):
            bare = self.bounds is None and sample_weight is None
            mapped = isinstance(X, np.memmap)  # which can be read as a whole, too
            if not (bare or mapped):
                raise DataError("bounds and sample weights need the sample in memory: load it first")
            if not mapped or (bare and isinstance(choose(self.model, self.axes).method, StreamingMethod)):
                return self._fit_source(X)
        return self._fit_rows(self._read_sample(X), type(X), sample_weight)

    def _fit_rows(self, context: Tensor, holder: type, sample_weight: Any = None) -> Self:
        """Fit to rows (n, D) of the columns that were read."""
        schema, weights = None if self._frame is None else self._frame.schema, _read_weights(sample_weight)
        tracked = any(getattr(given, "requires_grad", False) for given in (context, weights))
        try:  # the weights of a trainable network are no data: their gradients would be in every answer
            with torch.set_grad_enabled(torch.is_grad_enabled() and tracked):
                fitted = fit_sample(
                    context,
                    self.model,
                    weights=weights,
                    bounds=self.bounds,
                    names=self._names if schema is None else [column.name for column in schema.used],
                    kinds=None if schema is None else schema.kinds,
                    own_bounds=None if schema is None else schema.bounds,
                    axes=self.axes,
                )
        except DataError:
            if not issubclass(holder, Tensor):  # the same, by column
                gaps = takes_kinds(choose(self.model, self.axes))
                refuse_missing(context.numpy(), self._names and self._labels, gaps=gaps)
            raise
        if issubclass(holder, Tensor):
            self.n_features_in_ = fitted.field.dim
        self._keep(fitted, holder, context, weights)
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
        """Total log likelihood of the rows of X (m, d); the gradient is `score_function`."""
        total = self._answer(X, score=False).log_density.sum()
        return float(total.detach() if isinstance(total, Tensor) else total)

    def score_function(self, X: Any) -> Any:
        """Gradient of the log density (m, d) at the rows of X (m, d); a frame with the index of a frame."""
        result = self._score(X)
        if isinstance(result, Tensor) or kind_of(X) == "array":
            return result
        return wrap_columns(result[:, self._scored], [self._labels[j] for j in self._scored], X)

    def estimate(self, X: Any, *, std: bool | BarSource = False) -> Any:
        """Log density and score at once; with ``std`` their standard deviations: 1.645 of them hold 90 %.

        With ``True`` these come from a network that has learned the errors of the default ("head"), in one
        pass, or from the Bayesian bootstrap where there is none; "head" and "bootstrap" ask for one of them.

        Returns
        -------
        Estimate, WithSpread or frame
            For arrays and tensors a named tuple of ``log_density`` (m,) and ``score`` (m, d), and with
            ``std`` of ``log_density_std`` and ``score_std``.  For a frame a frame with its index and the
            columns ``log_density`` and ``score_<column>``, and with ``std`` both with ``_std`` at the end.
        """
        result: Any = self._answer(X)
        if std:
            bars = self._spread(X, None if std is True else std)
            result = WithSpread(result.log_density, result.score, bars.log_density, bars.score)
        if isinstance(X, np.ndarray) or kind_of(X) in ("array", "tensor"):
            return result
        names = ["log_density", *(f"score_{self._labels[j]}" for j in self._scored)]
        names += [f"{name}_std" for name in names] if std else []
        columns = [part if part.ndim == 1 else part[:, self._scored] for part in result]
        return wrap_columns(np.column_stack(columns), names, X)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Draw new rows (n_samples, d), in the kind of data the estimator was fitted on.

        Of a table, heaped columns take values that they have, as often as a new row would.
        """
        check_is_fitted(self)
        if int(n_samples) < 1:
            raise DataError(f"n_samples is {n_samples}: draw at least one row")
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        with torch.no_grad():
            points = as_density(self.field_).sample(int(n_samples), torch.Generator().manual_seed(seed))
        if issubclass(self._holder, Tensor):
            return points
        values, whole = points.cpu().numpy(), len(self.field_.support) == self.field_.dim
        return values if self._frame is None else self._frame.drawn(values, self._sample, whole)

    def marginal(self, columns: Any) -> DiScoFormer:
        """The estimator of some of the columns, by name or number, in that order; without another fit."""
        keep = self._positions(columns)
        return self._derived(as_density(self.field_).marginal(keep), keep)

    def conditional(self, columns: Any, values: Any) -> DiScoFormer:
        """The estimator of the other columns, given the values of ``columns``.

        Parameters
        ----------
        columns : a name or number of a column, or a sequence of them
        values : a value per column, as the data has it: a number, a label, a date
        """
        given = self._positions(columns)
        cells = [values] if isinstance(values, str) or not np.ndim(values) else list(values)
        if len(cells) != len(given):
            raise DataError(f"{len(cells)} value(s) for {len(given)} column(s): give one each")
        row = np.array(cells if self._frame is None else self._frame.given(given, cells), dtype=np.float64)
        rest = [c for c in self.field_.support if c not in set(given)]
        try:
            return self._derived(as_density(self.field_).conditional(given, row), rest)
        except ColumnError as error:  # the density counts its columns
            raise error.named(self._labels) from None

    @property
    def _names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    @property
    def _labels(self) -> list[Any]:
        """What the columns of the density are called: as in the frame the estimator was fitted on."""
        if self._frame is not None:
            return self._frame.labels
        return self._names or [f"x{j}" for j in range(self.n_features_in_)]

    @property
    def _scored(self) -> list[int]:
        """Columns of the density that have a score: all but categories."""
        return list(range(self.field_.dim)) if self._frame is None else self._frame.scored

    def _answer(self, X: Any, *, score: bool = True) -> Estimate[Any]:
        """Estimate at X; without ``score`` the scores need not be kept, where there may be too many."""
        check_is_fitted(self)
        if type(X) is not np.ndarray and is_remote(X):
            field = as_point_density(self.field_)
            return estimate_remote(field, X, self._names, score=score, show=self.verbose)
        result: Estimate[Any] = self._ask(self._queried().estimate, X)
        return result

    def _queried(self) -> PointDensity:
        """The field, for queries with gaps too, if the model takes gaps."""
        field, takes_gaps = as_point_density(self.field_), self._gaps[2]
        return KnownPart(field) if takes_gaps and isinstance(field, Density) else field

    def _score(self, X: Any) -> Any:
        """Score at X; the field need not know its log density."""
        check_is_fitted(self)
        if isinstance(self.field_, PointDensity):
            return self._answer(X).score
        return self._ask(self.field_.score, X)

    def _ask(self, question: Callable[[Any], Any], X: Any) -> Any:
        """What the field says at queries in memory: a tensor, or an array in double precision."""
        if isinstance(X, Tensor):
            return question(X)
        values = self._read_queries(X)
        try:
            with torch.no_grad():  # the sample may be a tensor with a graph
                return question(values)
        except DataError:
            refuse_missing(values, self._labels if self._names else None)  # the same, by column
            raise

    def _read_queries(self, X: Any) -> NDArray[np.float64]:
        """The columns of the density (m, D) at queries in memory."""
        if self._frame is None or labels_of(X) is None:
            values = self._validate(X, reset=False).astype(np.float64, copy=False)
            return values if values.shape[1] == self.field_.dim else values[:, self.support_]
        refuse_columns(X)
        if len(self._frame.labels) == self.n_features_in_:
            refuse_other_labels(X, self._frame.labels)
            validate_data(self, X, reset=False, skip_check_array=True)  # in scikit-learn's words
        return self._frame.numbers(X)

    def _fit_source(self, X: Any) -> Self:
        """`fit` by passes over data that is not in memory."""
        stream = Stream(open_source(X, show=self.verbose))
        self.n_features_in_ = stream.source.dim
        self._set_names(stream.source.names)
        self._frame = None  # numbers, whatever their types
        fitted = fit_stream(stream, self.model, names=self._names, axes=self.axes)
        few = stream.rows <= _KEPT
        self._keep(fitted, np.ndarray, stream.load() if few else None)
        self._part = None if few else stream.select(fitted.field.support).evenly("whiten", _PART).numpy()
        return self

    def _keep(self, fitted: Fitted, holder: type, sample: Tensor | None = None, weights: Any = None) -> None:
        """Store the result of a fit: numbers, and the type of data to answer in."""
        self.field_, self._bounds, self._kinds = fitted.field, fitted.bounds, fitted.kinds
        self._holder = holder
        carried = fitted.field.support
        self.support_ = np.isin(np.arange(fitted.field.dim), carried)
        if self._frame is not None:
            self.schema_, labels = self._frame.schema, [self._frame.labels[j] for j in carried]
            self.support_ = np.array([column.name in labels for column in self.schema_])
        elif hasattr(self, "schema_"):
            del self.schema_
        rows = None if sample is None else sample.detach().to("cpu", torch.float64, copy=True).numpy()
        self._sample: NDArray[np.float64] | None = rows
        self._weights = None if weights is None else np.array(weights, dtype=np.float64)
        self._part, self._is_part = None, False
        self._gaps = (self.model, self.axes, takes_kinds(fitted.resolved))
        self._left_out = None

    def _set_names(self, names: Sequence[str] | None) -> None:
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _read_sample(self, X: Any) -> Tensor:
        """The sample as a tensor in its own precision, which is what its rounding errors come from."""
        self._frame = None
        if isinstance(X, Tensor):
            self._set_names(None)
            return X
        found = frames.read_frame(X, self.types, plain=not takes_kinds(choose(self.model, self.axes)))
        if found is None:
            values = self._validate(X, reset=True)
            if self.types is not None and self.types != "continuous":
                self._frame, values = frames.read_array_types(values, self.types)
        else:
            self._frame, values = found
            validate_data(self, X, reset=True, skip_check_array=True)  # how many columns, and their names
        return torch.tensor(values)

    def _validate(self, X: Any, *, reset: bool) -> NDArray[Any]:
        """Numbers (n, d) of an array, by scikit-learn's checks; text is refused by the name of its column."""
        if type(X) is not np.ndarray:
            refuse_columns(X)
        X = plain(X)
        if getattr(X, "ndim", 2) == 1:
            raise DataError(
                "X has one dimension, expected rows and columns. Reshape your data: one row with "
                "x.reshape(1, -1) or frame.iloc[[0]], one column with x.reshape(-1, 1)"
            )
        try:
            with within_floats():
                values: NDArray[Any] = validate_data(
                    self,
                    X,
                    reset=reset,
                    dtype=[np.float64, np.float32],
                    ensure_all_finite=False,
                    ensure_min_samples=2 if reset else 1,
                )
        except DataError:
            raise
        except (TypeError, ValueError):
            refuse_text(X)
            raise
        return np.ascontiguousarray(values)  # torch knows no negative strides

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        with suppress(DataError):  # a model that there is not says so when it is fitted
            model, axes, gaps = vars(self).get("_gaps", (None, None, None))
            known = model is self.model and axes is self.axes  # scikit-learn asks at every call
            tags.input_tags.allow_nan = gaps if known else takes_kinds(choose(self.model, self.axes))
        return tags

    def _fitted(self) -> Fitted:
        """The field and where it came from."""
        return Fitted(self.field_, choose(self.model, self.axes), self._bounds, self._kinds)

    def _positions(self, columns: Any) -> list[int]:
        check_is_fitted(self)
        return frames.find_columns(columns, self._labels)

    def _derived(self, field: Field, columns: Sequence[int]) -> DiScoFormer:
        """A fitted estimator for a field of some of the columns."""
        bounds = [self._bounds[c] for c in columns]
        kinds = None if self._kinds is None else [self._kinds[c] for c in columns]
        result = DiScoFormer(model=self.model, types=self.types, bounds=bounds, axes=self.axes)
        result.n_features_in_ = len(columns)
        if hasattr(self, "feature_names_in_"):
            result.feature_names_in_ = np.array([self._labels[c] for c in columns], dtype=object)
        result._frame = None if self._frame is None else self._frame.select(columns)
        result._keep(Fitted(field, choose(self.model, self.axes), bounds, kinds), self._holder)
        result._is_part = True
        return result


def _read_weights(weights: Any) -> Any:
    """Sample weights (n,) as an array, or a tensor as it is."""
    if weights is None or isinstance(weights, Tensor):
        return weights
    values = np.asarray(plain(weights, "sample_weight"), dtype=np.float64)
    if values.ndim != 1:
        raise DataError(f"sample weights have shape {values.shape}, expected one per row")
    return values

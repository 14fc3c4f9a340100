"""What can be asked of a fitted density beside its value: gaps, reasons, levels, summaries, error bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

import discoformer.functionals as functionals
from discoformer.api.data_frames import FrameColumns, fill_gaps
from discoformer.api.error_bars import BarSource, error_bars
from discoformer.columns.bounds import Bound
from discoformer.columns.schema_convert import cell_words
from discoformer.columns.split import kinds_of
from discoformer.core.checks import DataError, check_weights, show_cell
from discoformer.core.fields import Density, Estimate, Field, Method, as_density, as_point_density, as_points
from discoformer.data.containers import wrap_column
from discoformer.detection.copies import left_out_with_copies, recalled
from discoformer.detection.levels import (
    DRAWS,
    conformal_p_values,
    discoveries,
    drawn_log_densities,
    levels,
)
from discoformer.detection.reasons import Reasons, explain_rows
from discoformer.functionals.column_summary import level_shares
from discoformer.functionals.splits import Functional, Split
from discoformer.functionals.summaries import Region, draw, highest_density_region, mode, probability

if TYPE_CHECKING:
    from discoformer.api.fitting import Fitted

__all__ = ["Questions"]

_DRAWS = 8192  # from a fitted density, where its functionals cannot be averaged over the sample


class Questions:
    """Verbs of `DiScoFormer` that a density in full answers; those read off draws always answer the same."""

    field_: Field
    _frame: FrameColumns | None
    _sample: NDArray[np.float64] | None
    _weights: NDArray[np.float64] | None
    _part: NDArray[np.float64] | None = None
    _left_out: NDArray[np.float64] | None = None
    _bounds: list[Bound]

    if TYPE_CHECKING:

        @property
        def _labels(self) -> list[Any]: ...
        def _ask(self, question: Callable[[Any], Any], X: Any) -> Any: ...
        def _positions(self, columns: Any) -> list[int]: ...
        def _fitted(self) -> Fitted: ...

    def explore(self) -> Any:
        """The fitted density as a live picture, in Jupyter, Colab, VS Code and marimo (extra ``widget``).

        Choose columns, drag sliders to hold others fixed, click rows; ``selected`` and ``given`` of the
        widget say what was done.  Where rows of the fit were not kept, draws of the density stand for them.
        """
        check_is_fitted(self)
        widget = import_module("discoformer.views.widget")  # by name: that room stands above this one
        names = [str(label) for label in self._labels]
        schema = None if self._frame is None else self._frame.schema
        return widget.explore(self.field_, self._sample, names, self._bounds, schema)

    @property
    def loo_log_density_(self) -> NDArray[np.float64]:
        """Log density (n,) of every row of the sample under the fit without that row and its copies."""
        check_is_fitted(self)
        if self._sample is None:
            raise AttributeError("loo_log_density_ needs the sample in memory: fit to an array or a frame")
        if self._left_out is None:
            rows = torch.from_numpy(self._sample)
            weights = None if self._weights is None else check_weights(self._weights, rows)
            found = left_out_with_copies(as_density(self.field_), rows, weights)
            self._left_out = found.cpu().numpy()
        return self._left_out.copy()  # the caller's own

    def impute(self, X: Any, draws: int | None = None, random_state: Any = None) -> Any:
        """X (m, d) with its gaps filled by what is expected given the rest of each row, in its own kind.

        With ``draws``, a list of that many tables with random draws in the gaps, for multiple imputation.
        """
        check_is_fitted(self)
        return fill_gaps(self, X, draws, random_state)

    def explain(self, X: Any, *, interval: float = 0.9) -> Reasons:
        """Why rows of X (m, d) are odd: -log p(x_j | the others) of every column, and what was expected.

        Rows of the sample are explained by a fit without them, unless they are more than a tenth of it.

        Parameters
        ----------
        X : rows, as for `estimate`
        interval : share of the interval around the expected value

        Examples
        --------
        >>> from discoformer import DiScoFormer
        >>> x = np.random.default_rng(0).normal(size=(300, 1)) @ np.ones((1, 3))
        >>> x += 0.1 * np.random.default_rng(1).normal(size=x.shape)
        >>> reasons = DiScoFormer(model="kde-scott").fit(x).explain(np.array([[1.0, 1.0, -1.0]]))
        >>> reasons.columns[reasons.order[0, 0]]
        'x2'
        """
        density = self._density()
        usual, method = draw(density, 512), None
        if self._sample is not None:
            usual = torch.from_numpy(self._sample)
            method = None if self._weights is not None else self._fitted().refit()

        def words(column: int, value: float) -> str:
            return cell_words(None if self._frame is None else self._frame.schema.used[column], value)

        def answer(rows: Any) -> Reasons:
            points = as_points(rows, density.dim).detach().to(torch.float64)
            return explain_rows(
                density, points, usual, method=method, share=interval, names=self._labels, words=words
            )

        reasons: Reasons = self._ask(answer, X)
        return reasons

    def level(self, X: Any, *, draws: int | None = None) -> NDArray[np.float64]:
        """Probability (m,) of a density lower than at the rows of X (m, d).

        A row of level 0.01 lies on the edge of the highest-density region that holds 99 % of the mass.

        Parameters
        ----------
        X : rows, as for `estimate`; those of the sample are judged by the fit without them
        draws : int, optional
            By default the level is a rank among the rows of the sample, each by the fit without it: right
            also where the fit is too sharp, with an error of sqrt(p (1 - p) / n).  With a number, it is a
            rank among so many draws of the fitted density; 16,384 where the sample was not kept.
        """
        found = self._log_densities(X)
        sample = self._sample
        if draws is not None or sample is None or sample.ndim > 2:
            return levels(found, drawn_log_densities(self._density(), draws or DRAWS))
        own = self.loo_log_density_
        found = np.asarray(self._ask(lambda rows: recalled(np.asarray(rows), found, sample, own), X))
        return levels(found, own, self._weights)

    def p_value(self, X: Any, *, calibration: Any = None) -> NDArray[np.float64]:
        """Conformal p-values (m,) of the rows of X (m, d): small if they are odd.

        Parameters
        ----------
        X : rows, as for `estimate`; they are not those of the sample
        calibration : (k, d), optional
            Rows that the fit has not seen and that are not odd: then P(p <= a) <= a holds exactly, whatever
            the fit.  By default the rows of the sample, each by the fit without it.
        """
        own = self._own_scores() if calibration is None else self._oddness(calibration)
        return conformal_p_values(self._oddness(X), own)

    def discoveries(self, X: Any, *, rate: float = 0.1, calibration: Any = None) -> NDArray[np.bool_]:
        """Which rows of X (m, d) to call odd so that at most a share ``rate`` of them is wrongly so: (m,)."""
        return discoveries(self.p_value(X, calibration=calibration), rate)

    def conditional_log_density(self, X: Any, given: Any) -> Any:
        """Log density (m,) of the other columns given the columns ``given``, at the rows of X (m, d).

        Every row by its own values, all in one batch.

        Parameters
        ----------
        X : (m, d), all columns
        given : a name or number of a column, or a sequence of them
        """
        columns = self._positions(given)
        density = self._density()
        result = self._ask(lambda points: density.conditional_log_density(columns, points), X)
        return wrap_column(result, "log_density", X) if isinstance(result, np.ndarray) else result

    def mean(self) -> NDArray[np.float64]:
        """Mean (d,) of the density, from draws: the error is std / 128; NaN for categories."""
        found: NDArray[np.float64] = self._ordered_draws().mean(0)
        return found

    def cov(self) -> NDArray[np.float64]:
        """Covariance (d, d) of the density, from draws; NaN for categories."""
        return np.atleast_2d(np.cov(self._ordered_draws(), rowvar=False))

    def shares(self, column: Any) -> dict[Any, float]:
        """Probabilities of the labels of a category, or of the values of a column that repeat.

        Examples
        --------
        >>> import pandas as pd
        >>> from discoformer import DiScoFormer
        >>> table = pd.DataFrame({"size": np.arange(90.0) ** 0.5, "kind": ["a", "b", "b"] * 30})
        >>> {label: round(share, 1) for label, share in DiScoFormer().fit(table).shares("kind").items()}
        {'a': 0.3, 'b': 0.7}
        """
        [place] = self._positions(column)
        found = level_shares(self._margin(column), kinds_of(self._density())[place])
        if not found:
            raise DataError(f"column {show_cell(column)} has neither labels nor values of their own")
        schema = None if self._frame is None else self._frame.schema.used[place]
        labels = schema.categories if schema is not None and schema.use == "code" else None
        return {value if labels is None else labels[int(value)]: share for value, share in found.items()}

    def mode(self) -> NDArray[np.float64]:
        """The point (d,) of highest density."""
        return mode(self._density())

    def cdf(self, values: Any, column: Any = 0) -> NDArray[np.float64]:
        """Distribution function (m,) of a column at values (m,)."""
        points = torch.as_tensor(np.atleast_1d(np.asarray(values, dtype=np.float64)))
        found: NDArray[np.float64] = self._margin(column).cdf(points.unsqueeze(-1)).numpy()
        return found

    def quantile(self, shares: Any, column: Any = 0) -> NDArray[np.float64]:
        """Where the distribution function of a column is ``shares`` (m,): (m,)."""
        wanted = torch.as_tensor(np.atleast_1d(np.asarray(shares, dtype=np.float64)))
        found: NDArray[np.float64] = self._margin(column).quantile(wanted).squeeze(-1).numpy()
        return found

    def interval(self, share: float = 0.9, column: Any = 0) -> tuple[float, float]:
        """The ends between which a column has a share of its mass, as much beyond either."""
        if not 0 < share < 1:
            raise DataError(f"an interval with share {share}: give one between 0 and 1")
        low, high = self.quantile([(1 - share) / 2, (1 + share) / 2], column)
        return float(low), float(high)

    def region(self, share: float = 0.9, columns: Any = None) -> Region:
        """The region of highest density that holds a share of the mass, of all or of some columns.

        For one column it has ``intervals``; for more, a row is inside if its log density under
        ``marginal(columns)`` is not below ``log_density``.
        """
        density = self._density()
        density = density if columns is None else density.marginal(self._positions(columns))
        return highest_density_region(density, share)

    def probability(self, region: Any) -> Functional:
        """Mass of a region and its standard error.

        Parameters
        ----------
        region : a mapping from columns to (low, high), None for an open end; or a function that tells which
            rows of an array (m, d) are inside
        """
        if isinstance(region, Mapping):
            region = {self._positions(column)[0]: ends for column, ends in region.items()}
        return probability(self._density(), region)

    def entropy(self, *, split: Split | None = None) -> Functional:
        """Differential entropy -E log f in nats, and its standard error; of the columns in `support_`.

        Parameters
        ----------
        split : "loo", "balanced", "folds" or "none", optional
            How to correct for asking a fit at points it has seen; see `discoformer.functionals`.  For a
            streamed sample of more than 32,768 rows the value is the mean over 8192 of them, without a
            correction.  For data with gaps, and for what `marginal` and `conditional` return, it is that of
            the fitted density itself, from draws.
        """
        sample, source, weights = self._sample_and_source()
        return functionals.entropy(sample, source, weights=weights, split=split)

    def fisher_information(self, *, split: Split = "balanced") -> Functional:
        """Fisher information E |grad log f|^2, and its standard error; of the columns in `support_`.

        Parameters
        ----------
        split : "balanced", "folds" or "none", as for `entropy`
        """
        sample, source, weights = self._sample_and_source()
        return functionals.fisher_information(sample, source, weights=weights, split=split)

    def _spread(self, X: Any, source: BarSource | None) -> Estimate[Any]:
        """Standard deviations of log density and score at X."""
        check_is_fitted(self)
        fitted, sample = self._fitted(), None if self._sample is None else torch.from_numpy(self._sample)
        weights = None
        if self._weights is not None and sample is not None:
            weights = check_weights(self._weights, sample)

        def answer(rows: Any) -> Estimate[Any]:
            points = as_points(rows, self.field_.dim).detach().to(torch.float64)
            spread = error_bars(fitted, sample, points, weights=weights, source=source)
            return spread if isinstance(rows, Tensor) else Estimate(*(part.numpy() for part in spread))

        spread: Estimate[Any] = self._ask(answer, X)
        return spread

    def _sample_and_source(
        self,
    ) -> tuple[NDArray[np.float64], Method | Field, NDArray[np.float64] | None]:
        """What the functionals are to average over, what they are to ask, and the weights."""
        check_is_fitted(self)
        if self._part is not None:
            whole = len(self.field_.support) == self.field_.dim
            return self._part, self.field_ if whole else self._density().marginal(self.field_.support), None
        if self._sample is None or np.isnan(self._sample).any():
            with torch.no_grad():
                draws = as_density(self.field_).sample(_DRAWS, torch.Generator().manual_seed(0))
            return draws.cpu().numpy(), self.field_, None
        return self._sample[..., self.field_.support], self._fitted().refit(), self._weights

    def _ordered_draws(self) -> NDArray[np.float64]:
        """Draws (m, d) with NaN for categories, whose codes have no order."""
        density = self._density()
        points: NDArray[np.float64] = draw(density).cpu().numpy()
        points[:, [kind.levels > 0 for kind in kinds_of(density)]] = np.nan
        return points

    def _density(self) -> Density:
        check_is_fitted(self)
        return as_density(self.field_)

    def _margin(self, column: Any) -> Density:
        [place] = self._positions(column)
        density = self._density()
        return density.marginal([place]) if density.dim > 1 else density

    def _log_densities(self, X: Any) -> NDArray[np.float64]:
        found = self._ask(as_point_density(self.field_).log_density, X)
        return np.asarray(found.detach() if isinstance(found, Tensor) else found)

    def _oddness(self, X: Any) -> NDArray[np.float64]:
        """What rows are ranked by, low is odd."""
        return self._log_densities(X)

    def _own_scores(self) -> NDArray[np.float64]:
        """The same of the rows of the sample, each by the fit without it."""
        return self.loo_log_density_

"""What can be asked of a fitted density beside its value: gaps, reasons, levels, error bars."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

import discoformer.functionals as functionals
from discoformer.api.constants import changed_constants, with_constants
from discoformer.api.data_frames import fill_gaps
from discoformer.api.error_bars import BarSource, error_bars
from discoformer.api.summaries import Summaries
from discoformer.columns.bounds import Bound
from discoformer.columns.cell_words import CellWords
from discoformer.columns.kinds import CONTINUOUS, ColumnKind
from discoformer.columns.lattice import log_mass
from discoformer.columns.split import kinds_of
from discoformer.core.checks import DataError, check_weights, show_cell
from discoformer.core.fields import Estimate, Field, Method, PointDensity, as_density, as_points
from discoformer.data.containers import wrap_column
from discoformer.detection.common_scale import CommonScale, common_scale, on_scale
from discoformer.detection.copies import recalled
from discoformer.detection.heavy_rows import left_out_rows
from discoformer.detection.levels import (
    DRAWS,
    conformal_p_values,
    discoveries,
    drawn_log_densities,
    levels,
    warn_if_too_few,
)
from discoformer.detection.reasons import Reasons, explain_rows
from discoformer.functionals.draws import draw
from discoformer.functionals.refits import bootstrapped
from discoformer.functionals.splits import Functional, Split

if TYPE_CHECKING:
    from discoformer.api.fitting import Fitted

__all__ = ["Questions"]

_DRAWS = 8192  # from a fitted density, where its functionals cannot be averaged over the sample


class Questions(Summaries):
    """Verbs of `DiScoFormer` that a density in full answers; those read off draws always answer the same."""

    _sample: NDArray[np.float64] | None
    _weights: NDArray[np.float64] | None
    _kinds: list[ColumnKind] | None
    _part: NDArray[np.float64] | None = None
    _left_out: NDArray[np.float64] | None = None
    _bounds: list[Bound]
    _is_part: bool = False  # whether it is a margin or a conditional of another estimator

    if TYPE_CHECKING:

        def _ask(self, question: Callable[[Any], Any], X: Any) -> Any: ...
        def _queried(self) -> PointDensity: ...
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
            raise AttributeError(self._no_sample("loo_log_density_ needs"))
        return self._loo()

    def _loo(self) -> NDArray[np.float64]:
        """The same of the rows that the fit used."""
        if self._left_out is None:
            assert self._sample is not None
            rows = torch.from_numpy(self._sample)
            weights = None if self._weights is None else check_weights(self._weights, rows)
            found = left_out_rows(self._fitted().refit(), as_density(self.field_), rows, weights)
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
        schema = None if self._frame is None else self._frame.schema
        words = CellWords.of(usual.cpu().numpy(), None if schema is None else schema.used)

        def answer(rows: Any) -> Reasons:
            points = as_points(rows, density.dim).detach().to(torch.float64)
            return explain_rows(
                density, points, usual, method=method, share=interval, names=self._labels, words=words
            )

        return with_constants(self._ask(answer, X), changed_constants(schema, X))

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
        if draws is not None and (isinstance(draws, bool) or not isinstance(draws, Integral) or draws < 1):
            raise DataError(f"draws={show_cell(draws)}: give a whole number above zero, or leave it out")
        found, rows = self._log_densities(X), self._numbers(X)
        sample, scale = self._sample, self._scale(rows)
        if draws is not None or sample is None or sample.ndim > 2:
            drawn = drawn_log_densities(self._density(), int(draws or DRAWS), scale=scale)
            return levels(on_scale(scale, found, rows), drawn)
        own = self._loo()
        found = recalled(rows, found, sample, own)
        return levels(on_scale(scale, found, rows), on_scale(scale, own, sample), self._weights)

    def p_value(self, X: Any, *, calibration: Any = None) -> NDArray[np.float64]:
        """Conformal p-values (m,) of the rows of X (m, d): small if they are odd.

        Parameters
        ----------
        X : rows, as for `estimate`; they are not those of the sample
        calibration : (k, d), optional
            Rows that the fit has not seen and that are not odd: then P(p <= a) <= a holds exactly, whatever
            the fit.  By default the rows of the sample, each by the fit without it.
        """
        return conformal_p_values(*self._oddness(X, calibration))

    def discoveries(self, X: Any, *, rate: float = 0.1, calibration: Any = None) -> NDArray[np.bool_]:
        """Which rows of X (m, d) to call odd so that at most a share ``rate`` of them is wrongly so: (m,).

        No p-value is below 1 / (1 + n), so with few rows in the sample one odd row among many cannot be told.
        A warning says so where nothing was found.
        """
        scores, own = self._oddness(X, calibration)
        p_values = conformal_p_values(scores, own)
        found = discoveries(p_values, rate)
        if not found.any():
            warn_if_too_few(p_values, rate, len(own))
        return found

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

    def log_mass(self, X: Any) -> Any:
        """Log (m,) of the probability in the bins of the rows of X (m, d): counts and steps as masses.

        The log density of a count is that of a smooth curve at a whole number; here it is averaged over the
        bin of the count.  Labels and values that repeat have a mass in either; any other column keeps its
        density.

        Parameters
        ----------
        X : rows, as for `estimate`

        Examples
        --------
        >>> import pandas as pd
        >>> from discoformer import DiScoFormer
        >>> visits = pd.DataFrame({"visits": np.random.default_rng(0).poisson(3, 300)})
        >>> every = pd.DataFrame({"visits": range(30)})
        >>> float(np.exp(DiScoFormer().fit(visits).log_mass(every)).sum().round(2))
        1.0
        """
        density = self._density()

        def answer(rows: Any) -> Any:
            points = as_points(rows, density.dim)
            found = log_mass(density, points.detach().to(torch.float64), kinds_of(density))
            return found if isinstance(rows, Tensor) else found.numpy()

        result = self._ask(answer, X)
        return wrap_column(result, "log_mass", X) if isinstance(result, np.ndarray) else result

    def entropy(self, *, split: Split | None = None, bootstrap: bool = False) -> Functional:
        """Differential entropy -E log f in nats, and its standard error; of the columns in `support_`.

        Parameters
        ----------
        split : "loo", "balanced", "folds" or "none", optional
            How to correct for asking a fit at points it has seen; see `discoformer.functionals`.  For a
            streamed sample of more than 32,768 rows the value is the mean over 8192 of them, without a
            correction.  For data with gaps, and for what `marginal` and `conditional` return, it is that of
            the fitted density itself, from draws.
        bootstrap : whether the standard error comes from 24 more fits; see `functionals.bootstrapped`
            It needs the sample in memory, without gaps.  The plain error is that of a mean over the rows, as
            if the fit were given; with gaps it is that of as many draws as there are rows.  Of a margin or
            conditional it is the error of the draws alone.
        """
        return self._functional(functionals.entropy, split, bootstrap)

    def fisher_information(self, *, split: Split = "balanced", bootstrap: bool = False) -> Functional:
        """Fisher information E |grad log f|^2, and its standard error; of the columns in `support_`.

        Parameters
        ----------
        split : "balanced", "folds" or "none", as for `entropy`
        bootstrap : as for `entropy`
        """
        return self._functional(functionals.fisher_information, split, bootstrap)

    def _functional(
        self, functional: Callable[..., Functional], split: Split | None, bootstrap: bool
    ) -> Functional:
        sample, source, weights = self._sample_and_source()
        gaps = self._sample is not None and bool(np.isnan(self._sample).any())
        if bootstrap:
            if self._sample is None:
                raise DataError(self._no_sample("bootstrap=True needs"))
            if gaps:
                raise DataError("bootstrap=True needs rows without gaps: leave it out, or drop those rows")
            return bootstrapped(functional, sample, source=source, weights=weights, split=split)
        found = functional(sample, source, weights=weights, split=split)
        if not gaps:
            return found
        assert self._sample is not None
        share = np.ones(len(self._sample)) if self._weights is None else self._weights
        rows = share.sum() ** 2 / (share**2).sum()  # as many as the draws stand for
        return found._replace(standard_error=found.standard_error * np.sqrt(len(sample) / rows).item())

    def _spread(self, X: Any, source: BarSource | None) -> Estimate[Any]:
        """Standard deviations of log density and score at X."""
        check_is_fitted(self)
        fitted, sample = self._fitted(), None if self._sample is None else torch.from_numpy(self._sample)
        weights = None
        if self._weights is not None and sample is not None:
            weights = check_weights(self._weights, sample)

        def answer(rows: Any) -> Estimate[Any]:
            points = as_points(rows, self.field_.dim).detach().to(torch.float64)
            why = self._no_sample("error bars need")
            spread = error_bars(fitted, sample, points, weights=weights, source=source, no_sample=why)
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

    def _log_densities(self, X: Any) -> NDArray[np.float64]:
        found = self._ask(self._queried().log_density, X)
        return np.asarray(found.detach() if isinstance(found, Tensor) else found)

    def _numbers(self, X: Any) -> NDArray[np.float64]:
        """Rows (m, D) as the density sees them."""
        found: NDArray[np.float64] = self._ask(lambda rows: torch.as_tensor(rows).detach().cpu().numpy(), X)
        return found

    def _scale(self, *rows: NDArray[np.float64]) -> CommonScale | None:
        """What makes rows comparable with those of the sample, where they have not the same cells."""
        known = [part for part in (self._sample, *rows) if part is not None]
        if any(part.ndim > 2 for part in known):
            return None
        kinds = [CONTINUOUS] * self.field_.dim if self._kinds is None else self._kinds
        return common_scale(self.field_, np.concatenate(known), kinds)

    def _oddness(self, X: Any, calibration: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What rows of X (m, d) are ranked by, and those they are ranked among (n,); low is odd."""
        parts = [X] if calibration is None else [X, calibration]
        rows, found = [self._numbers(part) for part in parts], [self._log_densities(part) for part in parts]
        if calibration is None:
            if self._sample is None:
                raise DataError(self._no_sample("p-values need") + ", or give calibration=")
            rows, found = [*rows, self._sample], [*found, self._loo()]
        scale = self._scale(*rows)
        scores, own = (on_scale(scale, *both) for both in zip(found, rows, strict=True))
        return scores, own

    def _no_sample(self, what: str) -> str:
        """What to do about a sample that was not kept."""
        if self._is_part:
            return f"{what} the sample, and a margin or conditional keeps none: fit to these columns alone"
        return f"{what} the sample in memory: fit to an array or a frame"

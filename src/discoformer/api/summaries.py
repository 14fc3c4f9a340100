"""A fitted density in a few numbers: mean, mode, intervals, regions and their masses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from discoformer.api.data_frames import FrameColumns
from discoformer.columns.schema_convert import cell_of, number_of_cell
from discoformer.columns.split import kinds_of
from discoformer.core.checks import DataError, show_cell
from discoformer.core.fields import Density, Field, as_density
from discoformer.functionals.masses import level_shares, probability
from discoformer.functionals.modes import mode
from discoformer.functionals.moments import column_moments, covariance
from discoformer.functionals.regions import Region, highest_density_region
from discoformer.functionals.splits import Functional

if TYPE_CHECKING:
    from discoformer.columns.schema_column import ColumnSchema

__all__ = ["Summaries"]


class Summaries:
    """Verbs of `DiScoFormer` that sum up a density; those read off draws always answer the same."""

    field_: Field
    _frame: FrameColumns | None

    if TYPE_CHECKING:

        @property
        def _labels(self) -> list[Any]: ...
        def _positions(self, columns: Any) -> list[int]: ...

    def mean(self) -> NDArray[np.float64]:
        """Mean (d,) of the density; NaN for categories, on a circle the mean direction.

        In closed form where there is one, as for mixtures without bounds and normal margins; else from draws
        of every column, with an error of std / 128.
        """
        return column_moments(self._density())[0]

    def cov(self) -> NDArray[np.float64]:
        """Covariance (d, d) of the density, in closed form or from draws as `mean`; NaN for categories."""
        return covariance(self._density())

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
        return {self._value(place, value): share for value, share in found.items()}

    def mode(self) -> Any:
        """The point (d,) of highest density, a value that the table can have; of a frame, a frame of one row.

        No other value is as dense as one with a mass of its own: labels and values that repeat come first.
        """
        top = mode(self._density())
        rows = top[None] if self._frame is None else self._frame.rows(top[None])
        return rows[0] if isinstance(rows, np.ndarray) else rows

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

        For one column it has ``intervals``, and ``values``: the labels, or the values that repeat, inside.
        For two columns of numbers it has ``outlines``, polygons to draw.  For two or more, a row is inside
        if its log density under ``marginal(columns)`` is not below ``log_density``.

        Examples
        --------
        >>> import pandas as pd
        >>> from discoformer import DiScoFormer
        >>> table = pd.DataFrame({"size": np.arange(90.0) ** 0.5, "kind": ["a", "b", "b"] * 30})
        >>> DiScoFormer().fit(table).region(0.5, "kind").values
        ['b']
        """
        density = self._density()
        places = list(range(density.dim)) if columns is None else self._positions(columns)
        density = density if columns is None else density.marginal(places)
        found = highest_density_region(density, share)
        return found._replace(values=[self._value(places[0], value) for value in found.values])

    def probability(self, region: Any) -> Functional:
        """Mass of a region and its standard error; in closed form for one column, else from draws.

        Parameters
        ----------
        region : a mapping from columns to what they are: (low, high) with both ends inside and None for an
            open end, or a single value, as the data has it: a number, a label, a date; or a function that
            tells which rows of an array (m, d) are inside

        A single number has a probability if it repeats or is a count or a step; else zero.  On a circle
        (22, 2) goes across midnight.

        Examples
        --------
        >>> import pandas as pd
        >>> from discoformer import DiScoFormer
        >>> table = pd.DataFrame({"size": np.arange(90.0) ** 0.5, "kind": ["a", "b", "b"] * 30})
        >>> round(DiScoFormer().fit(table).probability({"kind": "b"}).value, 1)
        0.7
        """
        if isinstance(region, Mapping):
            places = {self._positions(column)[0]: (column, ends) for column, ends in region.items()}
            region = {place: self._ends(place, *asked) for place, asked in places.items()}
        return probability(self._density(), region, self._labels)

    def _schema_of(self, column: int) -> ColumnSchema | None:
        return None if self._frame is None else self._frame.schema.used[column]

    def _value(self, column: int, value: float) -> Any:
        """A value with a mass of its own: a label if the column has labels."""
        schema = self._schema_of(column)
        return cell_of(schema, value) if schema is not None and schema.use == "code" else value

    def _ends(self, place: int, name: Any, ends: Any) -> Any:
        """What a region says of a column, in numbers."""
        schema = self._schema_of(place)
        if not isinstance(ends, tuple | list | np.ndarray) or np.ndim(ends) == 0:
            if ends is None:
                raise DataError(f"column {show_cell(name)} at None: give (low, high) or a single value")
            return number_of_cell(schema, name, ends)
        pair = tuple(None if end is None else number_of_cell(schema, name, end) for end in ends)
        if schema is not None and schema.use == "code" and (len(set(pair)) > 1 or None in pair):
            raise DataError(f"the labels of {show_cell(name)} have no order: give a single one")
        return pair

    def _density(self) -> Density:
        check_is_fitted(self)
        return as_density(self.field_)

    def _margin(self, column: Any) -> Density:
        [place] = self._positions(column)
        density = self._density()
        return density.marginal([place]) if density.dim > 1 else density

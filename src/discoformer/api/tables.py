"""Fitting a table that was read from a file: its kinds, bounds and weights count, as in the estimator."""

from __future__ import annotations

import warnings
from typing import Any

from discoformer.api.fitting import Fitted, fit_sample
from discoformer.data.files import few_values
from discoformer.data.table import Table

__all__ = ["fit_table"]


def fit_table(table: Table, model: Any = "default", bounds: Any = None) -> Fitted:
    """Fit a model to a table; warns of columns that have few values and are taken as continuous.

    Parameters
    ----------
    table : the data, with its kinds, bounds and weights
    model, bounds : as for `discoformer.DiScoFormer`; ``bounds`` go before those of the table

    >>> import numpy as np
    >>> table = Table(np.random.default_rng(0).normal(size=(50, 2)), ("a", "b"))
    >>> fit_table(table, "kde-scott").field.support
    [0, 1]
    """
    if note := few_values(table):
        warnings.warn(note, stacklevel=2)
    return fit_sample(
        table.values,
        model,
        weights=table.weights,
        bounds=bounds,
        names=table.names,
        kinds=table.kinds,
        own_bounds=table.bounds,
    )

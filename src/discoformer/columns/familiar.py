"""Values that come again: draws of a heaped column take the values that it has.

Prices end in .99, temperatures were converted from another unit, incomes are round.  A density blurs such
heaps, and draws from it have values that the column never had.  The chance that the next row has a value that
was seen before is one less the share of the values that were seen once (Good and Turing).  With this chance a
drawn number goes to the nearest value that occurs more than once.  A column without repeats keeps its draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from discoformer.columns.content_noise import content_noise
from discoformer.columns.schema import Schema

__all__ = ["Familiar"]

Points = NDArray[np.float64]


@dataclass(frozen=True)
class Familiar:
    """The values that occur more than once in columns of a sample, and the chance of one that was seen.

    Attributes
    ----------
    values : by column, (k,), in order
    chances : by column

    Examples
    --------
    >>> import pandas as pd
    >>> from discoformer.columns.schema import infer_schema
    >>> frame = pd.DataFrame({"price": [1.0, 1.0, 4.0, 4.0, 7.0]})
    >>> familiar = Familiar.of(frame.to_numpy(), infer_schema(frame))
    >>> familiar.values[0].tolist(), familiar.chances[0]
    ([1.0, 4.0], 0.8)
    >>> sorted(set(familiar.take(np.linspace(1.2, 2.4, 50)[:, None]).flatten().tolist()))[0]
    1.0
    """

    values: dict[int, Points]
    chances: dict[int, float]

    @classmethod
    def of(cls, sample: Points, schema: Schema) -> Familiar:
        """Of a table (n, d), NaN where there is a gap: all numbers but those that are to be continuous."""
        values, chances = {}, {}
        for j, column in enumerate(schema.used):
            if column.use == "code" or (column.kind == "continuous" and column.reason == "asked for"):
                continue
            distinct, counts = np.unique(sample[~np.isnan(sample[:, j]), j], return_counts=True)
            again = distinct[counts > 1]
            if len(again) > 1:
                values[j], chances[j] = again, 1 - float((counts == 1).sum() / counts.sum())
        return cls(values, chances)

    @classmethod
    def none(cls) -> Familiar:
        """No column's."""
        return cls({}, {})

    def take(self, draws: Points) -> Points:
        """Draws (k, d), some of them moved to the nearest value; those beyond all of these stay."""
        if not self.values:
            return draws
        found, noise = draws.copy(), content_noise(torch.from_numpy(draws), len(self.values)).numpy()
        for (j, values), luck in zip(self.values.items(), noise.T, strict=True):
            nearest = values[np.searchsorted((values[1:] + values[:-1]) / 2, draws[:, j])]
            moves = (luck < self.chances[j]) & (draws[:, j] > values[0]) & (draws[:, j] < values[-1])
            found[:, j] = np.where(moves, nearest, draws[:, j])
        return found

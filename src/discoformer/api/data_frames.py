"""Data frames as numbers and back: which columns a density covers, by which schema, in which types."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor

from discoformer.columns.familiar import Familiar
from discoformer.columns.impute import impute
from discoformer.columns.schema import ColumnSchema, Schema, infer_schema
from discoformer.columns.schema_convert import from_numbers, number_column, to_numbers
from discoformer.columns.schema_overrides import override
from discoformer.columns.schema_rules import classify
from discoformer.core.checks import DataError, show_cell, within_floats
from discoformer.core.fields import as_density
from discoformer.data.arrow import to_frame
from discoformer.data.containers import kind_of, kind_of_type, labels_of, refuse_columns

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "FrameColumns",
    "fill_gaps",
    "find_columns",
    "read_array_types",
    "read_frame",
]


@dataclass(frozen=True)
class FrameColumns:
    """The columns of a data frame that a density covers, and the conversion to numbers and back.

    Attributes
    ----------
    schema : of the columns of the frame
    holder : type of the frame
    """

    schema: Schema
    holder: type

    @property
    def labels(self) -> list[Any]:
        """What the columns of the density are called in the frame."""
        return [column.name for column in self.schema.used]

    @property
    def scored(self) -> list[int]:
        """Columns of the density that have a score: all but categories."""
        return [j for j, column in enumerate(self.schema.used) if column.use == "number"]

    def numbers(self, data: Any) -> NDArray[np.float64]:
        """The columns of the density (m, D) in another frame: by name, in the units of the sample."""
        frame = _as_pandas(data)
        missing = [label for label in self.labels if label not in frame.columns]
        if missing:
            have = ", ".join(map(show_cell, frame.columns))
            raise DataError(f"no column {show_cell(missing[0])}, which the sample has: there are {have}")
        with within_floats():
            return to_numbers(frame, self.schema)

    def rows(self, values: NDArray[np.float64]) -> Any:
        """Numbers (m, D) as a frame of the same type, with the types and the order of its columns."""
        frame = from_numbers(values, self.schema)
        kind = kind_of_type(self.holder)
        if kind == "polars":
            return sys.modules["polars"].from_pandas(frame)
        return self.holder(frame) if kind == "pandas" else frame.to_numpy(dtype=np.float64)

    def drawn(self, values: NDArray[np.float64], sample: NDArray[np.float64] | None, whole: bool) -> Any:
        """Draws (m, D) as such a frame; heaped columns have values of the ``sample`` (n, D).

        Unless ``whole``, some columns are linear in others, and moving values would break that.
        """
        if sample is not None and whole:
            values = Familiar.of(sample, self.schema).take(values)
        return self.rows(values)

    def given(self, columns: Sequence[int], values: Sequence[Any]) -> list[float]:
        """Values of columns, as the frame has them, as numbers."""
        import pandas as pd

        used = self.schema.used
        cells = [pd.Series([value], dtype=None) for value in values]
        numbers = zip(columns, cells, strict=True)
        return [float(number_column(used[column], cell)[0]) for column, cell in numbers]

    def select(self, columns: Sequence[int]) -> FrameColumns:
        """The same for some of the columns of the density."""
        used = self.schema.used
        return FrameColumns(Schema(tuple(used[j] for j in columns)), self.holder)


def read_frame(data: Any, types: Any, *, plain: bool) -> tuple[FrameColumns, NDArray[np.float64]] | None:
    """The columns of a frame and its numbers (n, D); None for data that is not a frame.

    Parameters
    ----------
    data : whatever the estimator was given
    types : as for `discoformer.columns.schema.infer_schema`
    plain : whether the density covers numbers only

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"a": [1.25, 2.5, None], "b": ["x", "y", "y"]})
    >>> columns, values = read_frame(frame, None, plain=False)
    >>> columns.labels, values.tolist()
    (['a', 'b'], [[1.25, 0.0], [2.5, 1.0], [nan, 1.0]])
    """
    if labels_of(data) is None or find_spec("pandas") is None:
        return None
    refuse_columns(data)
    frame = _as_pandas(data)
    with within_floats():
        schema = infer_schema(frame, types)
    schema = schema.plain() if plain else schema
    refused = schema.named("refused")
    if refused:
        why = f"column {show_cell(refused[0])} {schema[refused[0]].reason}"
        raise DataError(f"{why}: turn it into numbers or leave it out")
    if not schema.used:
        reasons = ", ".join(f"{show_cell(c.name)} ({c.kind}: {c.reason})" for c in schema)
        raise DataError(f"no column that a density could be of: {reasons}")
    schema.warn()
    values = to_numbers(frame, schema)
    single = all(frame[column.name].dtype == np.float32 for column in schema.used)
    return FrameColumns(schema, type(data)), values.astype(np.float32) if single else values


def read_array_types(
    values: NDArray[np.float64], types: Mapping[Any, str] | str
) -> tuple[FrameColumns, NDArray[np.float64]]:
    """The same for an array (n, d) whose columns are given kinds by their numbers; others are continuous."""
    import pandas as pd

    frame = pd.DataFrame(values)
    given = dict.fromkeys(frame.columns, types) if isinstance(types, str) else types
    unknown = [name for name in given if name not in frame.columns]
    if unknown:
        raise DataError(f"no column {show_cell(unknown[0])}: there are columns 0 to {len(frame.columns) - 1}")
    plain = {j: ColumnSchema(j, "continuous", "a column of an array", np.dtype(float)) for j in frame.columns}
    columns = [
        override(classify(j, frame[j]), frame[j], given[j]) if j in given else plain[j] for j in frame.columns
    ]
    schema = Schema(tuple(columns))
    schema.warn()
    return FrameColumns(schema, np.ndarray), to_numbers(frame, schema)


def fill_gaps(estimator: Any, data: Any, draws: int | None, random_state: Any) -> Any:
    """The data with its gaps filled by the density of an estimator; a list of tables with ``draws``."""
    columns: FrameColumns | None = estimator._frame
    values = torch.tensor(estimator._read_queries(data))
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    generator = torch.Generator().manual_seed(seed)
    density = as_density(estimator.field_)
    found = impute(density, values, estimator._kinds, draws=draws, generator=generator).numpy()
    tables = [_filled(data, table, columns) for table in (found if draws is not None else found[None])]
    return tables if draws is not None else tables[0]


def _filled(data: Any, values: NDArray[np.float64], columns: FrameColumns | None) -> Any:
    """The data with gaps replaced by numbers (m, D)."""
    if columns is None:
        return torch.from_numpy(values).to(data) if isinstance(data, Tensor) else values
    if labels_of(data) is None:
        return columns.rows(values)
    frame = _as_pandas(data).copy()
    filled = from_numbers(values, columns.schema).set_index(frame.index)
    for label in columns.labels:
        if frame[label].isna().any():
            frame[label] = frame[label].where(frame[label].notna(), filled[label])
    return sys.modules["polars"].from_pandas(frame) if kind_of(data) == "polars" else frame


def find_columns(columns: Any, labels: Sequence[Any]) -> list[int]:
    """Where columns that are given by label or, numbers, by position are among the labels.

    >>> find_columns("b", ["a", "b"]), find_columns([1, "a"], ["a", "b"])
    ([1], [1, 0])
    """
    names = list(labels)
    many = isinstance(columns, Iterable) and not isinstance(columns, str | bytes)
    one = not many or (isinstance(columns, tuple) and columns in names)
    asked = [columns] if one else list(columns)
    numbered = not any(isinstance(label, Integral) for label in names)  # else a number is a label
    unknown = [
        c
        for c in asked
        if c not in names and (isinstance(c, bool) or not (numbered and isinstance(c, Integral)))
    ]
    if unknown:
        raise DataError(f"no column {unknown[0]!r}: the sample has {', '.join(map(repr, labels))}")
    positions = [names.index(c) if c in names else int(c) for c in asked]
    if not positions or len(set(positions)) < len(positions):
        raise DataError(f"columns {asked}: give at least one, and none twice")
    if min(positions) < 0 or max(positions) >= len(labels):
        raise DataError(f"columns {asked}: there are columns 0 to {len(labels) - 1}")
    return positions


def _as_pandas(data: Any) -> pd.DataFrame:
    frame: pd.DataFrame = data if kind_of(data) == "pandas" else to_frame(data.to_arrow())
    return frame

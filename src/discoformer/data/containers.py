"""What users hold their data in: arrays, tensors, pandas and polars frames, and the same on the way out.

Neither pandas nor polars is imported here: a frame that arrives has brought its library along.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from discoformer.core.checks import DataError, column_names, show_cell

__all__ = [
    "in_order_of",
    "kind_of",
    "labels_of",
    "make_frame",
    "refuse_columns",
    "refuse_missing",
    "refuse_other_labels",
    "refuse_text",
    "wrap_column",
    "wrap_columns",
]

Kind = Literal["array", "tensor", "pandas", "polars"]


def kind_of(data: Any) -> Kind:
    """What the data is held in; everything that is not a tensor or a frame counts as an array.

    >>> kind_of([[1.0, 2.0]])
    'array'
    """
    return kind_of_type(type(data))


def kind_of_type(holder: type) -> Kind:
    """The same from the type alone."""
    if issubclass(holder, Tensor):
        return "tensor"
    for base in holder.__mro__:  # classes of users that are frames are frames
        home = base.__module__.split(".")[0]
        if base.__name__ == "DataFrame" and home in ("pandas", "polars"):
            return "pandas" if home == "pandas" else "polars"
    return "array"


def labels_of(data: Any) -> list[Any] | None:
    """The labels of a frame's columns: text, numbers or tuples."""
    return None if kind_of(data) in ("array", "tensor") else list(data.columns)


def wrap_column(values: NDArray[np.float64], name: str, like: Any) -> Any:
    """A column of answers (m,): a series with the index of ``like`` if that is a frame, else the array."""
    frame = wrap_columns(values[:, None], [name], like)
    return values if isinstance(frame, np.ndarray) else frame[name]


def wrap_columns(values: NDArray[np.float64], names: Sequence[Any], like: Any) -> Any:
    """Columns of answers (m, k): a frame with the index of ``like`` if that is a frame, else the array."""
    return make_frame(values, names, type(like), getattr(like, "index", None))


def make_frame(
    values: NDArray[np.float64], names: Sequence[Any], holder: type[Any], index: Any = None
) -> Any:
    """Columns (m, k) in the type that the data came in, if that is a frame, else the array."""
    kind = kind_of_type(holder)
    if kind == "pandas":
        return holder(values, index=index, columns=list(names))
    if kind == "polars":
        return holder(values, schema=list(names))
    return values


def in_order_of(first: Any, data: Any) -> Any:
    """The data with its columns in the order of ``first``, where both are frames; `DataError` for others.

    >>> import pandas as pd
    >>> sample = pd.DataFrame({"a": [1.0], "b": [2.0]})
    >>> in_order_of(sample, sample[["b", "a"]]).columns.tolist()
    ['a', 'b']
    """
    wanted, labels = labels_of(first), labels_of(data)
    if wanted is None or labels is None or wanted == labels:
        return data
    if len(set(wanted)) < len(wanted) or len(wanted) != len(labels) or set(wanted) != set(labels):
        raise DataError(
            f"one frame has {column_names(range(len(wanted)), wanted)}, the other "
            f"{column_names(range(len(labels)), labels)}: give the same columns of both"
        )
    return data[wanted] if kind_of(data) == "pandas" else data.select(wanted)


def refuse_columns(data: Any) -> None:
    """Raise `DataError` if a frame has no columns, or two of the same name."""
    labels = labels_of(data)
    if labels is None:
        return
    if not labels:
        raise DataError("X has no columns")
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise DataError(f"X has two columns {show_cell(twice)}: rename one of them")


def refuse_other_labels(data: Any, columns: Sequence[Any] | None) -> None:
    """Raise `DataError` if a frame has other labels than the sample, or another order of them.

    scikit-learn compares names; this is for the labels it takes no notice of, such as numbers.
    """
    labels = labels_of(data)
    if labels is None or columns is None or all(isinstance(label, str) for label in [*labels, *columns]):
        return
    if labels != list(columns):
        raise DataError(
            f"X has {column_names(range(len(labels)), labels)}, but the sample has "
            f"{column_names(range(len(columns)), columns)}: give them in this order, or an array"
        )


def refuse_text(data: Any) -> None:
    """Raise `DataError` that names the first column of a frame that does not hold numbers."""
    if kind_of(data) == "array":
        return
    for name in data.columns:
        column = np.asarray(data[name])
        try:
            column.astype(np.float64)
            numbers = True
        except (TypeError, ValueError):
            numbers = False
        if not numbers:
            raise DataError(
                f"column {show_cell(name)} holds text or dates: turn it into numbers or leave it out"
            ) from None


def refuse_missing(
    values: NDArray[np.float64], names: Sequence[Any] | None = None, *, gaps: bool = False
) -> None:
    """Raise `DataError` that names row and column of the first NaN or infinite value of (n, d).

    With ``gaps`` NaN is a missing value, and let through.

    >>> refuse_missing(np.array([[0.0, 1.0], [2.0, np.nan]]), ["a", "b"])
    Traceback (most recent call last):
        ...
    discoformer.DataError: X has NaN at row 1, column 'b' (1 NaN or infinite value(s) in all): \
drop or fill such rows first
    """
    bad = np.isinf(values) if gaps else ~np.isfinite(values)
    if not bad.any():
        return
    row, column = (int(i) for i in np.argwhere(bad)[0])
    what = "NaN" if np.isnan(values[row, column]) else "an infinity"
    which = f"column {column}" if names is None else f"column {show_cell(names[column])}"
    raise DataError(
        f"X has {what} at row {row}, {which} ({int(bad.sum())} NaN or infinite value(s) in all): "
        "drop or fill such rows first"
    )

"""Input checks shared by every entry point: one clear line that says what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.masked import MaskedTensor

from discoformer.core import private

__all__ = [
    "ColumnError",
    "DataError",
    "check_context",
    "check_points",
    "check_untracked",
    "check_weights",
    "column_names",
    "holds",
    "largest",
    "one_line",
    "plain",
    "printable",
    "refuse_unknown",
    "show_cell",
    "to_tensor",
    "traced",
    "within_floats",
]


class DataError(ValueError):
    """The data cannot be used as given; the message says what to change.

    The command line prints the message on one line and exits with code 2.
    """

    __module__ = "discoformer"  # where users import it from


class ColumnError(DataError):
    """Columns cannot be used, and why: a caller that knows them by other names says them again.

    >>> error = ColumnError([1], "constant")
    >>> str(error), str(error.named(["age", "height"]))
    ('column 1: constant', "'height': constant")
    """

    def __init__(self, columns: Sequence[int], why: str, names: Sequence[Any] | None = None) -> None:
        super().__init__(f"{column_names(columns, names) or 'some columns'}: {why}")
        self.columns, self.why = columns, why

    def named(self, names: Sequence[Any]) -> ColumnError:
        """The same with names of the columns."""
        return ColumnError(self.columns, self.why, names)


def column_names(columns: Sequence[int], names: Sequence[Any] | None = None) -> str:
    """Name columns for a message, at most eight of them.

    >>> column_names([0, 2], ["age", "height", "weight"])
    "'age', 'weight'"
    >>> column_names([3]), column_names([0], [2024])
    ('column 3', 'column 2024')
    """
    labels = [c if names is None else names[c] for c in columns[:8]]
    shown = [("" if isinstance(label, str) else "column ") + show_cell(label) for label in labels]
    rest = len(columns) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def refuse_unknown(
    asked: Iterable[Any], names: Sequence[Any], have: str = "there are", label: str = ""
) -> None:
    """Raise `DataError` at the first column asked for that is not among the names.

    >>> refuse_unknown(["agee"], ["age", "height"])
    Traceback (most recent call last):
        ...
    discoformer.DataError: no column 'agee', there are 'age', 'height'
    """
    for name in asked:
        if name not in names:
            every = column_names(range(len(names)), names)
            raise DataError(f"{label}no column {show_cell(name)}, {have} {every}")


def show_cell(value: object) -> str:
    """What a file or a user wrote, for a message: without control characters, at most 40 characters.

    >>> show_cell("tall"), show_cell("red\\x1b[31m"), show_cell("x" * 50)
    ("'tall'", "'red[31m'", "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'")
    """
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, str) and len(repr(value)) <= 40:
        return repr(value)
    return repr(printable(str(value), 40))


@contextmanager
def one_line(message: str, *, reason: bool = False) -> Iterator[None]:
    """Turn any error of a foreign parser in a broken file into a `DataError` with this message.

    >>> with one_line("data.xlsx: not a xlsx file, or a broken one"):
    ...     {}["no such part"]
    Traceback (most recent call last):
        ...
    discoformer.DataError: data.xlsx: not a xlsx file, or a broken one
    """
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # they have dozens of types
        said = printable(str(error), 200) or type(error).__name__
        raise DataError(f"{message}: {said}" if reason else message) from error


@contextmanager
def within_floats() -> Iterator[None]:
    """A `DataError` for whole numbers of Python that no floating number can hold."""
    try:
        yield
    except OverflowError:
        raise DataError("X has whole numbers too large for floating numbers: change the unit") from None


def printable(text: str, most: int = 1000) -> str:
    """Text on one line, without control characters, and not longer than ``most``.

    >>> printable("two\\nlines \\x1b[31m", 12)
    'two lines...'
    """
    line = "".join(character for character in " ".join(text[: 10 * most].split()) if character.isprintable())
    return line if len(line) <= most else line[: most - 3] + "..."


def check_points(
    points: Any,
    name: str,
    *,
    dim: int | None = None,
    min_rows: int = 1,
    gaps: bool = False,
) -> Tensor:
    """Return ``points`` as a finite floating tensor (..., n, d), or raise `DataError`.

    Arrays become float64 tensors; floating tensors keep their dtype, device and graph.  With ``gaps`` NaN
    stands for a missing value, and is let through.

    >>> check_points([[0.0, 1.0], [2.0, 3.0]], "context").shape
    torch.Size([2, 2])
    >>> check_points([[0.0, float("nan")]], "queries")
    Traceback (most recent call last):
        ...
    discoformer.DataError: queries has a NaN or infinite value at row 0, column 1 (1 in all): \
drop or fill such rows first
    """
    tensor = to_tensor(points, name)
    if tensor.ndim < 2:
        raise DataError(
            f"{name} has shape {tuple(tensor.shape)}, expected (rows, columns): "
            "reshape one column with x.reshape(-1, 1), one row with x.reshape(1, -1)"
        )
    rows, columns = tensor.shape[-2:]
    if columns == 0:
        raise DataError(f"{name} has no columns")
    if rows < min_rows:
        raise DataError(f"{name} has {rows} row(s), at least {min_rows} are needed")
    if dim is not None and columns != dim:
        raise DataError(f"{name} has {columns} column(s), but the context has {dim}")
    finite = torch.isfinite(tensor) | tensor.isnan() if gaps else torch.isfinite(tensor)
    if not bool(finite.all()):
        bad = (~finite).nonzero()
        *sample, row, column = bad[0].tolist()
        where = f"sample {', '.join(map(str, sample))}, " if sample else ""
        raise DataError(
            f"{name} has a NaN or infinite value at {where}row {row}, column {column} "
            f"({len(bad)} in all): drop or fill such rows first"
        )
    return tensor


def check_context(context: Any, *, min_rows: int = 2, name: str = "context", gaps: bool = False) -> Tensor:
    """`check_points` for a sample: enough rows, and values whose squares are finite.

    >>> check_context([[1e200], [0.0]])
    Traceback (most recent call last):
        ...
    discoformer.DataError: context has values beyond 3e+149, whose squares overflow: change the unit
    """
    points = check_points(context, name, min_rows=min_rows, gaps=gaps)
    limit, size = largest(points.dtype), points.detach().abs()
    if float((size.nan_to_num(0.0) if gaps else size).max()) > limit:
        raise DataError(f"{name} has values beyond {limit:.0e}, whose squares overflow: change the unit")
    return points


def largest(dtype: torch.dtype) -> float:
    """The largest value whose square, summed over many columns and rows, stays finite: 1e150 in float64."""
    return float(10 ** (0.97 * np.log10(torch.finfo(dtype).max) / 2))


def plain(data: Any, name: str = "X") -> Any:
    """The data without masks and sparse columns; `DataError` where it holds dates or spans of time.

    Converting whole arrays would silently read masked values, and dates as nanoseconds.

    >>> plain(np.ma.masked_equal([[1.0, -999.0]], -999.0)).tolist()
    [[1.0, nan]]
    """
    if isinstance(data, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in data):
        data = np.ma.array(data)
    if isinstance(data, np.ma.MaskedArray):
        whole = data.dtype.kind in "biu"
        data = np.ma.filled(data.astype(np.float64) if whole else data, np.nan)
    dtypes = getattr(data, "dtypes", None)  # a frame of pandas or polars has one for every column
    if dtypes is None or not hasattr(data, "columns"):
        _refuse_dates(getattr(data, "dtype", None), name)
        return data
    for column, dtype in zip(data.columns, dtypes, strict=True):
        _refuse_dates(dtype, f"column {show_cell(column)}")
    sparse = {c: t.subtype for c, t in zip(data.columns, dtypes, strict=True) if str(t).startswith("Sparse[")}
    return data.astype(sparse) if sparse else data


def _refuse_dates(dtype: Any, what: str) -> None:
    temporal = getattr(dtype, "is_temporal", None)  # of polars
    if getattr(dtype, "kind", "-") in "mM" or (temporal is not None and temporal()):
        raise DataError(f"{what} holds dates or spans of time: turn it into numbers or leave it out")


def to_tensor(values: Any, name: str) -> Tensor:
    """Values as a floating tensor, gaps included, or `DataError`."""
    if isinstance(values, Tensor):
        tensor: Tensor = _with_gaps(values) if isinstance(values, MaskedTensor) else values
        if tensor.is_complex():
            raise DataError(f"{name} is complex: give real and imaginary parts as columns")
        if tensor.layout != torch.strided or tensor.is_nested or tensor.is_meta or tensor.is_quantized:
            raise DataError(f"{name} is not a dense tensor of values: make it one first")
        # half precision is for storage: its logarithms and products are not those of a density
        if not tensor.is_floating_point():
            return tensor.to(torch.float64)
        return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
    values = plain(values, name)
    try:
        if any(base.__module__.split(".")[0] == "pandas" for base in type(values).__mro__):
            return torch.from_numpy(np.array(values.to_numpy(dtype=np.float64, na_value=np.nan), order="C"))
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"its type is {array.dtype}")
        return torch.from_numpy(np.array(array, dtype=np.float64, order="C"))
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} is not an array of numbers: {printable(str(error), 200)}") from error


def _with_gaps(values: MaskedTensor) -> Tensor:
    """What is masked as NaN."""
    data, there = values.get_data(), values.get_mask()
    data = data if data.is_floating_point() else data.to(torch.float64)
    return torch.where(there, data, torch.nan)


def check_untracked(weights: Tensor | None) -> None:
    """Refuse sample weights that carry a gradient: not every core of a network can give it."""
    if weights is not None and weights.requires_grad and torch.is_grad_enabled():
        raise DataError("sample weights require a gradient, which networks do not pass on: detach them")


def check_weights(weights: Any, points: Tensor) -> Tensor | None:
    """Return sample weights normalized to sum one, shape (..., n), or None.

    >>> check_weights([1.0, 3.0], torch.zeros(2, 1)).tolist()
    [0.25, 0.75]
    """
    if weights is None:
        return None
    tensor = to_tensor(weights, "sample weights").to(points)
    shape = points.shape[:-1]
    fits = tensor.ndim <= len(shape) and all(
        a == b or a == 1 for a, b in zip(tensor.shape[-2::-1], shape[-2::-1], strict=False)
    )
    if tensor.shape[-1:] != shape[-1:] or not fits:
        raise DataError(
            f"sample weights have shape {tuple(tensor.shape)}, expected one per row ({points.shape[-2]})"
        )
    if not bool(torch.isfinite(tensor).all()) or bool((tensor < 0).any()):
        raise DataError("sample weights must be finite and not negative")
    peak = tensor.amax(-1, keepdim=True)
    if bool((peak <= 0).any()):
        raise DataError("sample weights sum to zero: at least one row needs a positive weight")
    tensor = tensor / peak  # so that the sum cannot overflow
    return (tensor / tensor.sum(-1, keepdim=True)).expand(shape)


def traced() -> bool:
    """Whether a transform of `torch.func` or the compiler is at work, or may be: it is safe to think so.

    >>> traced(), bool(torch.func.vmap(lambda x: x + traced())(torch.zeros(1)))
    (False, True)
    """
    return torch.compiler.is_compiling() or private.INTERPRETERS is None or private.INTERPRETERS() is not None


def holds(mask: Tensor) -> bool | None:
    """Whether a mask is true anywhere; None where its values cannot be asked for, as on the meta device.

    >>> holds(torch.tensor([False, True])), holds(torch.zeros(2, dtype=torch.bool, device="meta"))
    (True, None)
    """
    if torch.compiler.is_compiling() or mask.is_meta:
        return None
    if private.INTERPRETERS is not None and private.INTERPRETERS() is not None:
        return None
    try:
        return bool(mask.any())
    except RuntimeError:  # inside a transform of a torch that does not tell so
        return None

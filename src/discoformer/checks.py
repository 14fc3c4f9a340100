"""Input checks shared by every entry point: one clear line that says what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["DataError", "check_points", "check_weights", "column_names"]


class DataError(ValueError):
    """The data cannot be used as given; the message says what to change.

    The command line prints the message on one line and exits with code 2.
    """


def column_names(columns: Sequence[int], names: Sequence[str] | None = None) -> str:
    """Name columns for a message, at most eight of them.

    >>> column_names([0, 2], ["age", "height", "weight"])
    "'age', 'weight'"
    >>> column_names([3])
    'column 3'
    """
    shown = [repr(names[c]) if names is not None else f"column {c}" for c in columns[:8]]
    rest = len(columns) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def check_points(
    points: Any,
    name: str,
    *,
    dim: int | None = None,
    min_rows: int = 1,
) -> Tensor:
    """Return ``points`` as a finite floating tensor (..., n, d), or raise `DataError`.

    Arrays become float64 tensors; floating tensors keep their dtype, device and graph.

    >>> check_points([[0.0, 1.0], [2.0, 3.0]], "context").shape
    torch.Size([2, 2])
    >>> check_points([[0.0, float("nan")]], "queries")
    Traceback (most recent call last):
        ...
    discoformer.checks.DataError: queries has a NaN or infinite value at row 0, column 1 (1 in all): \
drop or fill such rows first
    """
    if isinstance(points, Tensor):
        tensor = points if points.is_floating_point() else points.to(torch.float64)
    else:
        try:
            tensor = torch.from_numpy(np.array(points, dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise DataError(f"{name} is not an array of numbers: {error}") from error
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
    finite = torch.isfinite(tensor)
    if not bool(finite.all()):
        bad = (~finite).nonzero()
        row, column = (int(i) for i in bad[0, -2:])
        raise DataError(
            f"{name} has a NaN or infinite value at row {row}, column {column} "
            f"({len(bad)} in all): drop or fill such rows first"
        )
    return tensor


def check_weights(weights: Any, points: Tensor) -> Tensor | None:
    """Return sample weights normalized to sum one, shape (..., n), or None.

    >>> check_weights([1.0, 3.0], torch.zeros(2, 1)).tolist()
    [0.25, 0.75]
    """
    if weights is None:
        return None
    tensor = torch.as_tensor(weights, dtype=points.dtype, device=points.device)
    if tensor.shape[-1:] != points.shape[-2:-1]:
        raise DataError(
            f"sample weights have shape {tuple(tensor.shape)}, expected one per row ({points.shape[-2]})"
        )
    if not bool(torch.isfinite(tensor).all()) or bool((tensor < 0).any()):
        raise DataError("sample weights must be finite and not negative")
    total = tensor.sum(-1, keepdim=True)
    if bool((total <= 0).any()):
        raise DataError("sample weights sum to zero: at least one row needs a positive weight")
    return (tensor / total).expand(points.shape[:-1])

"""A fitted field on another device, or in another floating type: it is made of tensors, wherever they are."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from discoformer.core.fields import Field
from discoformer.core.transforms import ColumnMap, Transform

__all__ = ["moved"]

F = TypeVar("F", bound=Field)


def moved(field: F, where: torch.device | torch.dtype | str) -> F:
    """A copy of a field with all its tensors on a device, or in a floating type.

    >>> from discoformer.baselines.kde import KDE
    >>> moved(KDE().fit([[0.0], [1.0]]), torch.float32).log_density(torch.zeros(1, 1)).dtype
    torch.float32
    """
    place = torch.device(where) if isinstance(where, str) else where
    result: F = _move(field, place)
    return result


def _move(part: Any, where: torch.device | torch.dtype) -> Any:
    if isinstance(part, Tensor):
        return part.to(where) if part.is_floating_point() or isinstance(where, torch.device) else part
    if isinstance(part, tuple):
        parts = [_move(each, where) for each in part]
        return type(part)(*parts) if hasattr(part, "_fields") else tuple(parts)
    if isinstance(part, list):
        return [_move(each, where) for each in part]
    if isinstance(part, Mapping):
        return {key: _move(each, where) for key, each in part.items()}
    if isinstance(part, Field | Transform | ColumnMap):
        other = copy.copy(part)
        other.__dict__.update({key: _move(each, where) for key, each in part.__dict__.items()})
        return other
    return part
